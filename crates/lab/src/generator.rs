//! Messages of channels that a simulated device makes.

use taut_agent::DeviceMessage;
use taut_core::{Bitrate, Duration, Rng, Seed, Time};
use taut_session::{ChannelId, Direction};

use crate::scenario::{EncoderSpec, SizesSpec, Teleop, TeleopChannel};

/// What one end of a session makes for its channels, each at its own rate from when it is first asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generators(Vec<Generator>);

#[derive(Clone, Debug)]
struct Generator {
    channel: ChannelId,
    period: Duration,
    sizes: SizesSpec,
    made: u64,
    /// An encoder's, as the session tells it; `None`: it tells nothing yet.
    rate: Option<Bitrate>,
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
                rate: None,
                next: None,
                rng: seed.stream(&format!("teleop/channels/{}/{}", way.name(), channel.name)),
            })
        };
        Self(teleop.channels.iter().enumerate().filter_map(of).collect())
    }

    /// What they all together may take. Of several encoders each has an equal part.
    pub(crate) fn limit(&mut self, rate: Bitrate) {
        let encoders = || self.0.iter().filter(|generator| matches!(generator.sizes, SizesSpec::Encoder(_)));
        let part = Bitrate::from_bps(rate.as_bps() / encoders().count().max(1) as u64);
        self.0.iter_mut().for_each(|generator| generator.rate = Some(part));
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
            SizesSpec::Encoder(encoder) => picture(encoder, self.rate, self.period, self.made),
            SizesSpec::Listed(list) => list[(self.made % list.len() as u64) as usize].get(),
        };
        self.made += 1;
        Some(DeviceMessage::Payload { channel: self.channel, payload: vec![0; size as usize] })
    }
}

/// Bytes of a picture of an encoder that meets its rate over the time from one key picture to the next.
fn picture(encoder: &EncoderSpec, told: Option<Bitrate>, period: Duration, made: u64) -> u64 {
    let rate = told.unwrap_or(encoder.most).clamp(encoder.least, encoder.most);
    let mean = (rate * period).get();
    let (every, times) = (u64::from(encoder.key_every), u64::from(encoder.key_times));
    let other = mean * every / (every - 1 + times);
    (if made.is_multiple_of(every) { other * times } else { other }).max(1)
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
    fn an_encoder_makes_what_it_is_told_with_key_pictures_in_it() {
        let sizes =
            "sizes = { encoder = { most = \"2Mbit\", least = \"200kbit\", key_every = 30, key_times = 5 } }";
        let from = "sizes = { uniform = { least = \"10kB\", largest = \"60kB\" } }";
        let teleop = Scenario::parse("t.toml", &SCENARIO.replace(from, sizes)).unwrap().teleop.unwrap();
        for (told, mean) in [(None, 2_000), (Some(900), 900), (Some(5_000), 2_000), (Some(10), 200)] {
            let mut generators = Generators::new(&teleop, Seed::new(1), Direction::ToOperator);
            told.iter().for_each(|kbit| generators.limit(Bitrate::from_bps(kbit * 1_000)));
            let mut sizes = Vec::new();
            for ms in 0..10_000 {
                while let Some(made) = generators.poll(Time::ZERO + Duration::from_millis(ms)) {
                    let DeviceMessage::Payload { payload, .. } = made else { panic!("a payload") };
                    sizes.push(payload.len());
                }
            }
            assert_eq!((sizes.len(), sizes[0] / sizes[1], sizes[30] / sizes[31]), (300, 5, 5));
            let kbit = sizes.iter().sum::<usize>() * 8 / 10_000;
            assert!(kbit.abs_diff(mean) <= 5, "{kbit} of {mean} kbit/s");
        }
    }

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
