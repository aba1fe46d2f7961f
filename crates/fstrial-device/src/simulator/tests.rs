//! The simulated device against slower, obvious models and closed forms.

use super::*;
use fstrial_model::{
    device_model::{Cache, Disk, Limits, Raid, Service, shipped},
    units::{Bandwidth, Nanos},
};
use proptest::prelude::*;
use rand_chacha::rand_core::Rng;

const SIZE: Bytes = Bytes::gib(1);
const SECOND: Time = 1_000_000_000;

fn constant(latency: u64) -> Service {
    Service { latency: Nanos(latency), ..Service::default() }
}

fn request(kind: Kind, offset: u64, length: u64) -> Request {
    Request { kind, offset, length }
}

/// Submits requests at their times and returns when each was complete.
fn times(model: &DeviceModel, requests: &[(Time, Request)]) -> Vec<Time> {
    let mut device = Simulator::new(model, SIZE, 1);
    let mut complete = Vec::new();
    for (id, (at, request)) in requests.iter().enumerate() {
        device.submit(*at, id as u64, *request);
    }
    while let Some(at) = device.next_event() {
        device.advance(at, &mut complete);
    }
    assert_eq!(device.under_way(), 0);
    let mut times = vec![0; requests.len()];
    complete.iter().for_each(|done| times[usize::try_from(done.id).unwrap()] = done.at);
    times
}

/// Requests in a second if this many are always under way.
fn rate(model: &DeviceModel, depth: u64, seconds: u64, mut next: impl FnMut(u64) -> Request) -> f64 {
    let mut device = Simulator::new(model, SIZE, 1);
    let (mut count, mut complete) = (0, Vec::new());
    for id in 0..depth {
        device.submit(0, id, next(id));
    }
    while let Some(at) = device.next_event().filter(|at| *at < seconds * SECOND) {
        device.advance(at, &mut complete);
        for done in complete.drain(..) {
            count += 1;
            device.submit(done.at, depth + count, next(depth + count));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "counts")]
    let rate = count as f64 / seconds as f64;
    rate
}

fn random_pages(kind: Kind) -> impl FnMut(u64) -> Request {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    move |_| request(kind, (random.next_u64() % (SIZE.0 >> 12)) << 12, 4096)
}

#[test]
fn the_ideal_device_takes_no_time() {
    let all = Kind::ALL.map(|kind| (5, request(kind, 0, 4096)));
    assert_eq!(times(&DeviceModel::default(), &all), [5; 4]);
}

