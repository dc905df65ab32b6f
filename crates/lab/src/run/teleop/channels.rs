//! What became of the messages of each channel, by their numbers: made at one end, delivered at the other, or dropped at either.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{DropCause, Time};
use taut_session::{ChannelEvent, ChannelId, SendRefused};

use super::record::{Latencies, by_name};
use crate::metrics::Watch;
use crate::scenario::{Direction, Teleop, TeleopChannel};
use taut_report::result::ChannelResult;

/// Something that happened to a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Happened {
    Made(Result<u64, SendRefused>),
    /// It came, so many bytes.
    Came(u64, usize),
    Dropped(u64, DropCause),
}

/// What an end was told of a message; `None`: of none.
pub(super) fn happened(event: &ChannelEvent) -> Option<(ChannelId, Happened)> {
    match event {
        ChannelEvent::Received { channel, sequence, payload, .. } => {
            Some((*channel, Happened::Came(*sequence, payload.len())))
        }
        // A copy of a fragment is not the message.
        ChannelEvent::Dropped { cause: DropCause::Duplicate, .. } => None,
        ChannelEvent::Dropped { channel, sequence, cause } => {
            Some((*channel, Happened::Dropped(*sequence, *cause)))
        }
        ChannelEvent::Opened { .. }
        | ChannelEvent::Refused { .. }
        | ChannelEvent::Withheld { .. }
        | ChannelEvent::Arrived { .. } => None,
    }
}

/// The books of all channels.
pub(super) struct ChannelBooks {
    watch: Watch,
    books: Vec<ChannelBook>,
}

#[derive(Default)]
struct ChannelBook {
    made: u64,
    delivered: u64,
    bytes: u64,
    /// Of these, the bytes of messages that were made after the warm-up.
    counted: u64,
    dropped: [u64; DropCause::ALL.len()],
    /// Nobody remembers them any more.
    forgotten: u64,
    age: Latencies,
    /// Of what nobody knows the fate, when it was made.
    open: BTreeMap<u64, Time>,
    order: VecDeque<u64>,
}

/// Messages of one channel that are remembered.
const OPEN: usize = 1 << 16;

impl ChannelBooks {
    pub(super) fn new(teleop: &Teleop, watch: Watch) -> Self {
        let books = teleop.channels.iter().map(|_| ChannelBook::default()).collect();
        Self { watch, books }
    }

    /// The bytes that it brought, and when they were made.
    pub(super) fn write(
        &mut self,
        now: Time,
        channel: ChannelId,
        happened: Happened,
    ) -> Option<(usize, Time)> {
        let book = self.books.get_mut(usize::from(channel.0))?;
        match happened {
            Happened::Made(taken) => {
                book.made += 1;
                match taken {
                    Ok(sequence) => book.opens(sequence, now),
                    Err(refused) => book.dropped[refused.cause() as usize] += 1,
                }
            }
            Happened::Came(sequence, bytes) => {
                let made = book.open.remove(&sequence)?;
                book.delivered += 1;
                book.bytes += bytes as u64;
                if self.watch.counts(made) {
                    book.counted += bytes as u64;
                    book.age.record(now.saturating_since(made));
                }
                return Some((bytes, made));
            }
            Happened::Dropped(sequence, cause) => {
                if book.open.remove(&sequence).is_some() {
                    book.dropped[cause as usize] += 1;
                }
            }
        }
        None
    }

    /// `rate`: bits per second of so many bytes while states were made.
    pub(super) fn to_result(&self, teleop: &Teleop, rate: impl Fn(u64) -> Option<f64>) -> Vec<ChannelResult> {
        let each = teleop.channels.iter().zip(&self.books);
        each.map(|(TeleopChannel { channel, .. }, book)| {
            let way = match channel.way() {
                Ok(taut_session::Direction::ToRobot) => Direction::Forward,
                _ => Direction::Backward,
            };
            ChannelResult {
                name: channel.name.clone(),
                direction: way,
                delivery: channel.fate().name().to_owned(),
                made: book.made,
                delivered: book.delivered,
                dropped: by_name(&book.dropped),
                lost: book.forgotten + book.open.len() as u64,
                bytes: book.bytes,
                delivered_bps: rate(book.counted),
                age_ms: book.age.result(),
            }
        })
        .collect()
    }
}

impl ChannelBook {
    fn opens(&mut self, sequence: u64, now: Time) {
        self.open.insert(sequence, now);
        self.order.push_back(sequence);
        if self.order.len() > OPEN {
            let oldest = self.order.pop_front();
            self.forgotten += u64::from(oldest.is_some_and(|oldest| self.open.remove(&oldest).is_some()));
        }
    }
}
