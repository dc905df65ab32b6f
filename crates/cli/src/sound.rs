//! Arguments `--microphone` and `--speaker`, at either end: sound from one to the other.

mod microphone;
mod source;
mod speaker;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use taut_core::{Duration, Time};
use taut_lab::scenario::ChannelSpec;
use taut_session::{ChannelEvent, ChannelId, Direction};
use taut_sound::{MOST_BYTES, SCHEMA, Samples};

pub(crate) use self::microphone::{Microphone, MicrophoneWords};
pub(crate) use self::speaker::{Speaker, SpeakerWords};
use crate::channels::{Channels, named};
use crate::device::Program;

/// A copy of each packet follows it after 10 ms; what lost the first plays that.
const HELD_AT_LEAST: &str = "15ms";
/// On a way that is more uneven than that, sound has gaps.
const HELD_AT_MOST: &str = "120ms";

/// What either end may have of it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SoundArguments {
    /// Send sound over a channel of this name: NAME=click or NAME=tone:HERTZ, test sounds; NAME=wav:FILE, of 48 kHz, mono, 16 bits, again and again; NAME=exec:PROGRAM, what it writes: raw samples of that kind, such as "exec:arecord -q -t raw -f S16_LE -r 48000 -c 1 --period-time=10000 --buffer-time=40000". Repeatable
    #[arg(long, value_name = "NAME=SOURCE")]
    microphone: Vec<Spec<Source>>,
    /// Play the sound of the peer's --microphone of this name: NAME=null, nowhere, and say at the end how old it was; NAME=wav:FILE; NAME=exec:PROGRAM, which reads it: "exec:aplay -q -t raw -f S16_LE -r 48000 -c 1 --period-time=10000 --buffer-time=40000"; NAME=page, that of `taut console`. Repeatable
    #[arg(long, value_name = "NAME=SINK")]
    speaker: Vec<Spec<Sink>>,
    /// Print every second how old the sound of each --speaker was
    #[arg(long, requires = "speaker")]
    measure_sound: bool,
}

/// A channel, and where its sound comes from or goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spec<T> {
    name: String,
    place: T,
}

/// Where sound comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// Two clicks a second.
    Clicks,
    /// A sine, Hz.
    Tone(u32),
    /// A file, again and again.
    Wav(PathBuf),
    /// What a program writes.
    Program(Program),
}

/// Where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sink {
    /// Nowhere.
    Null,
    /// To the page of a console.
    Page,
    /// Into a file.
    Wav(PathBuf),
    /// To a program.
    Program(Program),
}

impl<T: FromStr<Err = String>> FromStr for Spec<T> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write NAME=KIND, such as cell=click at one end and cell=null at the other";
        let (name, place) = named(text, 64, form)?;
        Ok(Self { name, place: place.parse()? })
    }
}

impl FromStr for Source {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(program) = Program::of_command(text) {
            return program.map(Self::Program);
        }
        match text.split_once(':') {
            None if text == "click" => Ok(Self::Clicks),
            None if text == "tone" => Ok(Self::Tone(440)),
            Some(("tone", hertz)) => match hertz.parse() {
                Ok(hertz @ 20..=20_000) => Ok(Self::Tone(hertz)),
                _ => Err(format!("`{hertz}` is not 20 to 20000 Hz: write tone:440")),
            },
            Some(("wav", file)) if !file.is_empty() => Ok(Self::Wav(file.into())),
            _ => Err(format!(
                "`{text}` is not a source of sound; there is click, tone:HERTZ, wav:FILE and exec:PROGRAM"
            )),
        }
    }
}

impl FromStr for Sink {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(program) = Program::of_command(text) {
            return program.map(Self::Program);
        }
        match text.split_once(':') {
            None if text == "null" => Ok(Self::Null),
            None if text == "page" => Ok(Self::Page),
            Some(("wav", file)) if !file.is_empty() => Ok(Self::Wav(file.into())),
            _ => {
                Err(format!("`{text}` is no place for sound; there is null, page, wav:FILE and exec:PROGRAM"))
            }
        }
    }
}

/// The page of a console, which plays what was heard so long ago, if it was not made up. It is called on a thread of its own, and does not wait.
pub(crate) type Page = Arc<dyn Fn(Option<Duration>, &Samples) + Send + Sync>;

/// The sound of one end, before its session begins.
#[derive(Default)]
pub(crate) struct Sound {
    pub(crate) microphones: Vec<Microphone>,
    pub(crate) speakers: Vec<Speaker>,
    pub(crate) words: SoundWords,
}

