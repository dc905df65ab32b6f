//! A link in whose place another can be put while packets are inside.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use taut_core::{Backlog, Deadline, DropCause, Link, LinkEvent, Packet, PacketMeta, Time, earliest};

/// Links of before whose packets still come; where there are more, what is inside the oldest is cut off.
const BEFORE: usize = 8;

/// Carries by one link at a time. What is inside another one meanwhile comes out of that when it is due.
///
/// ```
/// use taut_core::{Duration, Link, Packet, Time};
/// use taut_link::{Chain, Delay};
/// use taut_netlab::emulate::Switched;
/// let link = |ms| Chain::from(Delay::new(Duration::from_millis(ms)));
/// let (mut switched, switch) = Switched::new(link(40));
/// switched.handle_input(Time::ZERO, Packet::default());
/// switch.put(link(1));
/// switched.handle_input(Time::ZERO, Packet::default());
/// let mut leaves = |ms: u64| switched.poll_transmit(Time::from_nanos(ms * 1_000_000)).is_some();
/// assert!(leaves(1) && !leaves(39) && leaves(40));
/// ```
#[derive(Debug)]
pub struct Switched<L> {
    link: L,
    /// Those of before, as long as there is something inside, the oldest first.
    before: VecDeque<L>,
    /// What the oldest lost that had to go.
    lost: VecDeque<LinkEvent>,
    next: Arc<Mutex<Option<L>>>,
}

/// Puts another link in the place of the one that is.
#[derive(Debug)]
pub struct Switch<L>(Arc<Mutex<Option<L>>>);

impl<L> Switch<L> {
    /// From the next packet on.
    pub fn put(&self, link: L) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
    }
}

impl<L: Link> Switched<L> {
    /// Begins with this link.
    pub fn new(link: L) -> (Self, Switch<L>) {
        let next = Arc::default();
        let before = VecDeque::new();
        (Self { link, before, lost: VecDeque::new(), next: Arc::clone(&next) }, Switch(next))
    }

    fn all(&self) -> impl Iterator<Item = &L> {
        self.before.iter().chain([&self.link])
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.before.iter_mut().chain([&mut self.link])
    }
}

impl<L: Link> Link for Switched<L> {
    fn handle_input(&mut self, now: Time, packet: Packet) {
        // Nobody waits long for that lock: a link is moved there, and no more.
        if let Some(next) = self.next.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.before.push_back(std::mem::replace(&mut self.link, next));
            if self.before.len() > BEFORE
                && let Some(mut oldest) = self.before.pop_front()
            {
                self.lost.extend(std::iter::from_fn(|| oldest.poll_event()));
                let lost = &mut self.lost;
                oldest.visit_held(&mut |meta| {
                    lost.push_back(LinkEvent::Dropped { meta: *meta, cause: DropCause::Cut });
                });
            }
        }
        self.before.retain(|link| link.held().packets > 0);
        self.link.handle_input(now, packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.all_mut().for_each(|link| link.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        self.all_mut().find_map(|link| link.poll_transmit(now))
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.lost.pop_front().or_else(|| self.all_mut().find_map(Link::poll_event))
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.all().map(Link::poll_timeout).fold(None, earliest)
    }

    fn visit_held(&self, visit: &mut dyn FnMut(&PacketMeta)) {
        self.all().for_each(|link| link.visit_held(visit));
    }

    fn queued(&self) -> Backlog {
        self.all().map(Link::queued).fold(Backlog::default(), |all, one| all + one)
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.link.counters()
    }
}
