//! Messages of channels that a simulated device makes.

use taut_agent::DeviceMessage;
use taut_core::{Duration, Rng, Seed, Time};
use taut_session::{ChannelId, Direction};

use crate::scenario::{SizesSpec, Teleop, TeleopChannel};

/// What one end of a session makes for its channels, each at its own rate from when it is first asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generators(Vec<Generator>);

#[derive(Clone, Debug)]
struct Generator {
    channel: ChannelId,
    period: Duration,
    sizes: SizesSpec,
    made: u64,
    /// Of the next one.
    next: Option<Time>,
    rng: Rng,
}

/// A device that was not asked for so long made nothing meanwhile.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Generators {
    /// Those of the end that sends this way.
    pub(crate) fn new(teleop: &Teleop, seed: Seed, way: Direction) -> Self {
        let of = |(at, TeleopChannel { channel, makes }): (usize, &TeleopChannel)| {
            (channel.way() == Ok(way)).then(|| Generator {
                channel: ChannelId(at as u8),
                period: Duration::from_nanos((1e9 / makes.rate) as u64),
                sizes: makes.sizes.clone(),
                made: 0,
                next: None,
                rng: seed.stream(&format!("teleop/channels/{}/{}", way.name(), channel.name)),
            })
        };
        Self(teleop.channels.iter().enumerate().filter_map(of).collect())
    }

    /// The next message that is due.
    pub(crate) fn poll(&mut self, now: Time) -> Option<DeviceMessage> {
        self.0.iter_mut().find_map(|generator| generator.poll(now))
    }
}

impl Generator {
    fn poll(&mut self, now: Time) -> Option<DeviceMessage> {
        let due = *self.next.get_or_insert(now);
        if now < due {
            return None;
        }
        let from = if now.saturating_since(due) > LONGEST_PAUSE { now } else { due };
        self.next = Some(from + self.period);
        let size = match &self.sizes {
            SizesSpec::Constant(size) => size.get(),
            SizesSpec::Uniform(sizes) => {
                sizes.least.get() + self.rng.below(sizes.largest.get() - sizes.least.get() + 1)
            }
            SizesSpec::Listed(list) => list[(self.made % list.len() as u64) as usize].get(),
        };
        self.made += 1;
        Some(DeviceMessage::Payload { channel: self.channel, payload: vec![0; size as usize] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    const SCENARIO: &str = r#"
title = "generators"
duration = "1s"
[links.wire]
between = ["a", "b"]
chain = [{ delay = "1ms" }]
[teleop]
operator = "a"
robot = "b"
[[teleop.channels]]
channel = { name = "camera", kind = "video" }
makes = { rate = 30, sizes = { uniform = { least = "10kB", largest = "60kB" } } }
[[teleop.channels]]
channel = { name = "lights", kind = "command" }
makes = { rate = 2, sizes = { listed = ["10B", "20B"] } }
"#;

    #[test]
    fn each_end_makes_its_own_at_their_rates_and_sizes() {
        let teleop = Scenario::parse("t.toml", SCENARIO).unwrap().teleop.unwrap();
        let sizes = |seed, way| {
            let mut generators = Generators::new(&teleop, Seed::new(seed), way);
            let mut sizes = Vec::new();
            for ms in 0..2_000 {
                while let Some(made) = generators.poll(Time::ZERO + Duration::from_millis(ms)) {
                    let DeviceMessage::Payload { payload, .. } = made else { panic!("a payload") };
                    sizes.push(payload.len());
                }
            }
            sizes
        };
        assert_eq!(sizes(1, Direction::ToRobot), [10, 20, 10, 20]);
        let pictures = sizes(1, Direction::ToOperator);
        assert_eq!(pictures.len(), 60);
        assert!(pictures.iter().all(|size| (10_000..=60_000).contains(size)));
        assert_eq!(pictures, sizes(1, Direction::ToOperator));
        assert_ne!(pictures, sizes(2, Direction::ToOperator));
    }
}
