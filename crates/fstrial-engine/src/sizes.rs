//! Sizes of requests that are not all the same, in blocks.

use crate::{distribution::unit, generator::Generator};
use fstrial_model::{units::Bytes, workload::Sizes};

/// Draws sizes, as far as there is room.
#[derive(Debug, Clone)]
pub(crate) enum Sizer {
    /// Each size and the weights up to and including its own, from the smallest on.
    Listed(Vec<(u64, f64)>),
    /// Each of these equally often.
    Between { least: u64, most: u64 },
}

impl Sizer {
    /// For sizes that were validated; without any, each request is one block.
    pub(crate) fn new(sizes: Option<&Sizes>, block: Bytes) -> Self {
        let blocks = |size: Bytes| size.0 / block.0;
        match sizes {
            None => Self::Between { least: 1, most: 1 },
            Some(Sizes::Between { least, most }) => {
                Self::Between { least: blocks(*least), most: blocks(*most) }
            }
            Some(Sizes::Listed(sizes)) => {
                let mut listed: Vec<(u64, f64)> =
                    sizes.iter().map(|(size, weight)| (blocks(*size), *weight)).collect();
                listed.sort_unstable_by_key(|(size, _)| *size);
                let mut sum = 0.0;
                for (_, weight) in &mut listed {
                    sum += *weight;
                    *weight = sum;
                }
                Self::Listed(listed)
            }
        }
    }

    /// The smallest size.
    pub(crate) fn least(&self) -> u64 {
        match self {
            Self::Listed(listed) => listed[0].0,
            Self::Between { least, .. } => *least,
        }
    }

    /// The size of a request where `room` blocks are left: as if drawn again until it fits. None if not even the smallest
    /// does.
    pub(crate) fn draw(&self, room: u64, generator: &mut Generator) -> Option<u64> {
        match self {
            Self::Between { least, most } => {
                let most = (*most).min(room);
                (*least <= most).then(|| match most - least {
                    0 => most,
                    more => least + generator.below(more + 1),
                })
            }
            Self::Listed(listed) => {
                let fitting = &listed[..listed.partition_point(|(size, _)| *size <= room)];
                let (_, sum) = fitting.last()?;
                let drawn = unit(generator) * sum;
                let at = fitting.partition_point(|(_, upto)| *upto <= drawn);
                Some(fitting[at.min(fitting.len() - 1)].0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Stream;

    fn shares(sizes: &str, room: u64) -> Vec<f64> {
        let sizes: Sizes = sizes.parse().unwrap();
        let sizer = Sizer::new(Some(&sizes), Bytes::kib(4));
        let mut generator = Generator::new(5, Stream::Requests(0));
        let mut counts = vec![0_u32; 18];
        const DRAWS: u32 = 100_000;
        (0..DRAWS).for_each(|_| counts[sizer.draw(room, &mut generator).unwrap_or(0) as usize] += 1);
        counts.into_iter().map(|count| f64::from(count) / f64::from(DRAWS)).collect()
    }

    #[test]
    fn sizes_come_in_their_shares_as_far_as_they_fit() {
        let near = |share: f64, wanted: f64| assert!((share - wanted).abs() < 0.006, "{share}, not {wanted}");
        let all = shares("64KiB:40,4KiB:50,8KiB:10", 100);
        near(all[1], 0.5);
        near(all[2], 0.1);
        near(all[16], 0.4);
        let few = shares("64KiB:40,4KiB:50,8KiB:10", 15);
        near(few[1], 50.0 / 60.0);
        near(few[2], 10.0 / 60.0);
        let range = shares("8KiB-20KiB", 100);
        range[2..=5].iter().for_each(|share| near(*share, 0.25));
        let cut = shares("8KiB-20KiB", 3);
        cut[2..=3].iter().for_each(|share| near(*share, 0.5));
        assert_eq!(shares("8KiB-20KiB", 1)[0], 1.0);
        assert_eq!(shares("8KiB:1,64KiB:1", 1)[0], 1.0);
        assert_eq!(shares("8KiB", 2)[2], 1.0);
    }
}
