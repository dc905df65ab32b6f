//! What pages ask of encoders.

use std::collections::BTreeMap;

use taut_core::{Duration, Time};
use taut_media::picture::Ask;

use crate::seat::PageId;

/// A page that looks on has a key picture so seldom, at most: it costs the others their rate.
const KEYS: Duration = Duration::from_secs(1);
/// And once it has lacked a picture for so long: where the page in control lacks it as well, the encoder makes up for that.
const LACKED: Duration = Duration::from_millis(300);

/// The encoder goes by what the page in control has. Another one may lack what that has: it gets a key picture once in a while. Sans-IO.
#[derive(Debug)]
pub(crate) struct Asks {
    /// A page that looks on may ask for a key picture.
    next_key: Time,
    /// What each of those decoded last of a channel that said that it lacks what is behind that, and since when it says so.
    lacks: BTreeMap<(PageId, u8), (u32, Time)>,
    /// Not yet sent, newest of each channel.
    waiting: BTreeMap<u8, Vec<u8>>,
}

impl Asks {
    pub(crate) fn new() -> Self {
        Self { next_key: Time::ZERO, lacks: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// A page, which `sits` or looks on, asks this of the encoder of a channel.
    pub(crate) fn ask(&mut self, now: Time, page: PageId, sits: bool, channel: u8, mut ask: Vec<u8>) {
        let is_key = |ask: &[u8]| matches!(Ask::parse(ask), Ok(Ask::Key(_)));
        // No picture that recovers is made for it.
        if let (false, Ok(Ask::Missing(last))) = (sits, Ask::parse(&ask))
            && self.lacks(now, (page, channel), last) >= LACKED
        {
            ask = Ask::Key(0).emit().to_vec();
        }
        let key = is_key(&ask);
        if !(sits || key && now >= self.next_key) {
            return;
        }
        if key {
            self.next_key = now + KEYS;
        }
        // A key picture is all that anybody lacks.
        if key || self.waiting.get(&channel).is_none_or(|waiting| !is_key(waiting)) {
            self.waiting.insert(channel, ask);
        }
    }

    /// For how long it says so.
    fn lacks(&mut self, now: Time, of: (PageId, u8), last: u32) -> Duration {
        let (behind, since) = self.lacks.entry(of).or_insert((last, now));
        if *behind != last {
            (*behind, *since) = (last, now);
        }
        now.saturating_since(*since)
    }

    pub(crate) fn leave(&mut self, page: PageId) {
        self.lacks.retain(|(other, _), _| *other != page);
    }

    /// The channel, and what goes to its encoder next.
    pub(crate) fn poll(&mut self) -> Option<(u8, Vec<u8>)> {
        self.waiting.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SITS: PageId = PageId(0);
    const LOOKS_ON: PageId = PageId(1);

    #[test]
    fn a_page_that_looks_on_has_a_key_picture_soon_after_a_loss_of_its_own_and_once_a_second() {
        let mut asks = Asks::new();
        let mut keys = Vec::new();
        // It asks every 60 ms, and the page in control has all pictures.
        for ms in (0..2_000).step_by(60) {
            let now = Time::ZERO + MS * ms;
            let decoded = Ask::Decoded { last: 200, later: 0 }.emit().to_vec();
            asks.ask(now, SITS, true, 0, decoded.clone());
            asks.ask(now, LOOKS_ON, false, 0, Ask::Missing(103).emit().to_vec());
            match asks.poll().unwrap() {
                (0, ask) if ask == Ask::Key(0).emit() => keys.push(ms),
                other => assert_eq!(other, (0, decoded)),
            }
        }
        assert_eq!(keys, [300, 1_320]);
    }

    #[test]
    fn what_the_page_in_control_lacks_too_costs_no_key_picture_while_it_is_made_up_for_soon() {
        let mut asks = Asks::new();
        for ms in (0..2_000).step_by(60) {
            let now = Time::ZERO + MS * ms;
            // One of eight is lost to both, and 240 ms later there is another.
            let missing = Ask::Missing((ms / 240) as u32).emit().to_vec();
            asks.ask(now, SITS, true, 0, missing.clone());
            asks.ask(now, LOOKS_ON, false, 0, missing.clone());
            assert_eq!(asks.poll(), Some((0, missing)));
        }
    }
}
