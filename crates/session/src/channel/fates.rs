//! What became of frames that went, and of the messages in them: arrived, lost, refused or dropped.

use taut_core::{DropCause, Duration, PeerTime, RttEstimator, Time};
use taut_wire::session::DataAck;

use super::declare::Agreed;
use super::outgoing::Gone;
use super::pack::Taken;
use super::repeat::{Fragment, Sent};
use super::{ChannelEvent, ChannelId, Channels, End, TRANSPORT_FULL, incoming};

impl Channels {
    /// The next frame that is lost; what is worth it goes again.
    pub(crate) fn poll_lost(&mut self, now: Time, timeout: Duration) -> Option<Sent> {
        let lost = self.under_way.poll_lost(now, timeout)?;
        self.lose(now, &lost, DropCause::Loss);
        Some(lost)
    }

    /// The transport did not take it: never will it, or not now.
    pub(crate) fn refused(&mut self, now: Time, cause: DropCause) {
        if cause == DropCause::SendBufferFull {
            self.retry = now + TRANSPORT_FULL;
            return;
        }
        for Taken { channel, rest } in std::mem::take(&mut self.taken) {
            if let End::Sends(out) = &mut self.ends[channel] {
                out.refuse(rest.sequence, cause, &mut self.gone);
            }
            self.tell(channel);
        }
    }

    /// The transport dropped a frame that it had taken.
    pub(crate) fn dropped(&mut self, now: Time, number: u64, cause: DropCause) -> Option<Sent> {
        let dropped = self.under_way.take(number)?;
        if dropped.tells {
            self.received.tell_again(now);
        }
        // A sample that a newer one took the place of says nothing of whether there is room; but going again at once, it takes its own place.
        if cause != DropCause::Superseded || dropped.repeated {
            self.retry = now + TRANSPORT_FULL;
        }
        self.lose(now, &dropped, cause);
        for Fragment { channel: at, sequence, .. } in &dropped.fragments {
            let Some(End::Sends(out)) = self.ends.get_mut(*at) else { continue };
            if !out.agreed().is_some_and(Agreed::repeats) && out.lost_for_good(*sequence) {
                self.gone.push(Gone::Dropped(*sequence, cause));
                self.tell(*at);
            }
        }
        Some(dropped)
    }

    pub(super) fn lose(&mut self, now: Time, frame: &Sent, cause: DropCause) {
        for Fragment { channel, sequence, range } in &frame.fragments {
            if let Some(End::Sends(out)) = self.ends.get_mut(*channel) {
                self.tallies[*channel].repeated +=
                    u64::from(out.lost(now, *sequence, range, cause, &mut self.gone));
                self.gates[*channel].iter_mut().for_each(|gate| gate.lost(cause));
            }
            self.tell(*channel);
        }
    }

