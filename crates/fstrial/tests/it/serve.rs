//! `fstrial serve` from outside, byte by byte: its pages, its escaping, its refusals, its end.

use crate::{
    planted::Night,
    support::{Lab, PATIENCE, Running},
};
use fstrial_store::{Store, TrialStatus};
use rustix::process::Signal;
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

fn store_of(lab: &Lab) -> Store {
    fs::create_dir_all(lab.home()).unwrap();
    Store::open(lab.home().join("results.db")).unwrap()
}

/// Twelve nights, the last six of them slower.
fn planted(lab: &Lab) -> Store {
    let mut store = store_of(lab);
    for day in 0..12 {
        let ratio = if day < 6 { 1.2 } else { 1.0 } + 0.003 * (day % 3) as f64;
        Night { day, name: format!("night {day}"), ratio, ..Night::default() }.store(&mut store);
    }
    store
}

/// A server on a free port.
struct Serving {
    running: Running,
    client: Client,
}

/// The one who asks it.
struct Client {
    /// `127.0.0.1:PORT`.
    address: String,
}

impl std::ops::Deref for Serving {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// An answer.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    /// A header, by its name in small letters.
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(result, _)| result.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Serving {
    fn start(lab: &Lab) -> Self {
        let mut running = lab.start("serve --listen 127.0.0.1:0");
        let line = running.line().unwrap_or_else(|| panic!("it does not serve"));
        let address =
            line.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned();
        Self { running, client: Client { address } }
    }

    /// Asks it to end; it does, in order.
    fn end(self, signal: Signal) {
        self.running.signal(signal);
        let ended = self.running.end(Duration::from_secs(30));
        assert_eq!(ended.code(), 0, "{ended:?}");
    }
}

impl Client {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads until the other side closes. A reset connection has sent its whole reply.
    fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        // It may be refused before all of it is sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn ask(&self, method: &str, target: &str, headers: &str) -> Reply {
        let request = format!("{method} {target} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        self.raw(request.as_bytes())
    }

    fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, &format!("Host: {}\r\n", self.address))
    }

    fn json(&self, target: &str) -> serde_json::Value {
        let reply = self.get(target);
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, Some("application/json")),
            "{reply:?}"
        );
        serde_json::from_str(&reply.body).unwrap()
    }
}

