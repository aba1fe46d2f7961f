//! The choice of the next record, and its key.

use crate::{distribution::Zipf, generator::Generator};
use fstrial_model::workload::{CoreWorkload, Ycsb};

/// The skew of YCSB's zipfian numbers.
const THETA: f64 = 0.99;
/// Items that the scrambled ones are drawn from: `ScrambledZipfianGenerator` has 0 to 10¹⁰.
const ITEMS: u64 = 10_000_000_001;
/// Its fixed ζ, of 10¹⁰ items.
const ZETA: f64 = 26.469_028_201_783_02;

/// Chooses records.
#[derive(Debug, Clone)]
pub(super) enum KeyChooser {
    /// Zipfian, scattered over this many records: those that there are, and those that are expected to come.
    Scrambled { ranks: Zipf, records: u64 },
    /// Zipfian from the newest backwards.
    Latest { ranks: Zipf },
}

impl KeyChooser {
    /// For one of this many threads, with `there` records from 0 on.
    pub(super) fn new(settings: &Ycsb, threads: u16, there: u64) -> Self {
        if settings.workload == CoreWorkload::D {
            let mut ranks = Zipf::new((settings.records - 1).max(2), THETA);
            // Not in the first operation.
            ranks.grow(there.saturating_sub(1));
            return Self::Latest { ranks };
        }
        // In the files that come with YCSB there are as many operations as records; it expects twice the share of inserts.
        let inserts = u64::from(settings.workload.proportions().insert);
        let operations = settings.operations.map(|each| each.saturating_mul(u64::from(threads)));
        // A run has no room for more than as many again, and one of which few are there would be drawn for ever.
        let expected =
            (operations.unwrap_or(settings.records).saturating_mul(inserts) / 50).min(settings.records);
        Self::Scrambled { ranks: Zipf::of_zeta(ITEMS, THETA, ZETA), records: settings.records + expected + 1 }
    }

    /// A record, of those from 0 on that `there` are.
    pub(super) fn draw(&mut self, generator: &mut Generator, there: u64) -> u64 {
        match self {
            Self::Scrambled { ranks, records } => loop {
                let record = fnv(ranks.draw(generator)) % *records;
                if record < there {
                    break record;
                }
            },
            Self::Latest { ranks } => {
                // `SkewedLatestGenerator` draws from as many items as the newest one's number is.
                ranks.grow(there - 1);
                (there - 1).saturating_sub(ranks.draw(generator))
            }
        }
    }
}

/// The key of a record: `buildKeyName` with `insertorder=hashed`.
pub(super) fn key_of(record: u64) -> String {
    format!("user{}", fnv(record))
}

/// `Utils.fnvhash64`: FNV-1a over the eight bytes, the lowest first; of the signed result the absolute value.
const fn fnv(value: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut octet = 0;
    while octet < 8 {
        hash = (hash ^ (value >> (8 * octet) & 0xff)).wrapping_mul(1_099_511_628_211);
        octet += 1;
    }
    (hash as i64).unsigned_abs()
}
