//! What a haptic device measures: nothing, a simulated operator, or a recording.

use std::sync::Arc;

use taut_core::{Duration, Seed, Time};
use taut_trace::{Data, Signals};

use super::inputs::{Inputs, RunError};
use crate::demo;
use crate::scenario::{Device, Haptic, HapticSource, RecordingSpec};

/// Samples of a few values each, over and over.
#[derive(Debug, Default)]
pub(super) struct Signal {
    width: usize,
    values: Vec<f64>,
}

impl Signal {
    /// The values of the n-th sample; none when there is no signal.
    pub(super) fn at(&self, tick: u64) -> &[f64] {
        if self.width == 0 {
            return &[];
        }
        let samples = self.values.len() / self.width;
        let start = (tick % samples as u64) as usize * self.width;
        &self.values[start..start + self.width]
    }
}

pub(super) fn load(
    spec: &Haptic,
    direction: &str,
    duration: Duration,
    seed: Seed,
    inputs: &mut Inputs,
) -> Result<Arc<Signal>, RunError> {
    let signal = match &spec.source {
        HapticSource::Constant => Signal::default(),
        HapticSource::Simulated(simulated) => self::simulated(simulated.device, spec.period, duration, seed),
        HapticSource::Recording(recording) => {
            let key = format!("session.{direction}.haptic.source.recording");
            recorded(recording, spec.period, inputs).map_err(|e| RunError(format!("{key}: {e}")))?
        }
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

fn recorded(spec: &RecordingSpec, period: Duration, inputs: &mut Inputs) -> Result<Signal, RunError> {
    let bytes = inputs.read(&spec.file)?;
    let recording = taut_trace::read_bytes(&spec.file, &bytes).map_err(RunError::new)?;
    let Data::Signals(signals) = recording.into_data() else {
        return Err(RunError(format!("{}: holds no signals; a CSV or MCAP recording is needed", spec.file)));
    };
    let resampled = signals.resample(period).map_err(|e| RunError(format!("{}: {e}", spec.file)))?;
    let channels = spec.channels.iter().map(|name| {
        resampled.channel(name).ok_or_else(|| {
            let known: Vec<&str> = resampled.channels().iter().map(taut_trace::Channel::column).collect();
            RunError(format!("{}: no channel `{name}`; there are {}", spec.file, known.join(", ")))
        })
    });
    let channels = channels.collect::<Result<Vec<_>, _>>()?;
    let rows = Signals::len(&resampled);
    if channels.is_empty() || rows == 0 {
        return Err(RunError(format!("{}: name at least one of its channels", spec.file)));
    }
    let values = (0..rows).flat_map(|row| channels.iter().map(move |channel| channel.values()[row])).collect();
    Ok(Signal { width: channels.len(), values })
}