#[test]
fn trials_are_listed_searched_sorted_opened_and_compared() {
    let lab = Lab::new();
    drop(planted(&lab));
    let serving = Serving::start(&lab);
    let list = serving.get("/");
    assert_eq!((list.status, list.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(list.body.contains("12 trials") && list.body.len() < 40_000, "{}", list.body.len());
    let place =
        |body: &str, name: &str| body.find(&format!(">{name}<")).unwrap_or_else(|| panic!("no {name}"));
    assert!(place(&list.body, "night 11") < place(&list.body, "night 2"), "the latest first");
    let sorted = serving.get("/?sort=name").body;
    assert!(place(&sorted, "night 11") < place(&sorted, "night 2"), "as text");
    assert!(place(&sorted, "night 0") < place(&sorted, "night 1"));
    let result = serving.get("/?name=night+7&since=2026-01-02").body;
    assert!(result.contains("1 trial") && !result.contains("night 8<"), "{result}");
    assert!(serving.get("/?tag=nightly&status=decided&arm=xfs&kernel=6.17").body.contains("12 trials"));
    assert!(serving.get("/?tag=other").body.contains("No trial matches"));
    let report = serving.get("/trial/3");
    assert!(report.body.contains("night 2") && report.body.contains("</html>"));
    assert!(
        report.header("content-security-policy").unwrap().contains("script-src 'sha256-"),
        "its own, by hash"
    );
    let text = serving.get("/trial/3/text");
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(text.body.contains("xfs / ext4") && !text.body.contains('\u{1b}'), "{}", text.body);
    for target in ["/compare?a=1&b=12", "/compare?trial=1&trial=12"] {
        let both = serving.get(target);
        assert!(
            both.status == 200 && both.body.contains("night 0") && both.body.contains("night 11"),
            "{target}"
        );
    }
    assert_eq!(serving.get("/compare?a=1").status, 400);
    let trend = serving.get("/trend?arm=xfs&against=ext4&threads=4").body;
    assert!(trend.contains("<svg") && trend.contains("Changes") && trend.contains("worse"), "{trend}");
    assert_eq!(serving.json("/api/trials?name=night+7")[0]["name"], "night 7");
    assert_eq!(serving.json("/api/trials/3")["name"], "night 2");
    let trend = serving.json("/api/trend?arm=xfs&against=ext4&threads=4");
    assert_eq!(trend["series"][0]["changes"][0]["at"], 6);
    serving.end(Signal::INT);
    lab.check_store();
}

#[test]
fn list_shows_answers_and_offers_known_filter_values() {
    let lab = Lab::new();
    let mut store = planted(&lab);
    Night { day: 20, name: "one more".into(), status: TrialStatus::Running, ..Night::default() }
        .store(&mut store);
    Night { day: 21, name: "misspelt".into(), rounds: 0, status: TrialStatus::Failed, ..Night::default() }
        .store(&mut store);
    drop(store);
    let serving = Serving::start(&lab);
    let list = serving.get("/").body;
    for message in
        ["append-fsync", "image", "nothing is decided between ext4 and xfs", ">killed<", "13 trials"]
    {
        assert!(list.contains(message), "lacks `{message}`: {list}");
    }
    assert!(
        !list.contains("misspelt</a>") && list.contains("1 trial that never ran a round is left out"),
        "{list}"
    );
    assert!(serving.get("/?all=1").body.contains("misspelt</a>"));
    for offered in ["<option value=\"append-fsync\">", "<option value=\"lab1\">", "<option value=\"xfs\">"] {
        assert!(list.contains(offered), "lacks `{offered}`: {list}");
    }
    let trends = serving.get("/trend").body;
    assert!(
        trends.contains("list=\"there-is-against\"") && trends.contains("<option value=\"4\">"),
        "{trends}"
    );
    let short = serving.get("/trend?arm=xfs&against=ext4&threads=4&since=2026-01-12&until=2026-01-12").body;
    assert!(short.contains("1 trial, and 8 are needed") && short.contains("1 point<"), "{short}");
    serving.end(Signal::INT);
}

#[test]
fn hostile_store_content_is_escaped() {
    let lab = Lab::new();
    let mut store = store_of(&lab);
    for day in 0..9 {
        Night {
            day,
            name: "</title></script><script>alert(1)</script>".into(),
            host: "<img src=x onerror=alert(2)>".into(),
            kernel: "\"><svg onload=alert(3)>".into(),
            processor: "<iframe src=javascript:alert(4)>".into(),
            arm: "<b onclick>xfs</b>".into(),
            mkfs: format!("<script>alert({day})</script>"),
            note: "--></script><script>alert(6)</script>".into(),
            ratio: if day < 5 { 1.0 } else { 1.5 },
            ..Night::default()
        }
        .store(&mut store);
    }
    drop(store);
    let serving = Serving::start(&lab);
    let arm = "%3Cb%20onclick%3Exfs%3C%2Fb%3E";
    let targets = [
        "/".to_owned(),
        "/trial/1".into(),
        "/compare?a=1&b=2".into(),
        format!("/trend?arm={arm}&against=ext4"),
        format!("/trend?arm={arm}&against=nobody"),
        "/?name=%22%3E%3Cscript%3Ealert(7)%3C/script%3E".into(),
        "/?since=%3Cscript%3Ealert(8)%3C/script%3E".into(),
        "/?sort=%3Cscript%3E".into(),
    ];
    for target in &targets {
        let reply = serving.get(target);
        assert!([200, 400].contains(&reply.status), "{target}: {}", reply.status);
        for markup in ["<script>alert", "<img src=x", "<svg onload", "<iframe", "<b onclick", "\"><"] {
            let known =
                if markup == "\"><" { reply.body.contains("\"><svg o") } else { reply.body.contains(markup) };
            assert!(!known, "{target} has {markup}");
        }
        let policy = reply.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        let scripts = policy.split(';').find(|part| part.contains("script-src")).unwrap_or_default();
        assert!(!scripts.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    // It was there, as text.
    assert!(serving.get("/").body.contains("&lt;img src=x onerror=alert(2)&gt;"));
    let text = serving.get("/trial/1/text");
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"), "never taken for a page");
    serving.end(Signal::TERM);
}

#[test]
fn server_rejects_foreign_and_malformed_requests() {
    let lab = Lab::new();
    drop(planted(&lab));
    let serving = Serving::start(&lab);
    let own = format!("Host: {}\r\n", serving.address);
    for host in ["evil.example", "127.0.0.1.evil.example", "evil.example:7070", "192.168.7.7"] {
        let reply = serving.ask("GET", "/api/trials", &format!("Host: {host}\r\n"));
        assert_eq!(reply.status, 421, "{host}: {reply:?}");
        assert!(!reply.body.contains("night"), "{host}");
    }
    assert_eq!(serving.ask("GET", "/", "Host: localhost:1\r\n").status, 200, "through a tunnel");
    assert_eq!(serving.ask("GET", "/", "").status, 400, "no host");
    assert_eq!(serving.ask("GET", "/", &format!("{own}{own}")).status, 400, "two hosts");
    assert_eq!(serving.ask("GET", "http://evil.example/", &own).status, 421, "another host in the line");
    let foreign = |mode: &str| format!("{own}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: {mode}\r\n");
    let image = serving.ask("GET", "/trial/1", &foreign("no-cors"));
    assert_eq!(image.status, 403, "a page of another site asks: {image:?}");
    assert_eq!(serving.ask("GET", "/trial/1", &foreign("navigate")).status, 200, "a link from another site");
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"] {
        let reply = serving.ask(method, "/trial/1", &own);
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    for target in [
        "/../../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/trial/../style.css",
        "/trial/1/../2",
        "/trial/-1",
        "/trial/1%00",
        "/trial/99999999999999999999999",
        "/trial/777",
        "/trial/",
        "//",
        "/results.db",
        "/style.css/",
        "/api",
    ] {
        assert_eq!(serving.get(target).status, 404, "{target}");
    }
    assert_eq!(serving.ask("GET", "/", &format!("{own}Content-Length: 5\r\n")).status, 413);
    assert_eq!(serving.get(&format!("/?name={}", "x".repeat(6000))).status, 414);
    assert_eq!(serving.ask("GET", "/", &format!("{own}X: {}\r\n", "y".repeat(40_000))).status, 431);
    assert_eq!(serving.ask("GET", "/", &format!("{own}{}", "X: y\r\n".repeat(100))).status, 431);
    for garbage in
        [&b"\x16\x03\x01\x02\x00\x01"[..], b"GET /\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
    {
        let reply = serving.raw(garbage);
        assert!(
            reply.status == 400 || reply.status == 505 || reply.head.is_empty(),
            "{garbage:?}: {reply:?}"
        );
    }
    assert_eq!(serving.get("/").status, 200, "it is still well");
    serving.end(Signal::TERM);
}

#[test]
fn server_hides_results_path_from_visitors() {
    let lab = Lab::new();
    drop(planted(&lab));
    let serving = Serving::start(&lab);
    let home = lab.home().display().to_string();
    assert!(!serving.get("/trial/777").body.contains(&home));
    fs::write(lab.home().join("results.db"), "this is not a store at all".repeat(500)).unwrap();
    for target in
        ["/", "/trial/1", "/trial/1/text", "/api/trials", "/api/trials/1", "/trend?arm=xfs&against=ext4"]
    {
        let reply = serving.get(target);
        assert_eq!(reply.status, 500, "{target}: {reply:?}");
        assert!(
            !reply.body.contains(&home) && !reply.body.contains("results.db"),
            "{target}: {}",
            reply.body
        );
        assert!(reply.body.contains("the results"), "{target}: {}", reply.body);
    }
    serving.running.signal(Signal::TERM);
    let ended = serving.running.end(Duration::from_secs(30));
    assert!(ended.stderr.contains(&format!("/trial/1/text: {home}/results.db")), "{}", ended.stderr);
}

#[test]
fn head_matches_get_without_body() {
    let lab = Lab::new();
    drop(planted(&lab));
    let serving = Serving::start(&lab);
    for target in ["/", "/style.css", "/trial/1", "/api/trials", "/nothing"] {
        let (get, head) =
            (serving.get(target), serving.ask("HEAD", target, &format!("Host: {}\r\n", serving.address)));
        assert_eq!((get.status, head.body.as_str()), (head.status, ""), "{target}");
        for name in ["content-type", "content-length", "content-security-policy"] {
            assert_eq!(get.header(name), head.header(name), "{target}: {name}");
        }
        assert_eq!(get.header("content-length"), Some(get.body.len().to_string().as_str()), "{target}");
    }
    serving.end(Signal::INT);
}

#[test]
fn a_trial_is_written_while_many_read() {
    let lab = Lab::new();
    let mut store = planted(&lab);
    let serving = Serving::start(&lab);
    let (client, done) = (&serving.client, AtomicBool::new(false));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let (mut last, mut requested) = (0, 0);
                    while !done.load(Ordering::Relaxed) || requested == 0 {
                        let result = client.json("/api/trials").as_array().unwrap().len();
                        assert!(result >= last, "{result} after {last}");
                        assert_eq!(client.get("/trial/1/text").status, 200);
                        (last, requested) = (result, requested + 1);
                    }
                    requested
                })
            })
            .collect();
        for day in 12..20 {
            Night { day, ..Night::default() }.store(&mut store);
        }
        done.store(true, Ordering::Relaxed);
        let requested: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(requested >= 4);
    });
    assert_eq!(serving.json("/api/trials").as_array().unwrap().len(), 20);
    serving.end(Signal::TERM);
    drop(store);
    lab.check_store();
}

