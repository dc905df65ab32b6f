//! What waits for a page.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::frame::STATE;

/// Pictures of a channel that a page has and has not taken yet, at most.
pub const CREDIT: u8 = 2;
/// And that are under way to it, or their acknowledgements back, at most: of 30 a second a quarter of a second's.
pub const WAY: u8 = 8;
/// Pictures of a channel that wait at most, besides: a fifth of a second of 30 a second, which a page that was held up decodes in 30 ms. To drop one that others
/// need costs more: a round trip and a recovering picture.
pub const PICTURES: usize = 6;
/// Events that wait at most: a page that is further behind is closed, for it shows what is not so.
pub const EVENTS: usize = 256;
/// Records of states that wait at most; older ones make way, and are counted.
pub const STATES: usize = 1_000;

/// Frames of sound that wait at most, of 10 ms each; older ones make way.
pub const SOUND: usize = 8;

/// Bytes of the protocol's own answers that wait at most: a page that asks for more and takes none is closed.
pub const ANSWERS: usize = 4_096;

/// Why a page is spoken with no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// What goes to a page next, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Frames of the protocol's own, as they go out; it may be none.
    pub answers: Vec<u8>,
    /// A message.
    pub message: Option<Arc<[u8]>>,
}

/// What waits for a page, bounded. Sans-IO.
#[derive(Debug, Default)]
pub struct Outbox {
    answers: Vec<u8>,
    events: VecDeque<Arc<[u8]>>,
    states: VecDeque<[u8; STATE]>,
    states_dropped: u64,
    sound: VecDeque<Arc<[u8]>>,
    sound_dropped: u64,
    pictures: BTreeMap<u8, Waiting>,
    joints: Option<Arc<[u8]>>,
    way: u8,
    closed: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    pictures: VecDeque<Arc<[u8]>>,
    /// Sent and not taken yet.
    shown: u8,
    dropped: u64,
}

impl Outbox {
    /// Whole frames with which the protocol itself answers the page: they go out as they are, before the next message.
    pub fn answer(&mut self, frames: &[u8]) {
        if self.answers.len() + frames.len() > ANSWERS {
            self.close();
        } else {
            self.answers.extend_from_slice(frames);
        }
    }

    /// An event. It is not dropped.
    pub fn event(&mut self, message: Arc<[u8]>) {
        if self.events.len() == EVENTS {
            self.close();
        } else if !self.closed {
            self.events.push_back(message);
        }
    }

    /// A record of states.
    pub fn state(&mut self, record: [u8; STATE]) {
        if self.states.len() == STATES {
            self.states.pop_front();
            self.states_dropped += 1;
        }
        self.states.push_back(record);
    }

    /// A frame of sound. Of too many the oldest makes way, and is counted.
    pub fn sound(&mut self, message: Arc<[u8]>) {
        if self.sound.len() == SOUND {
            self.sound.pop_front();
            self.sound_dropped += 1;
        }
        self.sound.push_back(message);
    }

    /// Where joints are, in place of where they were.
    pub fn joints(&mut self, message: Arc<[u8]>) {
        self.joints = Some(message);
    }

    /// So many records of states that were polled did not get there.
    pub fn lost_states(&mut self, records: usize) {
        self.states_dropped += records as u64;
    }

    /// A frame of sound that was polled did not get there.
    pub fn lost_sound(&mut self) {
        self.sound_dropped += 1;
    }

    /// Records of states that made way, or did not get there.
    pub fn states_dropped(&self) -> u64 {
        self.states_dropped
    }

    /// Frames of sound that made way, or did not get there.
    pub fn sound_dropped(&self) -> u64 {
        self.sound_dropped
    }

    /// A picture of a channel, which needs the one before it or `decodes_alone`. All that wait make way for one that does, or where they are too many,
    /// and are counted.
    pub fn picture(&mut self, channel: u8, message: Arc<[u8]>, decodes_alone: bool) {
        let Waiting { pictures, dropped, .. } = self.pictures.entry(channel).or_default();
        if decodes_alone || pictures.len() == PICTURES {
            *dropped += pictures.drain(..).count() as u64;
        }
        pictures.push_back(message);
    }

    /// The page took a picture of this channel.
    pub fn taken(&mut self, channel: u8) {
        if let Some(waiting) = self.pictures.get_mut(&channel) {
            waiting.shown = waiting.shown.saturating_sub(1);
        }
    }