/// What tells it.
#[derive(Default)]
pub(crate) struct SoundWords {
    pub(crate) microphones: Vec<MicrophoneWords>,
    pub(crate) speakers: Vec<SpeakerWords>,
}

impl SoundArguments {
    /// With the channels of an end that sends in this direction.
    pub(crate) fn declare(&self, channels: Channels, sends: Direction) -> Result<Channels, String> {
        let microphones = self.microphone.iter().map(|spec| (&spec.name, sends));
        let speakers = self.speaker.iter().map(|spec| (&spec.name, other(sends)));
        microphones.chain(speakers).try_fold(channels, |channels, (name, direction)| {
            let declared = json!({
                "name": name, "kind": "audio", "schema": SCHEMA, "largest": format!("{MOST_BYTES}B"), "repair": "copy",
                "direction": if direction == Direction::ToRobot { "to_robot" } else { "to_operator" },
                "playout": { "adaptive": { "min": HELD_AT_LEAST, "max": HELD_AT_MOST } },
            });
            let spec: ChannelSpec = serde_json::from_value(declared).map_err(|error| error.to_string())?;
            channels.with(spec).map_err(|wrong| format!("sound {name:?}: {wrong}"))
        })
    }

    /// Is there any?
    pub(crate) const fn is_on(&self) -> bool {
        !self.microphone.is_empty() || !self.speaker.is_empty()
    }

    /// Is any played by a page?
    #[cfg(feature = "console")]
    pub(crate) fn has_page(&self) -> bool {
        self.speaker.iter().any(|spec| spec.place == Sink::Page)
    }

    /// All of it, at an end that sends in this direction, and may have a page.
    ///
    /// # Errors
    /// One line: a file or a program that is not there, or no libopus.
    pub(crate) fn open(
        &self,
        channels: &Channels,
        sends: Direction,
        json: bool,
        page: Option<&Page>,
    ) -> Result<Sound, String> {
        let place = |name: &str, direction| channels.place_of(name, direction);
        let mut sound = Sound::default();
        for Spec { name, place: source } in &self.microphone {
            let (microphone, words) = Microphone::new(name, place(name, sends)?, source)
                .map_err(|error| format!("--microphone {name}: {error}"))?;
            sound.microphones.push(microphone);
            sound.words.microphones.push(words);
        }
        for Spec { name, place: sink } in &self.speaker {
            let (speaker, words) =
                Speaker::new(name, place(name, other(sends))?, (sink, page), self.measure_sound, json)
                    .map_err(|error| format!("--speaker {name}: {error}"))?;
            sound.speakers.push(speaker);
            sound.words.speakers.push(words);
        }
        Ok(sound)
    }
}

impl SoundWords {
    /// Something happened to a channel, at that time.
    pub(crate) fn channel(&self, at: Time, event: &ChannelEvent) {
        self.microphones.iter().for_each(|microphone| microphone.channel(event));
        self.speakers.iter().for_each(|speaker| speaker.channel(at, event));
    }

    /// There is no session any more.
    pub(crate) fn closed(&self) {
        self.microphones.iter().for_each(MicrophoneWords::closed);
    }
}

const fn other(way: Direction) -> Direction {
    match way {
        Direction::ToRobot => Direction::ToOperator,
        Direction::ToOperator => Direction::ToRobot,
    }
}

/// A channel's place, and what it is called.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    channel: ChannelId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_has_a_name_and_a_place() {
        let source = |text: &str| text.parse().map(|spec: Spec<Source>| spec.place);
        assert_eq!(source("cell=click"), Ok(Source::Clicks));
        assert_eq!(source("cell=tone"), Ok(Source::Tone(440)));
        assert_eq!(source("cell=tone:1000"), Ok(Source::Tone(1000)));
        assert_eq!(source("cell=wav:a:b.wav"), Ok(Source::Wav("a:b.wav".into())));
        assert!(matches!(source("cell=exec:arecord -q"), Ok(Source::Program(_))));
        let sink = |text: &str| text.parse().map(|spec: Spec<Sink>| spec.place);
        assert_eq!(sink("cell=null"), Ok(Sink::Null));
        assert_eq!(sink("cell=wav:heard.wav"), Ok(Sink::Wav("heard.wav".into())));
        for wrong in ["cell", "=click", "cell=", "cell=wav:", "cell=tone:19", "cell=exec:", "cell=null"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
        assert!(sink("cell=click").is_err());
    }
}
