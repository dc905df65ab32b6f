//! What a haptic device measures: nothing, a simulated operator, a recording, or contacts as often and long as wanted.

use std::sync::Arc;

use taut_core::{Duration, Rng, Seed, Time};
use taut_trace::{Data, Signals};

use super::inputs::{Inputs, RunError};
use crate::demo;
use crate::scenario::{ContactsSpec, Device, HapticSource, RecordingSpec};

/// Samples of a few values each, over and over.
#[derive(Debug, Default)]
pub(super) struct Signal {
    width: usize,
    values: Vec<f64>,
}

impl Signal {
    /// The values of a row; none when there is no signal.
    pub(super) fn at(&self, row: usize) -> &[f64] {
        &self.values[row * self.width..][..self.width]
    }

    /// The row so far into the signal, in parts of 2⁶⁴.
    pub(super) fn row_at(&self, part: u64) -> usize {
        let rows = self.values.len().checked_div(self.width).unwrap_or(0);
        ((u128::from(part) * rows as u128) >> 64) as usize
    }

    /// The row after this one; the first follows the last.
    pub(super) fn after(&self, row: usize) -> usize {
        let next = row + 1;
        if next * self.width < self.values.len() { next } else { 0 }
    }
}

/// The signal of the device whose key in the scenario is `key`.
pub(super) fn load(
    (source, period): (&HapticSource, Duration),
    key: &str,
    duration: Duration,
    seed: Seed,
    inputs: &mut Inputs,
) -> Result<Arc<Signal>, RunError> {
    let signal = match source {
        HapticSource::Constant => Signal::default(),
        HapticSource::Simulated(simulated) => self::simulated(simulated.device, period, duration, seed),
        HapticSource::Contacts(spec) => contacts(spec, period, duration, seed.stream(key)),
        HapticSource::Recording(recording) => recorded(recording, period, inputs)
            .map_err(|fault| RunError::key(format!("{key}.source.recording.{}", fault.key), fault.message))?,
    };
    Ok(Arc::new(signal))
}

/// The simulated pair makes a row every millisecond; a longer period takes the row of its time.
fn simulated(device: Device, period: Duration, duration: Duration, seed: Seed) -> Signal {
    let mut signal = Signal { width: if device == Device::Leader { 6 } else { 3 }, values: Vec::new() };
    let mut due = Time::ZERO;
    // A minute of it, over and over, is enough of a session.
    for row in demo::generate(duration.min(Duration::from_secs(60)), seed) {
        while row.time >= due {
            match device {
                Device::Leader => signal.values.extend(row.forward()),
                Device::Follower => signal.values.extend(row.backward()),
            }
            due += period;
        }
    }
    signal
}

/// Rows of contacts before they begin again: 1000 s at 1 kHz.
const MOST_ROWS: u64 = 1_000_000;

/// Two values in turn, in contact changing more often than outside. The time between contacts follows the length of the one before,
/// so that the share of contact is kept over a few of them, whatever their lengths.
fn contacts(spec: &ContactsSpec, period: Duration, duration: Duration, mut rng: Rng) -> Signal {
    let rows = (duration.as_nanos() / period.as_nanos().max(1)).clamp(1, MOST_ROWS) as usize;
    let mean_rows = spec.length.as_secs_f64() / period.as_secs_f64();
    let (share, mut values) = (spec.share.as_fraction(), Vec::with_capacity(rows));
    let mut value = 1.0;
    while values.len() < rows {
        let contact = mean_rows * (0.5 + rng.fraction());
        let free = contact * (1.0 - share) / share;
        for (length, changes) in [(free, spec.free_changes), (contact, spec.changes)] {
            let length = ((length + 0.5) as usize).clamp(1, rows).min(rows - values.len());
            values.extend((0..length).map(|_| {
                value = if changes.sample(&mut rng) { 2.5 - value } else { value };
                value
            }));
        }
    }
    Signal { width: 1, values }
}

/// Which key of a recording is at fault, and why.
struct RecordingFault {
    key: &'static str,
    message: String,
}

