//! The end that plays: a thread that decodes what comes, plays it evenly, and measures how old it is.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use taut_core::{Duration, Time};
use taut_io::{Clock, spawn_unprivileged, stand_back};
use taut_session::{ChannelEvent, ChannelId};
use taut_sound::{Ear, EarCounts, FRAME, Onsets, Played, RATE, Samples};

use super::{Named, Page, Sink};
use crate::ages::Ages;
use crate::host::print_measures;
use crate::streams::Complaints;

/// Packets that wait for it, at most: 640 ms.
const PACKETS: usize = 64;
/// Measures are told so often.
const EVERY: Duration = Duration::from_secs(1);
/// Frames that wait for a program, at most: 40 ms, and as much in its pipe.
const FRAMES: usize = 4;
const PIPE: usize = 4_096;

/// A packet that came.
struct Came {
    /// When its first sample was heard.
    made: Time,
    number: u64,
    packet: Vec<u8>,
}

/// A loudspeaker before its session begins.
pub(crate) struct Speaker {
    named: Named,
    ear: Ear,
    output: Output,
    packets: Receiver<Came>,
    measures: bool,
    json: bool,
    complaints: Complaints,
}

/// What comes goes there.
pub(crate) struct SpeakerWords {
    channel: ChannelId,
    packets: SyncSender<Came>,
}

impl Speaker {
    pub(super) fn new(
        name: &str,
        channel: ChannelId,
        (sink, page): (&Sink, Option<&Page>),
        measures: bool,
        json: bool,
    ) -> Result<(Self, SpeakerWords), String> {
        let ear = Ear::new().map_err(|error| error.to_string())?;
        let (sender, packets) = sync_channel(PACKETS);
        let named = Named { name: name.to_owned(), channel };
        let output = Output::open(sink, page)?;
        let speaker = Self { named, ear, output, packets, measures, json, complaints: Complaints::default() };
        Ok((speaker, SpeakerWords { channel, packets: sender }))
    }

    /// Starts its thread, which ends with its [`SpeakerWords`] and then says what was heard.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start(self, clock: Clock) -> Result<JoinHandle<()>, String> {
        let name = format!("taut sound {}", self.named.name);
        spawn_unprivileged(&name, stand_back, move || self.run(clock))
            .map_err(|error| format!("a thread: {error}"))
    }

    fn run(mut self, clock: Clock) {
        let (mut all, mut second) = (Measured::default(), Measured::default());
        let mut onsets = Onsets::default();
        let mut due = clock.now() + EVERY;
        loop {
            let until = self.ear.poll_timeout().unwrap_or(due).min(due);
            let left = until.saturating_since(clock.now());
            let came = match self.packets.recv_timeout(std::time::Duration::from(left)) {
                Ok(came) => Some(came),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let now = clock.now();
            let made = came.as_ref().map(|came| came.made);
            let mut played: Vec<_> = self.ear.handle_timeout(now).into_iter().collect();
            if let Some(came) = came {
                played.extend(self.ear.handle_packet(now, came.number, &came.packet));
            }
            for frame in played {
                // What was made up is as old as nobody knows.
                let made = made.filter(|_| frame.came);
                let click = onsets.find(&frame.samples);
                second.play(&frame, made, click);
                all.play(&frame, made, click);
                let name = &self.named.name;
                match self.output.play(made.map(|made| now.saturating_since(made)), &frame.samples) {
                    Ok(true) => {}
                    Ok(false) => {
                        (second.left_out, all.left_out) = (second.left_out + 1, all.left_out + 1);
                        let said = format!(
                            "--speaker {name}: its program reads too slowly, and what it has no room for is left out"
                        );
                        self.complaints.say(&said, false);
                    }
                    Err(why) => {
                        crate::say(&format!("--speaker {name} is silent: {why}"));
                        self.output = Output::Null;
                    }
                }
            }
            if now >= due {
                if self.measures {
                    self.tell("sound", now, &second);
                }
                second = Measured { before: self.ear.counts(), ..Measured::default() };
                due = now + EVERY;
            }
        }
        self.output.end();
        self.tell("sound_summary", clock.now(), &all);
    }

    fn tell(&self, event: &'static str, now: Time, measured: &Measured) {
        print_measures(event, now, measured.as_json(&self.named.name, self.ear.counts()), self.json);
    }
}

impl SpeakerWords {
    /// Something happened to a channel, at that time.
    pub(super) fn channel(&self, at: Time, event: &ChannelEvent) {
        // Until the clocks are compared, sound is not held, and comes as it comes: the first moments of a session are silent.
        if let ChannelEvent::Received { channel, sequence, age: Some(age), payload } = event
            && *channel == self.channel
        {
            // Where it is too slow, frames are missing, as they are when they are lost on the way.
            let came = Came { made: at - *age, number: *sequence, packet: payload.clone() };
            let _ = self.packets.try_send(came);
        }
    }
}

/// What was played for some time.
#[derive(Debug, Default)]
struct Measured {
    /// From when a frame's first sample was heard to when it is played.
    ages: Ages,
    /// From when a click was made to when it is heard: with what the encoder looks ahead.
    clicks: Ages,
    /// Frames for which a program had no room.
    left_out: u64,
    before: EarCounts,
}

