//! What the messages that are still under way carry: when one is dropped, these samples and frames are.

use std::collections::VecDeque;

use taut_core::{Bytes, DropCause, Medium, NodeEvent, Sample, Time};
use taut_wire::media::{self, Content};

/// Samples and parts of frames that are remembered: of more messages than any transport here holds back.
const KEPT: usize = 1024;
/// Frames of each medium that are remembered.
const FRAMES: usize = 256;

/// Remembers what each message carries, so that a dropped message can be told as the samples and frames that are lost with
/// it, each once.
#[derive(Debug)]
pub(super) struct Carried {
    /// With the tag of the message, ascending.
    parts: VecDeque<(u64, Sample)>,
    /// The last frames that were made, and whether their loss was told, by medium and sequence modulo [`FRAMES`].
    frames: [Vec<Option<Frame>>; Medium::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    sample: Sample,
    dropped: bool,
}

impl Carried {
    pub(super) fn new() -> Self {
        Self { parts: VecDeque::with_capacity(KEPT), frames: [(); Medium::ALL.len()].map(|()| Vec::new()) }
    }

    /// A frame was made.
    pub(super) fn made(&mut self, sample: Sample) {
        if sample.medium != Medium::Haptic {
            let frames = &mut self.frames[sample.medium as usize];
            frames.resize(FRAMES, None);
            frames[sample.sequence as usize % FRAMES] = Some(Frame { sample, dropped: false });
        }
    }

    /// A message is about to be offered to the transport; it was made from samples and frames the oldest of which is so old.
    pub(super) fn offered(&mut self, tag: u64, oldest: Time, message: &[u8]) {
        let told = media::visit(message, |content| {
            self.keep(
                tag,
                match content {
                    Content::Sample(sample) => Sample {
                        medium: Medium::Haptic,
                        sequence: u64::from(sample.sequence),
                        created: sample.created,
                        size: Bytes::new(sample.payload.len() as u64),
                    },
                    Content::Fragment(fragment) => Sample {
                        medium: fragment.medium,
                        sequence: u64::from(fragment.frame),
                        created: oldest,
                        size: Bytes::ZERO,
                    },
                },
            );
        });
        debug_assert_eq!(told, Ok(()), "the multiplexer emits what the format allows");
    }

    fn keep(&mut self, tag: u64, part: Sample) {
        if self.parts.len() == KEPT {
            self.parts.pop_front();
        }
        self.parts.push_back((tag, part));
    }

    /// A message will not arrive: what is lost with it.
    pub(super) fn dropped(&mut self, tag: u64, cause: DropCause, events: &mut VecDeque<NodeEvent>) {
        let first = self.parts.partition_point(|part| part.0 < tag);
        for index in first..self.parts.len() {
            let (of, sample) = self.parts[index];
            if of != tag {
                break;
            }
            events.extend(self.once(sample).map(|sample| NodeEvent::Dropped(sample, cause)));
        }
    }

    /// The sample as it was made, the first time that its loss is told: several parts of a frame may be lost.
    pub(super) fn once(&mut self, sample: Sample) -> Option<Sample> {
        let frames = &mut self.frames[sample.medium as usize];
        match frames.get_mut(sample.sequence as usize % FRAMES) {
            Some(Some(frame)) if frame.sample.sequence == sample.sequence => {
                (!std::mem::replace(&mut frame.dropped, true)).then_some(frame.sample)
            }
            _ => Some(sample),
        }
    }
}
