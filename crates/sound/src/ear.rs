//! What is played when.

use taut_core::{Duration, Time};

use crate::{Decoder, PERIOD, Samples, SoundError};

/// A loudspeaker without one: what comes is played as a sound card does it, a frame each 10 ms, by this host's clock.
///
/// The channel holds packets and gives them on evenly (`Playout` of taut-session); here a frame waits a period more, so that the card does not run
/// dry when this host is late. Where a frame is not there in time, one is made up ([`Decoder::conceal`]); when it comes after all it is played as well, and
/// the sound is a period later from then on, until the card holds too much and a frame is left out. After five that were made up in a row
/// it is silent until the next packet.
#[derive(Debug)]
pub struct Ear {
    decoder: Decoder,
    /// The number of the packet that is next.
    packet: Option<u64>,
    /// Until when the card has something to play; `None`: it is silent.
    until: Option<Time>,
    /// Frames that were made up since the last packet.
    made_up: u64,
    counts: EarCounts,
}

/// A frame that is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// When its first sample is.
    pub at: Time,
    /// It came; otherwise it was made up.
    pub came: bool,
    /// What is heard.
    pub samples: Box<Samples>,
}

/// Of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarCounts {
    /// They came and were played.
    pub played: u64,
    /// Made up in place of one that was lost, or was not there in time.
    pub made_up: u64,
    /// Times that the card had nothing to play.
    pub underruns: u64,
    /// Left out, for the card held too many.
    pub left_out: u64,
    /// Packets that came twice, or after those that follow them.
    pub late: u64,
    /// Packets that are none.
    pub malformed: u64,
}

/// A frame is made up so long before the card runs dry.
const AHEAD: Duration = Duration::from_millis(2);
/// Made up in a row at most: libopus fades, and by then has faded.
const MOST_MADE_UP: u64 = 5;
/// The card holds so much at most.
const MOST_HELD: Duration = Duration::from_millis(30);

impl Ear {
    /// One that has heard nothing.
    ///
    /// # Errors
    /// When there is no libopus.
    pub fn new() -> Result<Self, SoundError> {
        let decoder = Decoder::new()?;
        Ok(Self { decoder, packet: None, until: None, made_up: 0, counts: EarCounts::default() })
    }

    /// Counts so far.
    pub const fn counts(&self) -> EarCounts {
        self.counts
    }

    /// A packet came, of this number: what is played because of it.
    pub fn handle_packet(&mut self, now: Time, number: u64, packet: &[u8]) -> Vec<Played> {
        let next = self.packet.unwrap_or(number);
        // Numbers that begin anew are a session's that does.
        if number < next && next - number < 100 {
            self.counts.late += 1;
            return Vec::new();
        }
        let lost = number.saturating_sub(next).saturating_sub(self.made_up).min(MOST_MADE_UP);
        let mut played: Vec<_> = (0..lost).filter_map(|_| self.make_up(now)).collect();
        (self.packet, self.made_up) = (Some(number + 1), 0);
        match self.decoder.decode(packet) {
            Ok(samples) => match self.slot(now) {
                Some(at) => {
                    self.counts.played += 1;
                    played.push(Played { at, came: true, samples: Box::new(samples) });
                }
                None => self.counts.left_out += 1,
            },
            Err(_) => {
                self.counts.malformed += 1;
                played.extend(self.make_up(now));
            }
        }
        played
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.until.map(|until| if self.made_up < MOST_MADE_UP { until - AHEAD } else { until })
    }

