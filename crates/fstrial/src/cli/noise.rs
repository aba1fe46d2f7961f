//! The noise of this machine: a short self-comparison, and the differences it could detect over time.

use fstrial_model::{
    arm::Arm,
    device::{Device as DeviceSpec, DeviceKind, ModelChoice},
    trial::{Settings, Trial},
    units::{Bytes, Nanos},
    workload::Entry,
};
use fstrial_run::{
    environment, error::ExpectedError, interrupt::Interrupt, panels::ALPHA, plan::Plan, round::Earlier,
    sample::Sample, session,
};
use fstrial_stack::{StackError, ledger::Ledger};
use fstrial_stats::{Decision, Done, Multiplicity, Pair, Panel, Question, spread};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use serde::Serialize;
use std::path::Path;

/// Rounds of the self-comparison.
const ROUNDS: u32 = 12;
/// Differences whose detection is estimated, in percent.
const DIFFERENCES: [f64; 4] = [3.0, 5.0, 10.0, 20.0];
/// Simulated trials for each difference.
const SIMULATED: u64 = 60;
/// Rounds of each, at most.
const MOST: usize = 60;

/// Result of a self-comparison of a machine.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Noise {
    /// Its subject.
    pub(crate) of: String,
    pub(crate) on: String,
    /// Rounds it rests on.
    pub(crate) rounds: usize,
    /// Median of |ln ratio| of the identical arms in a round, in percent.
    pub(crate) percent: f64,
    /// Detectable differences.
    pub(crate) detectable: Vec<Detectable>,
}

/// Time to detect a difference.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Detectable {
    /// The difference in percent.
    pub(crate) percent: f64,
    /// Share of simulated trials of 60 rounds that found it.
    pub(crate) power: f64,
    /// Median number of rounds of those.
    pub(crate) rounds: usize,
    /// Time of that many rounds of two arms, in seconds, with runs as short as these.
    pub(crate) seconds: f64,
}

/// The model of the device that is next to the real one.
const MODEL: &str = "gp3-3000";

/// Compares ext4 with itself on a small image in `folder`, and on a modelled device.
///
/// # Errors
/// No root, no mkfs.ext4, no space. A missing modelled device is not an error: then it is left out.
pub(crate) fn measure(
    folder: &Path,
    ledger: &Ledger,
    interrupt: &Interrupt,
) -> Result<Vec<Noise>, ExpectedError> {
    let size = Some(Bytes::mib(256));
    let image = DeviceSpec { size, path: Some(folder.to_owned()), ..DeviceSpec::of(DeviceKind::Image) };
    let model = Some(ModelChoice::Named(MODEL.into()));
    let modelled = DeviceSpec { size, model, ..DeviceSpec::of(DeviceKind::Model) };
    let compare = |device, on| compare_with_itself(device, on, ledger, interrupt);
    let on_image = compare(image, format!("an image in {}", folder.display()))?;
    let on_model = compare(modelled, format!("the modelled device {MODEL}"));
    if interrupt.is_raised() {
        return Err(StackError::Interrupted.into());
    }
    Ok(std::iter::once(on_image).chain(on_model.ok()).collect())
}

fn compare_with_itself(
    device: DeviceSpec,
    on: String,
    ledger: &Ledger,
    interrupt: &Interrupt,
) -> Result<Noise, ExpectedError> {
    let arm = |name: &str| Arm { name: name.into(), ..Arm::plain("ext4") };
    let entry = Entry {
        threads: Some(vec![1]),
        warmup: Some(Nanos::millis(100)),
        duration: Some(Nanos::millis(500)),
        file_size: Some(Bytes::mib(64)),
        ..Entry::of_preset("random-write")
    };
    let trial = Trial {
        trial: Settings { budget: Nanos::secs(90), rounds: Some(ROUNDS), ..Settings::default() },
        device,
        arms: vec![arm("a"), arm("b")],
        workloads: vec![entry],
        ..Trial::default()
    };
    let plan = Plan::new(trial.settled(environment::cpus())?, 1)?;
    let finished = session::unwatched((&plan, &[]), interrupt, ledger, |session, places, silent| {
        session.rounds(places, Earlier::default(), silent)
    })?;
    if interrupt.is_raised() {
        return Err(StackError::Interrupted.into());
    }
    let judge = finished
        .judge()
        .ok_or_else(|| ExpectedError::Fault("the self-comparison had no complete round".into()))?;
    let round_seconds = finished.round_time.map_or(1.5, Nanos::as_secs_f64);
    Ok(noise(on, judge.pairs(&plan.contrasts[0]), round_seconds))
}

fn noise<'a>(on: String, pairs: impl Iterator<Item = (&'a Sample, &'a Sample)>, round_seconds: f64) -> Noise {
    let pairs: Vec<Pair> = pairs.map(|(a, b)| Pair::of_values(a.rate, b.rate)).collect();
    let sizes: Vec<f64> = pairs.iter().map(|pair| pair.log_ratio.abs() * 100.0).collect();
    Noise {
        of: "ext4 against ext4, random 16 KiB writes, direct, 1 thread, runs of 0.5 s".into(),
        on,
        rounds: pairs.len(),
        percent: spread::median(&sizes).unwrap_or(0.0),
        detectable: DIFFERENCES.iter().map(|percent| detectable(&pairs, *percent, round_seconds)).collect(),
    }
}

/// Simulates trials whose noise is drawn from the measured rounds, with random signs, around a planted difference.
fn detectable(pairs: &[Pair], percent: f64, round_seconds: f64) -> Detectable {
    let mut result = Vec::new();
    for seed in 0..SIMULATED {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut panel =
            Panel::new(vec![Question::comparison(0.03_f64.ln_1p())], ALPHA, Multiplicity::BenjaminiHochberg);
        for round in 1..=MOST {
            let word = random.next_u64();
            let index = usize::try_from(word >> 1).unwrap_or(0) % pairs.len();
            let sign = if word & 1 == 0 { 1.0 } else { -1.0 };
            let log_ratio = (percent / 100.0).ln_1p() + sign * pairs[index].log_ratio.abs();
            let [a, b] = [log_ratio.exp(), 1.0].map(Done::figure);
            panel.push(0, Pair::of_done(a, b));
            panel.settle();
            if panel.verdict(0).decision == Decision::Faster {
                result.push(round);
                break;
            }
            if !panel.is_open(0) {
                break;
            }
        }
    }
    result.sort_unstable();
    let rounds = result.get(result.len() / 2).copied().unwrap_or(MOST);
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let (power, seconds) = (result.len() as f64 / SIMULATED as f64, rounds as f64 * round_seconds);
    Detectable { percent, power, rounds, seconds }
}
