//! Where an element's random numbers come from.

use taut_core::{Duration, Rng, Seed, Time};

/// Where an element's random numbers come from: one after another, as packets come, or from the clock.
///
/// A packet that meets the luck of its slot meets what any other packet would have met that was sent then: two runs in which
/// different packets are sent can be compared, and so can what was sent with what could have been.
///
/// ```
/// use taut_core::{Duration, Probability, Seed};
/// use taut_link::{Loss, Luck};
/// let one_by_one = Loss::bernoulli("1%".parse::<Probability>()?, Seed::new(7).stream("uplink/loss"));
/// let by_the_clock = Luck::of_slots(Seed::new(7).stream("uplink/loss"), Duration::from_millis(1));
/// let blocks = Loss::bernoulli("1%".parse::<Probability>()?, by_the_clock);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Luck {
    rng: Rng,
    slots: Option<Slots>,
}

#[derive(Clone, Copy, Debug)]
struct Slots {
    key: Seed,
    length: Duration,
}

impl Luck {
    /// All packets that were sent ([`PacketMeta::sent`](taut_core::PacketMeta::sent)) in one slot of this `length`, counted from
    /// time zero, meet the same luck, as in one transport block of a radio; those of another slot meet another. At least 1 ns.
    pub fn of_slots(mut rng: Rng, length: Duration) -> Self {
        let length = length.max(Duration::from_nanos(1));
        let slots = Some(Slots { key: Seed::new(rng.next_u64()), length });
        Self { rng, slots }
    }

    /// The numbers for a packet.
    #[inline]
    pub(crate) fn of(&mut self, sent: Time) -> &mut Rng {
        if let Some(Slots { key, length }) = self.slots {
            self.rng = key.numbered(sent.as_nanos() / length.as_nanos());
        }
        &mut self.rng
    }

    /// The next numbers, whatever packet they are for.
    #[inline]
    pub(crate) const fn next(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

impl From<Rng> for Luck {
    /// One after another.
    fn from(rng: Rng) -> Self {
        Self { rng, slots: None }
    }
}