    /// So many pictures of a channel are under way meanwhile: the page is elsewhere.
    pub fn way(&mut self, pictures: u8) {
        self.way = pictures.min(WAY);
    }

    /// A picture of this channel was taken back on its way, and is counted: the page will never take it.
    pub fn taken_back(&mut self, channel: u8) {
        self.taken(channel);
        if let Some(waiting) = self.pictures.get_mut(&channel) {
            waiting.dropped += 1;
        }
    }

    /// Pictures that made way or were taken back, of all channels.
    pub fn dropped(&self) -> u64 {
        self.pictures.values().map(|waiting| waiting.dropped).sum()
    }

    /// Nothing goes there any more.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// The next message but states; events go first, then sound, then pictures.
    ///
    /// # Errors
    /// When the page is closed.
    pub fn poll(&mut self) -> Result<Option<Arc<[u8]>>, Closed> {
        if self.closed {
            return Err(Closed);
        }
        if let Some(first) = self.events.pop_front().or_else(|| self.sound.pop_front()) {
            return Ok(Some(first));
        }
        let mut open = self.pictures.values_mut().filter(|waiting| waiting.shown < CREDIT + self.way);
        let picture = open.find_map(|waiting| {
            let first = waiting.pictures.pop_front()?;
            waiting.shown += 1;
            Some(first)
        });
        Ok(picture.or_else(|| self.joints.take()))
    }

    /// All states that wait, as one message.
    pub fn states(&mut self) -> Option<Arc<[u8]>> {
        let all: Vec<u8> = std::iter::once(2).chain(self.states.drain(..).flatten()).collect();
        (all.len() > 1).then(|| all.into())
    }
}

/// A page's outbox, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Mailbox(Arc<(Mutex<Outbox>, Condvar)>);

impl Mailbox {
    /// As [`Outbox::answer`].
    pub fn answer(&self, frames: &[u8]) {
        self.change(|outbox| outbox.answer(frames));
    }

    /// As [`Outbox::event`].
    pub fn event(&self, message: Arc<[u8]>) {
        self.change(|outbox| outbox.event(message));
    }

    /// As [`Outbox::state`]. Nobody is woken: states go once in a while.
    pub fn state(&self, record: [u8; STATE]) {
        self.lock().state(record);
    }

    /// As [`Outbox::picture`].
    pub fn picture(&self, channel: u8, message: Arc<[u8]>, decodes_alone: bool) {
        self.change(|outbox| outbox.picture(channel, message, decodes_alone));
    }

    /// As [`Outbox::sound`].
    pub fn sound(&self, message: Arc<[u8]>) {
        self.change(|outbox| outbox.sound(message));
    }

    /// As [`Outbox::joints`]. Nobody is woken, as for states.
    pub fn joints(&self, message: Arc<[u8]>) {
        self.lock().joints(message);
    }

    /// As [`Outbox::lost_states`].
    pub fn lost_states(&self, records: usize) {
        self.lock().lost_states(records);
    }

    /// As [`Outbox::lost_sound`].
    pub fn lost_sound(&self) {
        self.lock().lost_sound();
    }

    /// As [`Outbox::states_dropped`].
    pub fn states_dropped(&self) -> u64 {
        self.lock().states_dropped()
    }

    /// As [`Outbox::sound_dropped`].
    pub fn sound_dropped(&self) -> u64 {
        self.lock().sound_dropped()
    }

    /// As [`Outbox::taken`].
    pub fn taken(&self, channel: u8) {
        self.change(|outbox| outbox.taken(channel));
    }

    /// As [`Outbox::way`].
    pub fn way(&self, pictures: u8) {
        self.change(|outbox| outbox.way(pictures));
    }

    /// As [`Outbox::taken_back`].
    pub fn taken_back(&self, channel: u8) {
        self.change(|outbox| outbox.taken_back(channel));
    }

    /// As [`Outbox::close`].
    pub fn close(&self) {
        self.change(Outbox::close);
    }

    /// As [`Outbox::dropped`].
    pub fn dropped(&self) -> u64 {
        self.lock().dropped()
    }