proptest! {
    /// The obvious model of this many places side by side: each request takes the place that is free first.
    #[test]
    fn places_side_by_side(places in 1_u16..8, arrivals in prop::collection::vec((0_u64..2000, 1_u64..64), 1..80)) {
        let service = Service {
            latency: Nanos(700), bandwidth: Some(Bandwidth(Bytes(4_000_000_000))), ..Service::default()
        };
        let model = DeviceModel { parallelism: Some(places), read: service, ..DeviceModel::default() };
        let mut now = 0;
        let requests: Vec<(Time, Request)> = arrivals.iter().map(|(gap, pages)| {
            now += gap;
            (now, request(Kind::Read, 0, pages * 4096))
        }).collect();
        let mut free = vec![0; places.into()];
        let expected: Vec<Time> = requests.iter().map(|(at, request)| {
            free.sort_unstable();
            free[0] = free[0].max(*at) + 700 + (request.length - 4096) / 4;
            free[0]
        }).collect();
        prop_assert_eq!(times(&model, &requests), expected);
    }

    /// No second sees more than is granted, and nothing waits that need not.
    #[test]
    fn a_limit_is_a_limit(iops in 100_u32..5000, gaps in prop::collection::vec(0_u64..2_000_000, 1..200)) {
        let limits = Limits { iops: Some(iops), ..Limits::default() };
        let model = DeviceModel { limits: Some(limits), ..DeviceModel::default() };
        let mut now = 0;
        let requests: Vec<_> = gaps.iter().map(|gap| { now += gap; (now, request(Kind::Write, 0, 512)) }).collect();
        let done = times(&model, &requests);
        let spacing = f64::from(iops).recip() * 1e9;
        let mut free = 0.0_f64;
        for ((at, _), done) in requests.iter().zip(&done) {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let (at, done) = (*at as f64, *done as f64);
            let expected = at.max(free);
            prop_assert!((done - expected).abs() <= 2.0, "{} {}", done, expected);
            free = expected + spacing;
        }
    }

    /// Every request of any mix on any model that ships is complete some time, once, and not before it came.
    #[test]
    fn everything_is_complete_once(
        which in 0..8_usize,
        mix in prop::collection::vec((0_u64..200_000, 0..4_usize, 0_u64..(1 << 17), 1_u64..40), 1..150),
    ) {
        let model = shipped(fstrial_model::device_model::MODELS[which].0).unwrap();
        let mut now = 0;
        let requests: Vec<_> = mix.iter().map(|(gap, kind, page, pages)| {
            now += gap;
            (now, request(Kind::ALL[*kind], page * 4096, pages * 4096))
        }).collect();
        let done = times(&model, &requests);
        for ((at, request), done) in requests.iter().zip(&done) {
            prop_assert!(done >= at, "{:?}", request);
        }
    }

    /// A flush is complete after everything that was complete before it came is written out.
    #[test]
    fn flush_waits_for_completed_writes(writes in prop::collection::vec(0_u64..500_000, 1..60)) {
        let cached = DeviceModel {
            parallelism: Some(2), write: constant(300_000),
            cache: Some(Cache { size: Bytes::mib(1), latency: Nanos(1000), volatile: true }), ..DeviceModel::default()
        };
        let mut now = 0;
        let mut requests: Vec<_> = writes.iter().map(|gap| { now += gap; (now, request(Kind::Write, 0, 4096)) }).collect();
        requests.push((now + 1000, request(Kind::Flush, 0, 0)));
        let flushed = *times(&cached, &requests).last().unwrap();
        // Time of the same writes without the cache.
        let plain = DeviceModel { cache: None, ..cached };
        let written_out = times(&plain, &requests[..writes.len()]).into_iter().max().unwrap();
        prop_assert_eq!(flushed, written_out.max(now + 1000));
    }
}

#[test]
fn volatile_cache_absorbs_writes_until_full() {
    let cache = Some(Cache { size: Bytes::mib(1), latency: Nanos(10_000), volatile: true });
    let model =
        DeviceModel { parallelism: Some(1), write: constant(1_000_000), cache, ..DeviceModel::default() };
    let writes: Vec<_> = (0..300).map(|n| (n, request(Kind::Write, 0, 4096))).collect();
    let done = times(&model, &writes);
    assert_eq!(done[0], 10_000);
    assert!(done[255] < 20_000, "256 pages fit: {}", done[255]);
    // The next one waits until the first is written out, and so on: a millisecond each.
    assert_eq!(done[257] - done[256], 1_000_000);
}

#[test]
fn raid_levels_scale_read_and_write_rates() {
    let one = DeviceModel {
        parallelism: Some(1),
        read: constant(1_000_000),
        write: constant(1_000_000),
        ..DeviceModel::default()
    };
    let raid = |level, members| DeviceModel {
        raid: Some(Raid { level, members, chunk: Bytes::kib(64) }),
        ..one.clone()
    };
    let reads = |model: &DeviceModel| rate(model, 64, 2, random_pages(Kind::Read)).round();
    let writes = |model: &DeviceModel| rate(model, 64, 2, random_pages(Kind::Write)).round();
    assert!((reads(&one), writes(&one)) == (1000.0, 1000.0), "{} {}", reads(&one), writes(&one));
    let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.05;
    assert!(near(reads(&raid(0, 4)), 4000.0) && near(writes(&raid(0, 4)), 4000.0));
    assert!(near(reads(&raid(1, 2)), 2000.0) && near(writes(&raid(1, 2)), 1000.0));
    assert!(near(reads(&raid(10, 8)), 8000.0) && near(writes(&raid(10, 8)), 4000.0));
}

#[test]
fn a_large_request_spans_the_members_of_a_stripe() {
    let bandwidth = Some(Bandwidth(Bytes::mib(100)));
    let read = Service { latency: Nanos(0), p99: None, bandwidth };
    let raid = Some(Raid { level: 0, members: 4, chunk: Bytes::kib(64) });
    let model = DeviceModel { read, raid, ..DeviceModel::default() };
    let alone = DeviceModel { raid: None, ..model.clone() };
    let whole = [(0, request(Kind::Read, 0, 1 << 20))];
    let (striped, alone) = (times(&model, &whole)[0], times(&alone, &whole)[0]);
    assert!(striped * 4 < alone + alone / 20, "{striped} {alone}");
}

