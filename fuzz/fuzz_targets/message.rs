//! Lines from a worker: any bytes are a message or an error.
#![no_main]

use fstrial_model::job::{Job, WorkerMessage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = (serde_json::from_slice::<WorkerMessage>(bytes), serde_json::from_slice::<Job>(bytes));
});