fn recorded(spec: &RecordingSpec, period: Duration, inputs: &mut Inputs) -> Result<Signal, RecordingFault> {
    let at = |key| move |message| RecordingFault { key, message };
    let file = at("file");
    let bytes = inputs.read(&spec.file).map_err(|e| file(e.to_string()))?;
    let recording = taut_trace::read_bytes(&spec.file, &bytes).map_err(|e| file(e.to_string()))?;
    let kind = recording.data().kind();
    let Data::Signals(signals) = recording.into_data() else {
        return Err(file(format!(
            "{}: holds {kind}; a CSV or MCAP recording of signals is needed",
            spec.file
        )));
    };
    let known = || signals.channels().iter().map(taut_trace::Channel::column).collect::<Vec<_>>().join(", ");
    let unknown = spec.channels.iter().find(|name| signals.channel(name).is_none());
    if let Some(name) = unknown {
        return Err(at("channels")(format!("{} has no channel `{name}`; there are {}", spec.file, known())));
    }
    if spec.channels.is_empty() {
        return Err(at("channels")(format!("names none; there are {}", known())));
    }
    let resampled = signals.resample(period).map_err(|e| file(format!("{}: {e}", spec.file)))?;
    let channels: Vec<_> = spec.channels.iter().filter_map(|name| resampled.channel(name)).collect();
    let rows = Signals::len(&resampled);
    let values =
        (0..rows).flat_map(|row| channels.iter().map(move |channel| channel.values()[row])).collect();
    Ok(Signal { width: channels.len(), values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Probability;

    /// In contact each sample changes, outside none: what changes is the share of contact.
    #[test]
    fn contacts_of_any_length_take_the_same_share_of_the_time() {
        let (second, percent) =
            (Duration::from_secs(1), |percent| Probability::from_fraction(percent / 100.0));
        for length in [10, 100, 1_000, 4_000] {
            let spec = ContactsSpec {
                length: Duration::from_millis(length),
                share: percent(20.0).unwrap(),
                changes: Probability::ALWAYS,
                free_changes: Probability::NEVER,
            };
            let signal = contacts(&spec, second / 1_000, second * 600, Seed::new(1).stream("test"));
            let changes = signal.values.windows(2).filter(|pair| (pair[0] - pair[1]).abs() > 0.0).count();
            let share = changes as f64 / signal.values.len() as f64;
            assert!(signal.values.len() == 600_000 && (0.18..0.22).contains(&share), "{length} ms: {share}");
        }
    }

    /// Ten times `length` / `share` is enough for the share of contact, within a third; the first contact begins by 1.5 times `length` × free / `share`.
    #[test]
    fn a_run_that_is_as_long_as_advised_has_about_the_share_of_contact_whatever_is_drawn() {
        let (second, percent) =
            (Duration::from_secs(1), |percent| Probability::from_fraction(percent / 100.0).unwrap());
        for (length_ms, share) in [(10, 19.0), (100, 50.0), (400, 19.0), (1_000, 80.0)] {
            let spec = ContactsSpec {
                length: Duration::from_millis(length_ms),
                share: percent(share),
                changes: Probability::ALWAYS,
                free_changes: Probability::NEVER,
            };
            let rows = (10.0 * length_ms as f64 / (share / 100.0)) as u64;
            for seed in 1..=50 {
                let signal =
                    contacts(&spec, second / 1_000, second / 1_000 * rows, Seed::new(seed).stream("test"));
                let changes: Vec<bool> =
                    signal.values.windows(2).map(|pair| (pair[0] - pair[1]).abs() > 0.0).collect();
                let contact = changes.iter().filter(|change| **change).count() as f64 / rows as f64;
                assert!(
                    (contact * 100.0 / share - 1.0).abs() < 1.0 / 3.0,
                    "{length_ms} ms, {share} %, seed {seed}: {contact}"
                );
                let longest = changes.split(|change| !change).map(<[bool]>::len).max().unwrap_or(0) as u64;
                assert!(
                    (length_ms..=length_ms * 3 / 2 + 1).contains(&longest),
                    "{length_ms} ms, seed {seed}: {longest}"
                );
                let free = changes.iter().position(|change| *change).expect("a contact") as f64;
                assert!(
                    free <= 1.5 * length_ms as f64 * (100.0 - share) / share + 1.0,
                    "seed {seed}: {free}"
                );
            }
        }
    }
}