/// Free preparations take no time, and leave the flash as it would be.
#[test]
fn free_writes_take_no_time_but_fill_flash() {
    let model = DeviceModel { flash: shipped("sata-ssd").unwrap().flash, ..DeviceModel::default() };
    let slowest = |prepared: u64| {
        let mut device = Simulator::new(&model, Bytes::mib(64), 1);
        let mut complete = Vec::new();
        device.set_free(true);
        for id in 0..prepared {
            device.submit(0, id, request(Kind::Write, id * 4096 * 7 % (64 << 20), 4096));
        }
        device.submit(0, prepared, request(Kind::Flush, 0, 0));
        device.advance(0, &mut complete);
        assert_eq!(complete.len() as u64, prepared + 1, "all at once");
        device.set_free(false);
        let mut next = random_pages(Kind::Write);
        let mut slowest = 0;
        for id in 1..1000 {
            let one = next(id);
            let came = device.now();
            device.submit(came, prepared + id, Request { offset: one.offset % (64 << 20), ..one });
            while device.under_way() > 0 {
                let at = device.next_event().unwrap();
                device.advance(at, &mut complete);
            }
            slowest = slowest.max(device.now() - came);
        }
        slowest
    };
    assert_eq!(slowest(0), 0, "erased flash waits for nothing");
    assert!(slowest(40_000) > 1_000_000, "full flash must be collected");
}

/// A device need not consist of whole stripes.
#[test]
fn the_last_bytes_of_a_stripe_are_on_a_member_too() {
    let raid = Some(Raid { level: 0, members: 3, chunk: Bytes::kib(64) });
    let flash = shipped("sata-ssd").unwrap().flash;
    let model = DeviceModel { raid, flash, ..DeviceModel::default() };
    let size = Bytes((5 << 20) + 4096);
    let mut device = Simulator::new(&model, size, 1);
    for (id, offset) in (0..size.0).step_by(4096).enumerate() {
        device.submit(0, id as u64, request(Kind::Write, offset, 4096));
    }
    while let Some(at) = device.next_event() {
        device.advance(at, &mut Vec::new());
    }
    assert_eq!(device.under_way(), 0);
}

fn disk() -> DeviceModel {
    let disk = Disk {
        rpm: 7200,
        track_seek: Nanos(800_000),
        full_seek: Nanos(15_200_000),
        outer_bandwidth: Bandwidth(Bytes::mib(180)),
        inner_bandwidth: Bandwidth(Bytes::mib(90)),
        capacity: None,
        read_ahead: Bytes::mib(2),
    };
    DeviceModel { disk: Some(disk), ..DeviceModel::default() }
}

/// One at a time: a mean seek and half a rotation. The mean of √|x − y| for x, y uniform on 0 to 1 is 8/15.
#[test]
fn random_reads_of_a_disk_wait_for_the_head_and_half_a_turn() {
    let expected_ns = 0.8e6 + 14.4e6 * 8.0 / 15.0 + 60e9 / 7200.0 / 2.0;
    let rate = rate(&disk(), 1, 200, random_pages(Kind::Read));
    let ratio = rate * expected_ns / 1e9;
    assert!((0.97..1.03).contains(&ratio), "{rate} a second, expected {}", 1e9 / expected_ns);
}

#[test]
fn a_queue_lets_the_disk_choose() {
    let alone = rate(&disk(), 1, 60, random_pages(Kind::Read));
    let queued = rate(&disk(), 32, 60, random_pages(Kind::Read));
    // Drives of this class go from about 75 to between 150 and 200.
    assert!((1.8..3.2).contains(&(queued / alone)), "{alone} and {queued}");
}

