//! The end that hears: a thread that encodes what comes. The session never waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use taut_core::Time;
use taut_io::{Clock, Slice, set_slice, spawn_unprivileged, stand_back};
use taut_session::{ChannelEvent, ChannelId};
use taut_sound::Encoder;

use super::source::Frames;
use super::{Named, Source};

/// Of a packet's 10 ms, without what is around it. Opus is said to be transparent for speech and music of one channel from there.
const BITS: u32 = 64_000;

/// A microphone before its session begins.
pub(crate) struct Microphone {
    named: Named,
    frames: Frames,
    encoder: Encoder,
    is_open: Arc<AtomicBool>,
    ended: Receiver<()>,
}

/// What tells it.
pub(crate) struct MicrophoneWords {
    channel: ChannelId,
    is_open: Arc<AtomicBool>,
    /// Its end says that there is nobody any more.
    _here: SyncSender<()>,
}

impl Microphone {
    pub(super) fn new(
        name: &str,
        channel: ChannelId,
        source: &Source,
    ) -> Result<(Self, MicrophoneWords), String> {
        let encoder = Encoder::new(BITS).map_err(|error| error.to_string())?;
        let is_open = Arc::new(AtomicBool::new(false));
        let named = Named { name: name.to_owned(), channel };
        let frames = Frames::open(source)?;
        let (here, ended) = sync_channel(1);
        let microphone = Self { named, frames, encoder, is_open: Arc::clone(&is_open), ended };
        Ok((microphone, MicrophoneWords { channel, is_open, _here: here }))
    }

    /// Starts its thread, which ends with its [`MicrophoneWords`]. `send` gives a message to the session: when it was heard, and what; one that it does not
    /// take is gone.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start(
        mut self,
        clock: Clock,
        send: impl Fn(ChannelId, Time, Vec<u8>) -> bool + Send + 'static,
    ) -> Result<(), String> {
        let name = format!("taut sound {}", self.named.name);
        let run = move || {
            while self.ended.try_recv() != Err(TryRecvError::Disconnected) {
                let heard = match self.frames.next_frame(clock, &self.ended) {
                    Ok(heard) => heard,
                    // Of it alone: the session goes on without sound.
                    Err(why) => {
                        return crate::say(&format!("--microphone {} is silent: {why}", self.named.name));
                    }
                };
                // What is heard while nobody listens is gone, and so is what cannot be encoded.
                if self.is_open.load(Ordering::Acquire)
                    && let Ok(packet) = self.encoder.encode(&heard.1)
                {
                    send(self.named.channel, heard.0, packet);
                }
            }
        };
        // What it hears is due every 10 ms, and soon encoded.
        let first = || {
            stand_back();
            let _ = set_slice(Slice::Short);
        };
        spawn_unprivileged(&name, first, run).map(drop).map_err(|error| format!("a thread: {error}"))
    }
}

impl MicrophoneWords {
    /// Something happened to a channel.
    pub(super) fn channel(&self, event: &ChannelEvent) {
        if matches!(event, ChannelEvent::Opened { channel } if *channel == self.channel) {
            self.is_open.store(true, Ordering::Release);
        }
    }

    /// There is no session any more.
    pub(super) fn closed(&self) {
        self.is_open.store(false, Ordering::Release);
    }
}
