//! Accepted requests: GET and HEAD of plain paths, with this server's own name.
//!
//! A page on the internet can make a browser request `http://evil.example/`, have that name point to 127.0.0.1
//! meanwhile (DNS rebinding), and read the answer as its own. The browser then sends `Host: evil.example`, so foreign
//! names are refused. Addresses cannot be rebound.
//!
//! A page of another site can also use this server's own name. It cannot read the answer, but it can cause work, and
//! observe whether and how soon an answer comes. Browsers mark such requests (`Sec-Fetch-Site`), and only a visitor who
//! follows a link from there is accepted (`Sec-Fetch-Mode: navigate`, to a full page and not into a frame).

use hyper::{
    HeaderMap, Method, StatusCode, Uri,
    header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING},
    http::uri::Authority,
};
use std::net::IpAddr;

/// Longest path with its query, in bytes.
const MAX_TARGET_BYTES: usize = 4096;
/// Most parameters of a query.
const MAX_PARAMETERS: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Names {
    /// True if it can only be reached from this machine.
    pub(super) is_loopback: bool,
    /// Names in addition to `localhost` and addresses.
    pub(super) others: Vec<String>,
}

/// An accepted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageRequest {
    /// The path, as it was sent.
    pub(super) path: String,
    /// Parameters, decoded.
    pub(super) query: Vec<(String, String)>,
}

impl PageRequest {
    /// The last parameter of this name that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    /// Every parameter of this name that is not empty.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let named = self.query.iter().filter(move |(key, value)| key == name && !value.trim().is_empty());
        named.map(|(_, value)| value.trim())
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

fn refuse<T>(status: StatusCode, why: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status, why })
}

/// Accepts a request, or returns the refusal.
pub(super) fn check(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    names: &Names,
) -> Result<PageRequest, Refusal> {
    // First of all: a request under a foreign name learns nothing else.
    check_host(uri, headers, names)?;
    check_site(headers)?;
    if method != Method::GET && method != Method::HEAD {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "results can only be read here");
    }
    let has_length = headers.get_all(CONTENT_LENGTH).iter().any(|length| length.as_bytes() != b"0");
    if has_length || headers.contains_key(TRANSFER_ENCODING) {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "a request has no content here");
    }
    let query = uri.query().unwrap_or_default();
    if uri.path().len() + query.len() > MAX_TARGET_BYTES {
        return refuse(StatusCode::URI_TOO_LONG, "the address is too long");
    }
    let query: Vec<(String, String)> =
        form_urlencoded::parse(query.as_bytes()).into_owned().take(MAX_PARAMETERS + 1).collect();
    if query.len() > MAX_PARAMETERS {
        return refuse(StatusCode::BAD_REQUEST, "the address has too many parameters");
    }
    Ok(PageRequest { path: uri.path().to_owned(), query })
}

/// Refuses requests by pages of another site. Clients other than browsers do not send their origin, and are accepted.
fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
    let says = |name: &str, words: &[&str]| {
        headers.get_all(name).iter().any(|value| words.iter().any(|word| value.as_bytes() == word.as_bytes()))
    };
    let is_foreign = says("sec-fetch-site", &["cross-site", "same-site"]);
    let is_visit = says("sec-fetch-mode", &["navigate"])
        && !says("sec-fetch-dest", &["iframe", "frame", "embed", "object", "fencedframe"]);
    match is_foreign && !is_visit {
        true => refuse(StatusCode::FORBIDDEN, "pages of other sites may not ask here"),
        false => Ok(()),
    }
}

fn check_host(uri: &Uri, headers: &HeaderMap, names: &Names) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return refuse(StatusCode::BAD_REQUEST, "missing or duplicate Host header");
    };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    // The address line may name a host as well, and then that is the one.
    let is_own = |authority: &Authority| is_own(authority, names);
    if !host.as_ref().is_some_and(is_own) || !uri.authority().is_none_or(is_own) {
        return refuse(StatusCode::MISDIRECTED_REQUEST, "this server has another name");
    }
    Ok(())
}