#[test]
fn disk_reads_outer_tracks_faster_than_inner() {
    let mib = |from: u64, depth: u64| {
        let next = move |n: u64| request(Kind::Read, (from + n * 65536) % (SIZE.0 - 65536), 65536);
        rate(&disk(), depth, 1, next) / 16.0
    };
    for depth in [1, 4] {
        let (outer, inner) = (mib(0, depth), mib(SIZE.0 - (200 << 20), depth));
        assert!((160.0..=181.0).contains(&outer), "{outer}");
        assert!((88.0..=115.0).contains(&inner), "{inner}");
    }
}

/// A small device models the beginning of a large disk, so bandwidth hardly depends on the offset in it.
#[test]
fn the_bandwidth_falls_over_the_capacity_and_not_over_the_device() {
    let model = shipped("hdd-7200").unwrap();
    let next = |n: u64| request(Kind::Read, SIZE.0 - (200 << 20) + n * 65536 % (128 << 20), 65536);
    let inner = rate(&model, 4, 1, next) / 16.0;
    assert!((170.0..=181.0).contains(&inner), "{inner}");
}

/// A battery keeps the cache: a flush sent regardless waits for nothing.
#[test]
fn flush_waits_only_for_volatile_cache() {
    for (volatile, waits) in [(true, true), (false, false)] {
        let cache = Some(Cache { size: Bytes::mib(4), latency: Nanos(1000), volatile });
        let mut device = Simulator::new(&DeviceModel { cache, ..disk() }, SIZE, 1);
        device.submit(0, 1, request(Kind::Write, 1 << 28, 4096));
        device.submit(2000, 2, request(Kind::Flush, 0, 0));
        let mut done = Vec::new();
        device.advance(10_000, &mut done);
        let flushed = done.iter().any(|completion| completion.id == 2);
        assert_eq!(flushed, !waits, "{done:?}");
    }
}

#[test]
fn queued_sequential_disk_writes_sustain_bandwidth() {
    let next = |n: u64| request(Kind::Write, n * 4096 % SIZE.0, 4096);
    let queued = rate(&disk(), 8, 1, next) * 4096.0 / f64::from(1 << 20);
    assert!(queued > 150.0, "{queued}");
}

/// Electronics that take their time for each request do not cost a rotation each.
#[test]
fn shipped_disks_stream_queued_sequential_writes() {
    for (name, least) in [("hdd-7200", 140.0), ("raid10-hdd", 300.0)] {
        let model = shipped(name).unwrap();
        let next = |n: u64| request(Kind::Write, n * 65536 % (SIZE.0 / 2), 65536);
        let streamed = rate(&model, 32, 4, next) * 65536.0 / f64::from(1 << 20);
        assert!(streamed > least, "{name}: {streamed} MiB/s");
    }
}

/// Requests with a waiter and writes that a flush waits for alternate, for any number of places.
#[test]
fn neither_reads_nor_a_flush_starve() {
    for places in [1, 2, 3, 32] {
        let cache = Some(Cache { size: Bytes::mib(4), latency: Nanos(1000), volatile: true });
        let model = DeviceModel {
            parallelism: Some(places),
            read: constant(1_000_000),
            write: constant(1_000_000),
            cache,
            ..DeviceModel::default()
        };
        let mut device = Simulator::new(&model, SIZE, 1);
        let mut complete = Vec::new();
        (0..200).for_each(|id| device.submit(0, id, request(Kind::Read, 0, 4096)));
        (200..300).for_each(|id| device.submit(0, id, request(Kind::Write, 0, 4096)));
        device.submit(2000, 300, request(Kind::Flush, 0, 0));
        while let Some(at) = device.next_event() {
            device.advance(at, &mut complete);
        }
        let at = |id: u64| complete.iter().find(|done| done.id == id).unwrap().at;
        let (flushed, read) = (at(300), at(150));
        let all = 300 * 1_000_000 / u64::from(places);
        assert!(flushed < all * 9 / 10, "{places}: the flush waited for all reads: {flushed} of {all}");
        assert!(read < all, "{places}: {read}");
        assert!(at(60) < flushed, "{places}: reads waited for the flush");
    }
}

#[test]
fn same_seed_yields_same_completion_times() {
    let model = shipped("sata-ssd").unwrap();
    let mut next = random_pages(Kind::Write);
    let requests: Vec<_> = (0..500).map(|n| (n * 10_000, next(n))).collect();
    assert_eq!(times(&model, &requests), times(&model, &requests));
}
