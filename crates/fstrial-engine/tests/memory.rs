//! Memory does not grow with the length of a run. Alone in its process, as it looks at the memory of all of it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fstrial_engine::loop_around_nothing;
use fstrial_model::measurement::OperationKind;
use hdrhistogram::{Histogram, serialization::Deserializer};

/// The most memory that this process ever had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn forty_million_latencies_take_no_more_memory_than_ten() {
    loop_around_nothing(10_000_000);
    let before = peak();
    let result = loop_around_nothing(40_000_000);
    let grown = peak() - before;
    // A single bit for each would be 4883 KiB; the allowance is for the allocator and the page tables. The windows of
    // the latencies' course are taken one after the other, 1024 of 1920 bytes at most.
    assert!(grown <= 2500, "{grown} KiB for 40 million operations");
    let bytes = STANDARD.decode(&result.histograms[&OperationKind::READ]).unwrap();
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!((result.operations, histogram.len()), (40_000_000, 40_000_000), "all are recorded");
}