#[test]
fn slow_clients_time_out_without_blocking_others() {
    let lab = Lab::new();
    drop(planted(&lab));
    let serving = Serving::start(&lab);
    let begun = Instant::now();
    let mut slow: Vec<TcpStream> = (0..20).map(|_| serving.connect()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET / HTTP/1.1\r\nHost: local").unwrap());
    assert_eq!(serving.get("/").status, 200);
    assert!(begun.elapsed() < Duration::from_secs(9), "others are served meanwhile: {:?}", begun.elapsed());
    for stream in &mut slow {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(5) && waited < Duration::from_secs(60), "{waited:?}");
    serving.end(Signal::TERM);
}

#[test]
fn server_stops_despite_open_connection() {
    let lab = Lab::new();
    drop(planted(&lab));
    let serving = Serving::start(&lab);
    let mut kept = serving.connect();
    kept.write_all(format!("GET /style.css HTTP/1.1\r\nHost: {}\r\n\r\n", serving.address).as_bytes())
        .unwrap();
    let mut some = [0; 100];
    assert!(kept.read(&mut some).unwrap() > 0);
    let (address, begun) = (serving.address.clone(), Instant::now());
    serving.end(Signal::INT);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(TcpStream::connect(address).is_err(), "nobody listens");
}

#[test]
fn bad_listen_addresses_are_refused_at_startup() {
    let lab = Lab::new();
    assert_eq!(lab.run("serve").code(), 2, "no results");
    drop(planted(&lab));
    let open = lab.run("serve --listen 0.0.0.0:0");
    assert_eq!(open.code(), 2);
    assert!(
        open.stderr.contains("--anyone-on-the-network") && open.stderr.contains("no password"),
        "{open:?}"
    );
    let serving = Serving::start(&lab);
    let taken = lab.run(&format!("serve --listen {}", serving.address));
    assert_eq!(taken.code(), 2);
    assert!(
        taken.stderr.contains("could not listen on") && taken.stderr.contains("any free port"),
        "{taken:?}"
    );
    assert_eq!(lab.run("serve --listen nowhere").code(), 2);
    serving.end(Signal::TERM);
}
