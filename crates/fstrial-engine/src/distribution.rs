//! Draws block numbers with the distributions of `fstrial_model`: the formulas of the tools that made each known.
//!
//! All values that depend on the number of blocks are computed once. The functions are libm's: the same seed gives the
//! same requests on every machine, independent of its C library.

use crate::{
    generator::{Generator, Stream},
    permutation::Permutation,
};
use fstrial_model::{
    units::Bytes,
    workload::{Distribution, Extent, Zone},
};

/// Draws numbers in `0..n`.
#[derive(Debug, Clone)]
pub(crate) enum Sampler {
    Uniform { n: u64 },
    Zipf { ranks: Zipf, scattered: Permutation },
    Latest { ranks: Zipf },
    Pareto { n: u64, exponent: f64 },
    Normal { n: u64, draws: u32 },
    Special(Special),
    Zones(Zones),
}

/// Ranks with a probability in proportion to rank^−θ: Gray et al., "Quickly Generating Billion-Record Synthetic
/// Databases", SIGMOD 1994, figure 2, as in YCSB. Ranks 0 and 1 are exact; the others are close. It also works for θ
/// above 1, as fio uses it.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    n: u64,
    /// The first `n`, from which YCSB keeps computing η.
    first: u64,
    theta: f64,
    zeta: f64,
    /// ζ(2) = 1 + 0.5^θ.
    zeta_2: f64,
    alpha: f64,
    eta: f64,
}

/// sysbench 1.0's default, with its quirk: the number that chose the hot stretch also chooses the place in it.
#[derive(Debug, Clone)]
pub(crate) struct Special {
    n: u64,
    /// Largest number.
    t: f64,
    /// u is scaled by this; below `t` the bell is drawn.
    r: f64,
    /// Width of the hot stretch less one, and its beginning.
    d: f64,
    start: f64,
    iterations: u32,
}

/// Stretches of blocks, by Walker's alias method (1977): a column is drawn, then one of the two zones in it, in
/// constant time for any number of zones.
#[derive(Debug, Clone)]
pub(crate) struct Zones(Box<[Column]>);

/// As likely as any other column.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// A draw from here on takes the second zone, which equals the first if the column has only one.
    second_from: u64,
    /// First block, and number of blocks.
    zones: [(u64, u64); 2],
}

/// Terms summed one by one; the sum of the others is known to all digits from their integral.
const TERMS: u64 = 10_000;

/// The sum of i^−θ for i from 1 to n, with the tail by Euler and Maclaurin: constant time, and exact to about 1e-13
/// where fio stops after 10^7 terms.
fn zeta(n: u64, theta: f64) -> f64 {
    let power = |i: f64, exponent: f64| libm::pow(i, exponent);
    let head: f64 = (1..=n.min(TERMS)).rev().map(|i| power(i as f64, -theta)).sum();
    if n <= TERMS {
        return head;
    }
    let (m, n) = (TERMS as f64, n as f64);
    let integral = (power(n, 1.0 - theta) - power(m, 1.0 - theta)) / (1.0 - theta);
    let ends = (power(n, -theta) - power(m, -theta)) / 2.0;
    let slopes = theta / 12.0 * (power(m, -theta - 1.0) - power(n, -theta - 1.0));
    head + integral + ends + slopes
}