    /// The peer tells which frames arrived, and when the highest did by its clock; `each` hears of those that are new, and of the highest
    /// how long it took.
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        ack: DataAck,
        arrived: Option<PeerTime>,
        mut each: impl FnMut(&Sent, Option<Duration>),
    ) {
        let largest = incoming::unwrapped(self.next_number, ack.largest);
        // Nobody has seen what was not sent yet.
        if largest >= self.next_number {
            return;
        }
        let seen = (0..64).filter(|i| ack.seen >> i & 1 != 0).filter_map(|i| largest.checked_sub(1 + i));
        let (mut there, mut frames) = (None, 0);
        for number in std::iter::once(largest).chain(seen) {
            let Some(sent) = self.under_way.arrived(number) else { continue };
            frames += 1;
            if let Some(arrived) = arrived.filter(|_| number == largest) {
                there = Some(arrived.0.wrapping_sub(sent.at.as_nanos()) as i64);
            }
            let held = ack.held().map(|us| Duration::from_micros(us.into()));
            let held = held.filter(|_| number == largest);
            let rtt = held.map(|held| RttEstimator::without_hold(now.saturating_since(sent.at), held));
            rtt.iter().for_each(|rtt| self.under_way.took(*rtt));
            each(&sent, rtt);
            for Fragment { channel, sequence, range } in &sent.fragments {
                if let Some(End::Sends(out)) = self.ends.get_mut(*channel) {
                    out.arrived(*sequence, range, &mut self.gone);
                }
                self.tell(*channel);
            }
            self.under_way.give_back(sent.fragments);
        }
        self.under_way.acknowledged(largest);
        if let Some(there) = there {
            self.packs.delay(there, frames);
        }
    }

    /// Counts and tells what became of messages of a channel.
    pub(super) fn tell(&mut self, at: usize) {
        if self.gone.is_empty() {
            return;
        }
        let channel = ChannelId(at as u8);
        for gone in self.gone.drain(..) {
            let tally = &mut self.tallies[at];
            self.events.push_back(match gone {
                Gone::Dropped(sequence, cause) => {
                    tally.dropped.add(cause);
                    self.gates[at].iter_mut().for_each(|gate| gate.lost(cause));
                    ChannelEvent::Dropped { channel, sequence, cause }
                }
                Gone::Arrived(sequence) => {
                    tally.delivered += 1;
                    ChannelEvent::Arrived { channel, sequence }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use taut_core::Bytes;
    use taut_media::DeadbandConfig;
    use taut_wire::session::{ChannelKind, Delivery, Direction, Encoding, Role};

    use super::super::{Channel, Outlook, Packing, Sampling, Schema};
    use super::*;

    const AT: Time = Time::from_nanos(1_000_000_000);

    fn opened(channel: Channel) -> Channels {
        let mut channels = Channels::new(Role::Robot, &[channel], &Packing::default(), Bytes::new(28));
        channels.open(&channels.declarations(), None);
        channels
    }

    fn force(delivery: Delivery) -> Channel {
        let schema = Schema::new("bytes", Encoding::Raw);
        Channel::new("force", Direction::ToOperator, ChannelKind::Feedback, schema).delivery(delivery)
    }

    /// What waits goes, and the transport drops it.
    fn goes(channels: &mut Channels, now: Time, cause: DropCause) -> Option<Sent> {
        let way = Duration::from_millis(10);
        let outlook = Outlook { rate: None, way, timeout: way * 3 };
        let ready = channels.poll(now, 1, true, outlook, &mut Vec::new())?;
        channels.sent(now, &ready, (0, 100));
        channels.dropped(now, ready.number, cause)
    }

    /// Nothing of it may leave: each frame takes the place of the one that waits.
    #[test]
    fn a_sample_that_goes_again_takes_the_place_of_itself_once_at_a_time() {
        let mut channels = opened(force(Delivery::Deadline));
        assert!(channels.send(AT, ChannelId(0), AT, &[1; 100], false).is_ok());
        let frames = (0..100).map_while(|_| goes(&mut channels, AT, DropCause::Superseded)).count();
        assert_eq!(frames, 1);
        let again = goes(&mut channels, AT + TRANSPORT_FULL, DropCause::Superseded);
        assert!(again.is_some(), "it is tried again");
    }

    #[test]
    fn what_is_like_a_sample_that_another_took_the_place_of_is_withheld_and_what_is_like_a_lost_one_goes() {
        for delivery in [Delivery::Once, Delivery::Deadline] {
            for (cause, withheld) in [(DropCause::Superseded, 1), (DropCause::Loss, 0)] {
                let sampling = Sampling::deadband(DeadbandConfig::new());
                let mut channels = opened(force(delivery).sampler(sampling));
                let value = 1.0f32.to_be_bytes();
                assert!(channels.send(AT, ChannelId(0), AT, &value, false).is_ok());
                assert!(goes(&mut channels, AT, cause).is_some());
                assert!(channels.send(AT, ChannelId(0), AT, &value, false).is_ok());
                assert_eq!(channels.summaries()[0].withheld, withheld, "{delivery:?}, {cause:?}");
            }
        }
    }
}