    /// Nothing came in time: what is played in its place.
    pub fn handle_timeout(&mut self, now: Time) -> Option<Played> {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return None;
        }
        if self.made_up == MOST_MADE_UP {
            self.until = None;
            self.counts.underruns += 1;
            return None;
        }
        self.made_up += 1;
        self.make_up(now)
    }

    fn make_up(&mut self, now: Time) -> Option<Played> {
        let samples = Box::new(self.decoder.conceal());
        let at = self.slot(now)?;
        self.counts.made_up += 1;
        Some(Played { at, came: false, samples })
    }

    /// When the next frame is played; `None`: the card holds too many already.
    fn slot(&mut self, now: Time) -> Option<Time> {
        let at = match self.until {
            Some(until) if until > now + MOST_HELD => return None,
            Some(until) if until >= now => until,
            ran_dry => {
                self.counts.underruns += u64::from(ran_dry.is_some());
                now + PERIOD
            }
        };
        self.until = Some(at + PERIOD);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, Tone, is_available};

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Packets of a tone, as many as are asked for.
    fn packets(count: usize) -> Vec<Vec<u8>> {
        let (mut encoder, mut tone) = (Encoder::new(64_000).unwrap(), Tone::new(440.0));
        (0..count).map(|_| encoder.encode(&tone.next_frame()).unwrap()).collect()
    }

    /// Plays packets that come at these times, ms; when frames are played, and whether each came.
    fn play(ear: &mut Ear, came: &[(u64, u64)], until: u64) -> Vec<(u64, bool)> {
        let packets = packets(100);
        let mut played = Vec::new();
        for ms in 0..until {
            for (number, _) in came.iter().filter(|(_, when)| *when == ms) {
                played.extend(ear.handle_packet(at(ms), *number, &packets[*number as usize]));
            }
            played.extend(ear.handle_timeout(at(ms)));
        }
        played.into_iter().map(|frame| (frame.at.as_nanos() / 1_000_000, frame.came)).collect()
    }

    #[test]
    fn frames_are_played_one_after_another_a_period_after_they_come() {
        if !is_available() {
            return println!("skipped: there is no libopus");
        }
        let mut ear = Ear::new().unwrap();
        let came: Vec<_> =
            (0..5).map(|number| (number, number * 10 + [0, 7, 3, 0, 6][number as usize])).collect();
        let played = play(&mut ear, &came, 50);
        assert_eq!(played, [(10, true), (20, true), (30, true), (40, true), (50, true)]);
        assert_eq!(ear.counts(), EarCounts { played: 5, ..EarCounts::default() });
    }

    #[test]
    fn what_is_lost_is_made_up_once_and_what_is_late_is_played_all_the_same() {
        if !is_available() {
            return println!("skipped: there is no libopus");
        }
        let mut ear = Ear::new().unwrap();
        // 2 is lost; 5 is late by 12 ms, and so are all that follow.
        let came = [(0, 0), (1, 10), (3, 30), (4, 40), (5, 62), (6, 72), (7, 82)];
        let played = play(&mut ear, &came, 90);
        let made_up: Vec<_> = played.iter().filter(|(_, came)| !came).map(|(at, _)| *at).collect();
        assert_eq!(made_up, [30, 60]);
        assert!(played.windows(2).all(|pair| pair[1].0 == pair[0].0 + 10), "{played:?}");
        assert_eq!(ear.counts(), EarCounts { played: 7, made_up: 2, ..EarCounts::default() });
        // Twice, and after its successors.
        assert_eq!(ear.handle_packet(at(90), 7, &packets(8)[7]), []);
        assert_eq!(ear.counts().late, 1);
    }

    #[test]
    fn after_five_it_is_silent_and_it_holds_no_more_than_30_ms() {
        if !is_available() {
            return println!("skipped: there is no libopus");
        }
        let mut ear = Ear::new().unwrap();
        let played = play(&mut ear, &[(0, 0)], 300);
        assert_eq!(played.len(), 6);
        assert_eq!((ear.counts().made_up, ear.counts().underruns, ear.poll_timeout()), (5, 1, None));
        // All at once.
        let came: Vec<_> = (20..40).map(|number| (number, 0)).collect();
        let mut ear = Ear::new().unwrap();
        let played = play(&mut ear, &came, 1);
        assert_eq!((played.len(), ear.counts().left_out), (3, 17));
    }

    #[test]
    fn what_is_no_packet_is_counted_and_made_up() {
        if !is_available() {
            return println!("skipped: there is no libopus");
        }
        let mut ear = Ear::new().unwrap();
        ear.handle_packet(at(0), 0, &packets(1)[0]);
        assert!(!ear.handle_packet(at(10), 1, &[0x03])[0].came);
        assert_eq!((ear.counts().malformed, ear.counts().made_up), (1, 1));
    }
}