/// Uniform in [0, 1), with 53 bits.
#[inline]
pub(crate) fn unit(generator: &mut Generator) -> f64 {
    (generator.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// The mean of uniform numbers.
#[inline]
fn mean(generator: &mut Generator, draws: u32) -> f64 {
    (0..draws).map(|_| unit(generator)).sum::<f64>() / f64::from(draws)
}

impl Zipf {
    pub(crate) fn new(n: u64, theta: f64) -> Self {
        Self::of_zeta(n, theta, zeta(n, theta))
    }

    /// The same with a ζ(n) that is known.
    pub(crate) fn of_zeta(n: u64, theta: f64, zeta: f64) -> Self {
        let (zeta_2, alpha) = (1.0 + libm::pow(0.5, theta), 1.0 / (1.0 - theta));
        let ranks = Self { n, first: n, theta, zeta, zeta_2, alpha, eta: 0.0 };
        Self { eta: ranks.eta(), ..ranks }
    }

    fn eta(&self) -> f64 {
        let first = self.first as f64;
        (1.0 - libm::pow(2.0 / first, 1.0 - self.theta)) / (1.0 - self.zeta_2 / self.zeta)
    }

    /// Grows to this many ranks; a smaller number changes nothing. As YCSB's `ZipfianGenerator::nextLong` does it.
    pub(crate) fn grow(&mut self, n: u64) {
        if n > self.n {
            self.zeta += (self.n + 1..=n).map(|i| libm::pow(i as f64, -self.theta)).sum::<f64>();
            self.n = n;
            self.eta = self.eta();
        }
    }

    #[inline]
    pub(crate) fn draw(&self, generator: &mut Generator) -> u64 {
        let u = unit(generator);
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.zeta_2 || self.n == 2 {
            return 1;
        }
        let rank = self.n as f64 * libm::pow(self.eta * u - self.eta + 1.0, self.alpha);
        (rank as u64).min(self.n - 1)
    }
}

impl Special {
    fn new(n: u64, percent: u32, resolution: u32, iterations: u32) -> Self {
        let (t, percent) = ((n - 1) as f64, f64::from(percent));
        Self {
            n,
            t,
            r: t * 100.0 / (100.0 - f64::from(resolution)),
            d: t * percent / 100.0,
            start: t / 2.0 - t * percent / 200.0,
            iterations,
        }
    }

    #[inline]
    fn draw(&self, generator: &mut Generator) -> u64 {
        let u = unit(generator);
        let number = if u * self.r < self.t {
            self.t * mean(generator, self.iterations)
        } else {
            u * (self.d + 1.0) + self.start
        };
        (number as u64).min(self.n - 1)
    }
}

impl Zones {
    /// From zones with their weights.
    fn new(zones: &[((u64, u64), f64)]) -> Self {
        let count = zones.len() as f64 / zones.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut columns: Vec<Column> =
            zones.iter().map(|(zone, _)| Column { second_from: u64::MAX, zones: [*zone; 2] }).collect();
        // The rest of each zone, in columns. One that fills less than its own is joined by one that fills more.
        let mut left: Vec<f64> = zones.iter().map(|(_, weight)| weight * count).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..zones.len()).partition(|zone| left[*zone] < 1.0);
        while let (Some(one), Some(other)) = (small.pop(), large.last().copied()) {
            columns[one].second_from = (left[one] * 2_f64.powi(64)) as u64;
            columns[one].zones[1] = zones[other].0;
            left[other] -= 1.0 - left[one];
            if left[other] < 1.0 {
                large.pop();
                small.push(other);
            }
        }
        Self(columns.into())
    }

    #[inline]
    fn draw(&self, generator: &mut Generator) -> u64 {
        let draw = u128::from(generator.next()) * self.0.len() as u128;
        let column = &self.0[(draw >> 64) as usize];
        let (first, blocks) = column.zones[usize::from(draw as u64 >= column.second_from)];
        first + generator.below(blocks)
    }
}

/// First block and number of blocks of each zone of n blocks, rounded as fio does it.
fn stretches(zones: &[Zone], n: u64, block: Bytes) -> Vec<((u64, u64), f64)> {
    let (mut percent, mut bytes) = (0.0, 0);
    let share = |percent: f64| (percent * n as f64 / 100.0) as u64;
    let stretch = |zone: &Zone| {
        let (first, blocks) = match zone.extent {
            Extent::Percent(size) => {
                let before = percent;
                percent += size;
                (share(before), share(size))
            }
            Extent::Bytes(size) => {
                bytes += size.0;
                let first = (bytes - size.0) / block.0;
                (first, bytes / block.0 - first)
            }
        };
        let first = first.min(n - 1);
        ((first, blocks.clamp(1, n - first)), zone.weight)
    };
    zones.iter().map(stretch).collect()
}

impl Sampler {
    /// For numbers in `0..n` of blocks of this size, at least two unless uniform, and as many as there are in zones
    /// (validated). `seed` is the load's: all its threads have the same hot blocks.
    pub(crate) fn new(distribution: &Distribution, n: u64, block: Bytes, seed: u64) -> Self {
        assert!(n > 1 || (n == 1 && distribution.is_uniform()), "validated");
        match *distribution {
            Distribution::Uniform => Self::Uniform { n },
            Distribution::Zipf { theta } => Self::Zipf {
                ranks: Zipf::new(n, theta),
                scattered: Permutation::new(n, &mut Generator::new(seed, Stream::Places)),
            },
            Distribution::Latest { theta } => Self::Latest { ranks: Zipf::new(n, theta) },
            Distribution::Pareto { h } => Self::Pareto { n, exponent: libm::log(h) / libm::log(1.0 - h) },
            Distribution::Normal { draws } => Self::Normal { n, draws },
            Distribution::Special { percent, resolution, iterations } => {
                Self::Special(Special::new(n, percent, resolution, iterations))
            }
            Distribution::Hotspot { fraction, share } => {
                let hot = ((n as f64 * fraction) as u64).clamp(1, n - 1);
                Self::Zones(Zones::new(&[((0, hot), share), ((hot, n - hot), 1.0 - share)]))
            }
            Distribution::Zones(ref zones) => Self::Zones(Zones::new(&stretches(zones, n, block))),
        }
    }

    /// The next number.
    #[inline]
    pub(crate) fn draw(&self, generator: &mut Generator) -> u64 {
        let below = |n: u64, x: f64| ((n as f64 * x) as u64).min(n - 1);
        match self {
            Self::Uniform { n } => generator.below(*n),
            Self::Zipf { ranks, scattered } => scattered.at(ranks.draw(generator)),
            Self::Latest { ranks } => ranks.n - 1 - ranks.draw(generator),
            Self::Pareto { n, exponent } => below(*n, libm::pow(unit(generator), *exponent)),
            Self::Normal { n, draws } => below(*n, mean(generator, *draws)),
            Self::Special(special) => special.draw(generator),
            Self::Zones(zones) => zones.draw(generator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DRAWS: u32 = 400_000;

    fn counts(distribution: Distribution, n: u64) -> Vec<f64> {
        let sampler = Sampler::new(&distribution, n, Bytes::kib(4), 9);
        let mut generator = Generator::new(5, Stream::Requests(0));
        let mut counts = vec![0.0; n as usize];
        (0..DRAWS).for_each(|_| counts[sampler.draw(&mut generator) as usize] += 1.0);
        counts
    }

    fn share(counts: &[f64]) -> f64 {
        counts.iter().sum::<f64>() / f64::from(DRAWS)
    }

    /// Chi-squared of counts against expected shares is within five standard deviations of its expectation.
    /// Neighbouring cells are merged until 20 draws are expected.
    fn assert_fits(counts: &[f64], expected: impl Fn(usize) -> f64) {
        let (mut chi2, mut cells, mut got, mut want, mut total) = (0.0, 0, 0.0, 0.0, 0.0);
        for (number, count) in counts.iter().enumerate() {
            got += count;
            want += expected(number) * f64::from(DRAWS);
            total += expected(number);
            if want >= 20.0 {
                chi2 += (got - want) * (got - want) / want;
                cells += 1;
                (got, want) = (0.0, 0.0);
            }
        }
        assert!((total - 1.0).abs() < 1e-9, "the expected shares sum up to {total}");
        let freedom = f64::from(cells - 1);
        let deviation = (chi2 - freedom) / (2.0 * freedom).sqrt();
        assert!(cells > 3 && deviation.abs() < 5.0, "chi-squared {chi2} with {freedom} degrees of freedom");
    }

    #[test]
    fn zeta_is_known_to_all_digits() {
        // YCSB's constant for its scrambled generator, and ζ(1000) as computed by the reference.
        assert!((zeta(10_000_000_001, 0.99) - 26.469_028_201_783_02).abs() < 1e-9);
        assert!((zeta(1000, 0.99) - 7.728_953_217).abs() < 1e-9);
        assert_eq!(zeta(1, 0.5), 1.0);
        for theta in [0.01, 0.5, 0.99, 1.1, 2.0, 5.0] {
            for n in [TERMS, TERMS + 1, 1_000_000] {
                let slow: f64 = (1..=n).rev().map(|i| (i as f64).powf(-theta)).sum();
                assert!((zeta(n, theta) / slow - 1.0).abs() < 1e-12, "{n} {theta}");
            }
        }
    }

    #[test]
    fn zipf_has_the_shares_of_ycsb() {
        let counts = counts(Distribution::Latest { theta: 0.99 }, 1000);
        // The last block is the hottest.
        for (rank, expected) in [(0, 0.1294), (1, 0.0651)] {
            let got = counts[999 - rank] / f64::from(DRAWS);
            assert!((got - expected).abs() < 0.0015, "rank {rank}: {got}");
        }
    }

    /// Share of rank r by Gray's formula: from solving it for u.
    fn gray(n: u64, theta: f64) -> impl Fn(usize) -> f64 {
        let zipf = Zipf::new(n, theta);
        let above = move |rank: u64| match rank {
            0 => 0.0,
            1 => 1.0 / zipf.zeta,
            _ => {
                let u = ((rank as f64 / n as f64).powf(1.0 / zipf.alpha) - 1.0 + zipf.eta) / zipf.eta;
                if rank == n { 1.0 } else { u.max(zipf.zeta_2 / zipf.zeta) }
            }
        };
        move |rank| above(rank as u64 + 1) - above(rank as u64)
    }

    #[test]
    fn zipf_scatters_ranks_and_keeps_frequencies() {
        for (theta, n) in [(0.99, 1000), (0.5, 100), (1.2, 5000)] {
            let mut scattered = counts(Distribution::Zipf { theta }, n);
            let mut hottest: Vec<usize> = (0..n as usize).collect();
            hottest.sort_by(|a, b| scattered[*b].total_cmp(&scattered[*a]));
            let apart = hottest[..10].windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > 1).count();
            assert!(apart >= 8, "hot blocks are neighbours: {:?}", &hottest[..10]);
            // By rank: undo the scattering.
            let zipf = Sampler::new(&Distribution::Zipf { theta }, n, Bytes(1), 9);
            let Sampler::Zipf { scattered: order, .. } = zipf else { panic!("a zipf sampler") };
            scattered = (0..n).map(|rank| scattered[order.at(rank) as usize]).collect();
            assert_fits(&scattered, gray(n, theta));
        }
    }

    #[test]
    fn zipf_is_the_same_for_all_threads_of_a_load_and_differs_between_seeds() {
        let zipf = Distribution::Zipf { theta: 0.99 };
        let hottest = |seed| match Sampler::new(&zipf, 1 << 20, Bytes(1), seed) {
            Sampler::Zipf { scattered, .. } => scattered.at(0),
            _ => panic!("a zipf sampler"),
        };
        assert_eq!(hottest(1), hottest(1));
        assert_ne!(hottest(1), hottest(2));
    }

    #[test]
    fn hotspot_share_lands_in_hot_fraction() {
        let counts = counts(Distribution::Hotspot { fraction: 0.2, share: 0.8 }, 1000);
        assert!((share(&counts[..200]) - 0.8).abs() < 0.004);
        assert_fits(&counts, |number| if number < 200 { 0.8 / 200.0 } else { 0.2 / 800.0 });
    }

    /// fio 3.33's own way, from io_u.c and zone-dist.c: a table with a place for each of 100 percents.
    #[test]
    fn zones_have_the_shares_of_fios_table() {
        for zones in [&[(60, 10), (30, 20), (8, 30), (2, 40)][..], &[(5, 1), (0, 20), (95, 7)], &[(100, 33)]]
        {
            let listed: Vec<String> = zones.iter().map(|(share, size)| format!("{size}%:{share}")).collect();
            let n = 1237;
            let mut expected = vec![0.0; n];
            let mut before = 0;
            for (share, size) in zones {
                let (first, blocks) = (before * n / 100, n * size / 100);
                expected[first..first + blocks]
                    .iter_mut()
                    .for_each(|block| *block = f64::from(*share) / 100.0 / blocks as f64);
                before += size;
            }
            let counts = counts(format!("zones:{}", listed.join(",")).parse().unwrap(), n as u64);
            assert!(counts.iter().zip(&expected).all(|(count, share)| *share > 0.0 || *count == 0.0));
            assert_fits(&counts, |number| expected[number]);
        }
        // In bytes, of blocks of 4 KiB, as zoned_abs: blocks after the zones are left alone.
        let counts = counts("zones:1MiB:70,64KiB:20,10KiB:10".parse().unwrap(), 1000);
        let zones = [(0..256, 0.7), (256..272, 0.2), (272..274, 0.1)];
        assert_fits(&counts, |number| {
            zones
                .iter()
                .find(|(zone, _)| zone.contains(&number))
                .map_or(0.0, |(zone, share)| share / zone.len() as f64)
        });
    }

    #[test]
    fn zones_smaller_than_a_block_get_one_block() {
        let counts = counts("zones:1%:50,1%:30,98%:20".parse().unwrap(), 3);
        for (count, share) in counts.iter().zip([0.8 + 0.1, 0.1, 0.0]) {
            assert!((count / f64::from(DRAWS) - share).abs() < 0.005, "{counts:?}");
        }
    }

    #[test]
    fn pareto_draws_match_expected_distribution() {
        let counts = counts(Distribution::Pareto { h: 0.2 }, 1000);
        assert!((share(&counts[..200]) - 0.8).abs() < 0.004, "{}", share(&counts[..200]));
        let below = |number: usize| (number as f64 / 1000.0).powf((0.8_f64).ln() / (0.2_f64).ln());
        assert_fits(&counts, |number| below(number + 1) - below(number));
    }

    #[test]
    fn normal_is_the_mean_of_uniform_numbers() {
        // Of 12: mean n/2, standard deviation n/12. Of one: uniform. Of two: a triangle.
        let twelve = counts(Distribution::Normal { draws: 12 }, 1200);
        let mean = twelve.iter().enumerate().map(|(n, c)| n as f64 * c).sum::<f64>() / f64::from(DRAWS) + 0.5;
        let variance =
            twelve.iter().enumerate().map(|(n, c)| (n as f64 + 0.5 - mean).powi(2) * c).sum::<f64>()
                / f64::from(DRAWS);
        assert!((mean - 600.0).abs() < 1.0, "{mean}");
        assert!((variance.sqrt() - 100.0).abs() < 0.6, "{}", variance.sqrt());
        assert_fits(&counts(Distribution::Normal { draws: 1 }, 1000), |_| 0.001);
        let below = |x: f64| if x < 0.5 { 2.0 * x * x } else { 1.0 - 2.0 * (1.0 - x) * (1.0 - x) };
        assert_fits(&counts(Distribution::Normal { draws: 2 }, 500), |n| {
            below((n + 1) as f64 / 500.0) - below(n as f64 / 500.0)
        });
    }

    #[test]
    fn special_skips_lowest_quarter_of_hot_range() {
        // 10 001 numbers: t = 10 000, d = 100, the hot stretch begins at 4950. u is in [0.25, 1), so hot numbers begin
        // at 4950 + 0.25 * 101 = 4975.25, and the lowest quarter gets only the bell's share.
        let special = Distribution::Special { percent: 1, resolution: 75, iterations: 12 };
        let counts = counts(special, 10_001);
        let (quiet, hot) = (share(&counts[4950..4975]), share(&counts[4975..=5050]));
        // The bell has 25 % of the draws and a standard deviation of 833: 12 in 100 000 for each number.
        let bell = |numbers: f64| 0.25 * numbers / (833.3 * (2.0 * std::f64::consts::PI).sqrt());
        assert!((quiet - bell(25.0)).abs() < 0.0005, "{quiet}");
        assert!((hot - 0.75 - bell(76.0)).abs() < 0.004, "{hot}");
        // Between three standard deviations below and the stretch: 47 % of the bell.
        assert!((share(&counts[2500..4950]) - 0.25 * 0.475).abs() < 0.003 && share(&counts[..1500]) < 0.0001);
    }

    proptest! {
        #[test]
        fn every_distribution_stays_inside(n in 2_u64..=1 << 40, seed: u64, x in 0.01_f64..0.99, k in 1_u32..20) {
            let mut generator = Generator::new(seed, Stream::Requests(1));
            for distribution in [
                Distribution::Uniform,
                Distribution::Zipf { theta: x },
                Distribution::Zipf { theta: x + 1.01 },
                Distribution::Latest { theta: x },
                Distribution::Pareto { h: x },
                Distribution::Normal { draws: k },
                Distribution::Special { percent: k, resolution: 75, iterations: k },
                Distribution::Special { percent: 100, resolution: 99, iterations: 1 },
                Distribution::Hotspot { fraction: x, share: x },
                "zones:33.4%:1,33.3%:0,33.3%:2.5".parse().unwrap(),
                Distribution::Zones(vec![Zone { extent: Extent::Percent(100.0 / f64::from(k)), weight: x }; k as usize]),
            ] {
                for n in [n, 2, 3] {
                    let sampler = Sampler::new(&distribution, n, Bytes(1), seed);
                    for _ in 0..50 {
                        prop_assert!(sampler.draw(&mut generator) < n, "{distribution} of {n}");
                    }
                }
            }
        }
    }
}