    /// The protocol's answers, and the next message; waits for either, and gives what states there are once `patience` is over, or at once
    /// where there is none.
    ///
    /// # Errors
    /// When the page is closed.
    pub fn wait(&self, patience: Duration) -> Result<Due, Closed> {
        let (mut outbox, mut is_over) = (self.lock(), patience.is_zero());
        loop {
            let message = if is_over && !outbox.closed { outbox.states() } else { outbox.poll()? };
            if is_over || message.is_some() || !outbox.answers.is_empty() {
                return Ok(Due { answers: std::mem::take(&mut outbox.answers), message });
            }
            let (woken, wait) =
                self.0.1.wait_timeout(outbox, patience).unwrap_or_else(PoisonError::into_inner);
            (outbox, is_over) = (woken, wait.timed_out());
        }
    }

    fn change(&self, change: impl FnOnce(&mut Outbox)) {
        change(&mut self.lock());
        self.0.1.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Outbox> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(byte: u8) -> Arc<[u8]> {
        [byte].into()
    }

    #[test]
    fn pictures_wait_for_a_page_that_has_taken_the_ones_before() {
        let mut outbox = Outbox::default();
        let mut shown = Vec::new();
        for number in 0..5 {
            outbox.picture(0, message(number), number == 0);
            shown.extend(outbox.poll().unwrap());
        }
        assert_eq!((shown, outbox.dropped()), (vec![message(0), message(1)], 0));
        outbox.taken(0);
        assert_eq!(outbox.poll(), Ok(Some(message(2))));
        assert_eq!(outbox.poll(), Ok(None));
        // What needs none of them is worth more than they are.
        outbox.picture(0, message(5), true);
        outbox.taken(0);
        assert_eq!((outbox.poll(), outbox.dropped()), (Ok(Some(message(5))), 2));
        // One that will not get there leaves its room.
        outbox.picture(0, message(6), false);
        assert_eq!(outbox.poll(), Ok(None));
        outbox.taken_back(0);
        assert_eq!((outbox.poll(), outbox.dropped()), (Ok(Some(message(6))), 3));
    }

    #[test]
    fn a_page_that_is_elsewhere_has_more_under_way_and_no_more_than_there_may_be() {
        for (way, sent) in [(0, 2), (3, 5), (255, CREDIT + WAY)] {
            let mut outbox = Outbox::default();
            outbox.way(way);
            for number in 0..20 {
                outbox.picture(0, message(number), true);
                assert_eq!(outbox.poll().unwrap().is_some(), number < sent, "{way}");
            }
        }
    }

    #[test]
    fn of_too_many_pictures_that_wait_the_newest_stays() {
        let mut outbox = Outbox::default();
        (0..=PICTURES as u8).for_each(|number| outbox.picture(0, message(number), false));
        assert_eq!((outbox.poll(), outbox.dropped()), (Ok(Some(message(PICTURES as u8))), PICTURES as u64));
        assert_eq!(outbox.poll(), Ok(None));
    }

    #[test]
    fn of_joints_the_newest_goes_and_behind_all_else() {
        let mut outbox = Outbox::default();
        outbox.joints(message(1));
        outbox.joints(message(2));
        outbox.picture(0, message(3), true);
        let polled: Vec<_> = (0..3).map(|_| outbox.poll().unwrap()).collect();
        assert_eq!(polled, [Some(message(3)), Some(message(2)), None]);
    }

    #[test]
    fn answers_of_the_protocol_wake_whoever_waits_and_too_many_close_the_page() {
        let mailbox = Mailbox::default();
        let long = Duration::from_secs(60);
        mailbox.answer(b"pong");
        mailbox.event(message(1));
        let answers = b"pong".to_vec();
        let both = Due { answers: answers.clone(), message: Some(message(1)) };
        assert_eq!(mailbox.wait(long), Ok(both));
        mailbox.answer(b"pong");
        assert_eq!(mailbox.wait(long), Ok(Due { answers, message: None }));
        (0..=ANSWERS / 4).for_each(|_| mailbox.answer(b"pong"));
        assert_eq!(mailbox.wait(long), Err(Closed));
    }

    #[test]
    fn a_page_that_does_not_read_events_is_closed_and_old_states_make_way_and_are_counted() {
        let mut outbox = Outbox::default();
        (0..=EVENTS).for_each(|_| outbox.event(message(1)));
        assert_eq!(outbox.poll(), Err(Closed));
        let mut outbox = Outbox::default();
        (0..=STATES).for_each(|place| outbox.state([u8::from(place == 0); STATE]));
        let states = outbox.states().unwrap();
        assert_eq!((states.len(), states[1], outbox.states()), (1 + STATES * STATE, 0, None));
        assert_eq!(outbox.states_dropped(), 1);
    }
}