fn is_own(authority: &Authority, names: &Names) -> bool {
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host().trim_end_matches('.');
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || !names.is_loopback,
        Err(_) => names.others.iter().any(|name| host.eq_ignore_ascii_case(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(is_loopback: bool) -> Names {
        Names { is_loopback, others: vec!["lab1".into()] }
    }

    fn request(
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        is_loopback: bool,
    ) -> Result<PageRequest, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(hyper::header::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        check(&method, &target.parse().unwrap(), &map, &names(is_loopback)).map_err(|r| r.status.as_u16())
    }

    #[test]
    fn own_names_are_let_in_and_others_are_not() {
        for (host, on_loopback, on_network) in [
            ("localhost:7070", true, true),
            ("LOCALHOST", true, true),
            ("localhost.:7070", true, true),
            ("127.0.0.1:9", true, true),
            ("[::1]:7070", true, true),
            ("LAB1:7070", true, true),
            ("192.168.1.7:7070", false, true),
            ("[fe80::1]", false, true),
            ("evil.example", false, false),
            ("localhost.evil.example", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("localhost@evil.example", false, false),
            ("evil@localhost", false, false),
            ("", false, false),
            ("a b", false, false),
        ] {
            for (is_loopback, expected) in [(true, on_loopback), (false, on_network)] {
                let result = request("GET", "/", &[("host", host)], is_loopback);
                assert_eq!(result.is_ok(), expected, "{host}, loopback: {is_loopback}");
            }
        }
        assert_eq!(request("GET", "/", &[], true), Err(400));
        assert_eq!(request("GET", "/", &[("host", "localhost"), ("host", "localhost")], true), Err(400));
        let both = |target| request("GET", target, &[("host", "localhost")], true);
        assert_eq!(both("http://evil.example/"), Err(421));
        assert!(both("http://localhost:7070/trial/1").is_ok());
    }

    #[test]
    fn only_reading_without_content() {
        let own = ("host", "localhost");
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            assert_eq!(request(method, "/", &[own], true), Err(405), "{method}");
        }
        assert!(request("HEAD", "/", &[own], true).is_ok());
        assert_eq!(request("GET", "/", &[own, ("content-length", "3")], true), Err(413));
        assert_eq!(request("GET", "/", &[own, ("transfer-encoding", "chunked")], true), Err(413));
        assert_eq!(request("GET", &format!("/?a={}", "x".repeat(5000)), &[own], true), Err(414));
        assert_eq!(request("GET", &format!("/?{}", "a=1&".repeat(65)), &[own], true), Err(400));
    }

    #[test]
    fn pages_of_other_sites_may_only_be_left_by_a_link() {
        let own = ("host", "localhost");
        for (site, mode, dest, expected) in [
            ("none", "navigate", "document", Ok(())),
            ("same-origin", "no-cors", "style", Ok(())),
            ("same-origin", "cors", "empty", Ok(())),
            ("cross-site", "navigate", "document", Ok(())),
            ("same-site", "navigate", "document", Ok(())),
            ("cross-site", "navigate", "iframe", Err(403)),
            ("cross-site", "navigate", "object", Err(403)),
            ("cross-site", "no-cors", "image", Err(403)),
            ("cross-site", "no-cors", "script", Err(403)),
            ("same-site", "cors", "empty", Err(403)),
            ("cross-site", "websocket", "websocket", Err(403)),
        ] {
            let headers = [own, ("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            assert_eq!(request("GET", "/", &headers, true).map(|_| ()), expected, "{site}, {mode}, {dest}");
        }
        assert_eq!(request("GET", "/", &[own, ("sec-fetch-site", "cross-site")], true), Err(403));
    }

    #[test]
    fn parameters_are_decoded_and_empty_ones_are_none() {
        let result =
            request("GET", "/?name=a%20b+c&tag=&tag=x&tag=y", &[("host", "localhost")], true).unwrap();
        assert_eq!(result.get("name"), Some("a b c"));
        assert_eq!(result.all("tag").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(result.get("other"), None);
    }

    proptest! {
        #[test]
        fn foreign_host_names_are_rejected(host in "[a-z0-9.@:\\[\\]-]{1,40}") {
            let own = host.parse::<Authority>().is_ok_and(|authority| {
                let host = authority.host().trim_end_matches('.').to_owned();
                let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
                host == "localhost" || host == "lab1" || address.is_ok_and(|address| address.is_loopback())
            });
            if !own && let Ok(value) = host.parse::<hyper::header::HeaderValue>() {
                let mut headers = HeaderMap::new();
                headers.insert(HOST, value);
                prop_assert!(check(&Method::GET, &"/".parse().unwrap(), &headers, &names(true)).is_err());
            }
        }
    }
}
