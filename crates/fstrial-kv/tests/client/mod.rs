//! A client that is killed: all writes acknowledged by its engine are there afterwards.

use super::{ENGINES, Engines};
use fstrial_engine::KeyValueEngines;
use fstrial_model::workload::{FIELD_BYTES, FIELDS, KeyValueEngine, Ycsb};
use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

/// Records that are acknowledged before the client is killed.
const ACKNOWLEDGED: usize = 200;

fn settings(engine: KeyValueEngine) -> Ycsb {
    // Little enough memory that data go to tables, too.
    Ycsb { engine, cache: fstrial_model::units::Bytes::mib(1), ..Ycsb::default() }
}

/// The client itself, on request: inserts records, and acknowledges each after (or, if hasty, before) it is there.
#[test]
fn client() {
    let (Some(folder), Ok(engine)) = (env::var_os("KV_FOLDER"), env::var("KV_ENGINE")) else { return };
    let engine = KeyValueEngine::named(&engine).unwrap();
    let store = Engines.open(&settings(engine), 1, Path::new(&folder)).unwrap();
    let mut session = store.session().unwrap();
    let record = vec![1; usize::from(FIELDS) * FIELD_BYTES];
    let say = |number: usize| writeln!(std::io::stderr(), "there {number}").unwrap();
    for number in 0.. {
        if env::var_os("KV_HASTY").is_some() {
            say(number);
            thread::park_timeout(Duration::from_millis(if number < ACKNOWLEDGED { 0 } else { 500 }));
        }
        session.insert(&format!("user{number}"), &record).unwrap();
        if env::var_os("KV_HASTY").is_none() {
            say(number);
        }
    }
}

/// Acknowledged records that are missing after the client was killed.
fn lost(engine: KeyValueEngine, hasty: bool) -> usize {
    let folder = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "this very program, which is killed below")]
    let mut client = Command::new(env::current_exe().unwrap());
    client.args(["--exact", "client::client", "--nocapture"]).env("KV_FOLDER", folder.path());
    client.env("KV_ENGINE", engine.name()).stdout(Stdio::null()).stderr(Stdio::piped());
    if hasty {
        client.env("KV_HASTY", "1");
    }
    let mut client = client.spawn().unwrap();
    let lines = BufReader::new(client.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut message = Vec::new();
    for line in lines {
        message.extend(line.strip_prefix("there ").map(|number| format!("user{number}")));
        if message.len() == ACKNOWLEDGED + 1 {
            client.kill().unwrap();
        }
    }
    client.wait().unwrap();
    assert!(message.len() > ACKNOWLEDGED, "{engine}: {} records", message.len());
    let store = Engines.open(&settings(engine), 1, folder.path()).unwrap();
    let mut session = Arc::clone(&store).session().unwrap();
    message.iter().filter(|key| session.read(key, &mut Vec::new()) != Ok(true)).count()
}

#[test]
fn acknowledged_writes_survive_kill() {
    for engine in ENGINES {
        assert_eq!(lost(engine, false), 0, "{engine}");
        assert_eq!(lost(engine, true), 1, "{engine}: a client that says so before it is true is found out");
    }
}