impl Measured {
    fn play(&mut self, frame: &Played, made: Option<Time>, click: Option<usize>) {
        let Some(made) = made else { return };
        let age = frame.at.saturating_since(made);
        self.ages.add(age);
        if let Some(sample) = click {
            // A click begins with a frame.
            self.clicks.add(age + Duration::from_nanos((sample * 1_000_000_000 / RATE) as u64));
        }
    }

    fn as_json(&self, name: &str, counts: EarCounts) -> Vec<(&'static str, Value)> {
        let before = self.before;
        vec![
            ("channel", json!(name)),
            ("frames", json!(counts.played - before.played)),
            ("mouth_to_ear_ms", self.ages.as_json()),
            ("clicks", json!(self.clicks.count())),
            ("click_ms", self.clicks.as_json()),
            ("made_up", json!(counts.made_up - before.made_up)),
            ("underruns", json!(counts.underruns - before.underruns)),
            ("left_out", json!(counts.left_out - before.left_out + self.left_out)),
            ("late", json!(counts.late - before.late)),
            ("malformed", json!(counts.malformed - before.malformed)),
        ]
    }
}

/// Where sound goes.
enum Output {
    Null,
    Page(Page),
    Wav { file: hound::WavWriter<BufWriter<File>>, frames: u32 },
    Program { child: Child, frames: SyncSender<Box<Samples>> },
}

impl Output {
    fn open(sink: &Sink, page: Option<&Page>) -> Result<Self, String> {
        match sink {
            Sink::Null => Ok(Self::Null),
            Sink::Page => {
                let page =
                    page.ok_or("a page is of `taut console`; there is null, wav:FILE and exec:PROGRAM")?;
                Ok(Self::Page(Arc::clone(page)))
            }
            Sink::Wav(path) => Self::wav(path).map_err(|error| format!("{}: {error}", path.display())),
            Sink::Program(program) => {
                let mut child = program.spawn(Stdio::piped(), Stdio::null())?;
                let mut input = child.stdin.take().ok_or("it has no input")?;
                // What waits there is heard later by so much.
                let _ = rustix::pipe::fcntl_setpipe_size(&input, PIPE);
                let (frames, waiting) = sync_channel::<Box<Samples>>(FRAMES);
                let write = move || {
                    while let Ok(frame) = waiting.recv() {
                        let bytes: Vec<u8> = frame.iter().flat_map(|sample| sample.to_le_bytes()).collect();
                        if input.write_all(&bytes).is_err() {
                            return;
                        }
                    }
                };
                spawn_unprivileged("taut sound pipe", stand_back, write)
                    .map_err(|error| format!("a thread: {error}"))?;
                Ok(Self::Program { child, frames })
            }
        }
    }

    fn wav(path: &Path) -> Result<Self, hound::Error> {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: RATE as u32,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        Ok(Self::Wav { file: hound::WavWriter::create(path, spec)?, frames: 0 })
    }

    /// Was there room for it?
    ///
    /// # Errors
    /// One line, when it plays no more.
    fn play(&mut self, age: Option<Duration>, samples: &Samples) -> Result<bool, String> {
        match self {
            Self::Null => Ok(true),
            Self::Page(page) => {
                page(age, samples);
                Ok(true)
            }
            Self::Wav { file, frames } => {
                let wrong = |error: hound::Error| error.to_string();
                samples.iter().try_for_each(|sample| file.write_sample(*sample)).map_err(wrong)?;
                *frames += 1;
                // A second at a time, so that the file can be read whatever happens. The header has 32 bits for its length.
                if frames.is_multiple_of((RATE / FRAME) as u32) {
                    file.flush().map_err(wrong)?;
                }
                if *frames >= MOST_FRAMES { Err("the file is full: 4 hours".to_owned()) } else { Ok(true) }
            }
            Self::Program { child, frames } => match frames.try_send(Box::new(*samples)) {
                Ok(()) => Ok(true),
                Err(TrySendError::Full(_)) => Ok(false),
                Err(TrySendError::Disconnected(_)) => Err(match child.try_wait() {
                    Ok(Some(status)) => format!("the program ended: {status}"),
                    _ => "the program takes no more".to_owned(),
                }),
            },
        }
    }

    fn end(&mut self) {
        if let Self::Wav { file, .. } = self {
            let _ = file.flush();
        }
    }
}

/// Of a file: 1.4 GB.
const MOST_FRAMES: u32 = 4 * 3_600 * 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Program;

    #[test]
    fn what_a_program_does_not_read_is_left_out_and_counted() {
        let program = Program::of_command("exec:sleep 60").unwrap().unwrap();
        let mut output = Output::open(&Sink::Program(program), None).unwrap();
        let mut measured = Measured::default();
        for _ in 0..100 {
            measured.left_out += u64::from(!output.play(None, &[0; FRAME]).unwrap());
        }
        let Output::Program { child, .. } = &mut output else { panic!("a program") };
        child.kill().unwrap();
        child.wait().unwrap();
        // It has room for four, its pipe for as many, and one is on its way.
        assert!((90..100).contains(&measured.left_out), "{measured:?}");
        let told = measured.as_json("cell", EarCounts::default());
        assert!(told.contains(&("left_out", json!(measured.left_out))), "{told:?}");
    }
}
