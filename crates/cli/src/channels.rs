//! Argument `--channels FILE`: the channels of a session, in one file for both ends.

mod limits;
mod model;
mod packing;
mod picture;
mod urdf;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use serde_json::json;
use taut_core::{Bitrate, Bytes, Time};
use taut_io::device::{Drops, LineChannel, LineChannels};
use taut_io::lines;
use taut_lab::scenario::ChannelSpec;
use taut_session::motion::{JointLimits, Limits, Schema};
use taut_session::{
    Channel, ChannelEvent, ChannelId, Codec, Direction, Encoding, OperatorConfig, Packing, RobotConfig,
};
use toml::{Spanned, Value};

use self::limits::{Limited, limits, needed};
#[cfg(feature = "console")]
pub(crate) use self::model::model;
use self::packing::{PackingSpec, SamplerTable, packing};
pub(crate) use self::picture::PictureChannels;
use crate::host::{json_line, shown};
use crate::streams::print;

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    channel_rate: Option<Bitrate>,
    packing: Option<Spanned<PackingSpec>>,
    packet: Option<Spanned<Bytes>>,
    #[serde(default)]
    channel: Vec<Spanned<ChannelSpec>>,
    #[serde(default)]
    sampler: BTreeMap<String, Spanned<SamplerTable>>,
    #[serde(default)]
    limits: BTreeMap<String, Spanned<Value>>,
}

/// The channels of an end. None, where no file is named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Channels {
    file: PathBuf,
    rate: Option<Bitrate>,
    packing: Packing,
    list: Vec<Declared>,
    /// For errors: a channel's limits, and their line.
    limits: BTreeMap<String, (usize, Value)>,
    /// The device's joints, in its order, where they are known.
    joints: Option<Vec<String>>,
    /// Of joints without others.
    urdf: Option<Limited>,
}

#[derive(Clone, Debug)]
struct Declared {
    line: usize,
    spec: ChannelSpec,
    channel: Channel,
    motion: Option<Schema>,
    /// An argument sends over it, or shows what comes.
    is_named: bool,
}

/// The largest file that is read.
const LONGEST: u64 = 1 << 20;

impl FromStr for Channels {
    type Err = String;
    fn from_str(path: &str) -> Result<Self, String> {
        Self::parse(Path::new(path), &read(Path::new(path))?)
    }
}

fn read(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", path.display());
    let length = std::fs::metadata(path).map_err(cannot)?.len();
    if length > LONGEST {
        return Err(format!("{} is longer than 1 MiB", path.display()));
    }
    std::fs::read_to_string(path).map_err(cannot)
}

impl Channels {
    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let line_at = |at: usize| text[..at.min(text.len())].lines().count().max(1);
        let place = |line: usize, what: &str| format!("{}:{line}: {what}", path.display());
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(span.start + 1));
            place(line, error.message())
        })?;
        let File { channel_rate: rate, packing: scheme, packet, channel, sampler, limits } = file;
        let said = scheme.as_ref().map(Spanned::span).or(packet.as_ref().map(Spanned::span));
        let scheme = scheme.map_or(PackingSpec::Separate, Spanned::into_inner);
        let packing = packing(scheme, packet.map(Spanned::into_inner))
            .map_err(|why| place(said.map_or(1, |at| line_at(at.start + 1)), &why))?;
        if channel.is_empty() {
            return Err(place(
                1,
                "no channel is declared; each begins with a line [[channel]], then name and kind",
            ));
        }
        let mut list = Vec::new();
        for entry in channel {
            let line = line_at(entry.span().start + 1);
            let mut spec = entry.into_inner();
            let wrong = |why: String| place(line, &format!("channel {:?}: {why}", spec.name));
            if let Some(name) = spec.definition.as_ref().and_then(|text| text.strip_prefix('@')) {
                let beside = path.parent().unwrap_or(Path::new("")).join(name);
                let text = read(&beside).map_err(|error| wrong(format!("definition: {error}")))?;
                spec.definition = Some(text);
            }
            let channel = spec.channel().map_err(wrong)?;
            let motion = spec.motion().map_err(wrong)?;
            list.push(Declared { line, channel, motion, spec, is_named: false });
        }
        for (name, table) in sampler {
            let line = line_at(table.span().start + 1);
            let wrong = |why: &str| place(line, &format!("sampler.{name:?}: {why}"));
            let sampling = table.into_inner().sampling().map_err(|why| wrong(&why))?;
            let known = list.iter_mut().find(|known: &&mut Declared| known.spec.name == name);
            let known = known.ok_or_else(|| wrong("there is no channel of that name"))?;
            known.channel = known.channel.clone().sampler(sampling);
        }
        let limits = limits.into_iter().map(|(name, value)| {
            let line = line_at(value.span().start + 1);
            (name, (line, value.into_inner()))
        });
        let (file, limits) = (path.to_owned(), limits.collect());
        let channels = Self { file, rate, packing, list, limits, joints: None, urdf: None };
        let unknown = channels.limits.iter().find(|(name, _)| {
            !channels.list.iter().any(|known| known.motion.is_some() && known.spec.name == **name)
        });
        if let Some((name, (line, _))) = unknown {
            return Err(channels
                .place(*line, &format!("limits.{name:?}: there is no channel of kind motion of that name")));
        }
        channels.for_operator(OperatorConfig::new())?;
        Ok(channels)
    }

    fn place(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.file.display())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Those of kind motion, by name.
    pub(crate) fn motion(&self) -> Vec<&str> {
        let moving = self.list.iter().filter(|known| known.motion.is_some());
        moving.map(|known| &*known.spec.name).collect()
    }

    /// The name of a channel by its place.
    fn name(&self, channel: ChannelId) -> &str {
        self.list.get(usize::from(channel.0)).map_or("?", |known| &known.spec.name)
    }

    /// With this one, which another argument declares, unless the file does: each argument has one of its own.
    pub(crate) fn with(mut self, spec: ChannelSpec) -> Result<Self, String> {
        let way = spec.way()?;
        let is_it = |known: &&mut Declared| known.spec.name == spec.name && known.channel.direction() == way;
        match self.list.iter_mut().find(is_it) {
            Some(known) if known.is_named => {
                return Err(format!("{:?} is there already: give each a name of its own", spec.name));
            }
            Some(known) if known.spec.schema == spec.schema => {
                known.is_named = true;
                return Ok(self);
            }
            Some(_) => {
                let (name, schema) = (&spec.name, spec.schema.unwrap_or_default());
                return Err(format!("--channels has {name:?} with a schema other than {schema}"));
            }
            None => {}
        }
        let channel = spec.channel()?;
        self.list.push(Declared { line: 0, spec, channel, motion: None, is_named: true });
        Ok(self)
    }

    /// Where a channel stands among them.
    pub(crate) fn place_of(&self, name: &str, way: Direction) -> Result<ChannelId, String> {
        let is_it = |known: &Declared| known.spec.name == name && known.channel.direction() == way;
        let place = self.list.iter().position(is_it).and_then(|at| u8::try_from(at).ok());
        place.map(ChannelId).ok_or_else(|| format!("there is no channel {name:?}"))
    }

    /// As the file has them.
    pub(crate) fn as_json(&self) -> serde_json::Value {
        let specs = self.list.iter().map(|known| ChannelSpec { definition: None, ..known.spec.clone() });
        json!(specs.collect::<Vec<_>>())
    }

    /// As they are declared, in their order.
    pub(crate) fn declared(&self) -> Vec<Channel> {
        self.list.iter().map(|known| known.channel.clone()).collect()
    }

    /// Prints that one of them is open, or why not.
    pub(crate) fn tell(&self, at: Time, event: &ChannelEvent, json: bool) {
        if json {
            return self.line(at, event).iter().for_each(|line| print(line));
        }
        if let ChannelEvent::Refused { channel, why } = event {
            let name = self.name(*channel);
            print(&format!("{:>9.3} s  channel {name:?} stays closed: {why}\n", at.as_secs_f64()));
        }
    }

    /// That, as a line of JSON.
    pub(crate) fn line(&self, at: Time, event: &ChannelEvent) -> Option<String> {
        let (ChannelEvent::Opened { channel } | ChannelEvent::Refused { channel, .. }) = event else {
            return None;
        };
        lines::of_channel(self.name(*channel), event).map(|line| shown(at, line))
    }

    /// The operator's session with them.
    pub(crate) fn for_operator(&self, session: OperatorConfig) -> Result<OperatorConfig, String> {
        let session = match self.rate {
            Some(rate) => session.channel_rate(rate),
            None => session,
        };
        self.list.iter().try_fold(session.packing(self.packing), |session, known| {
            let declared = session.channel(known.channel.clone());
            declared.map_err(|error| self.place(known.line, &error.to_string()))
        })
    }

    /// The robot's session with them: what moves it has limits.
    pub(crate) fn for_robot(&self, session: RobotConfig) -> Result<RobotConfig, String> {
        let session = match self.rate {
            Some(rate) => session.channel_rate(rate),
            None => session,
        };
        self.list.iter().try_fold(session.packing(self.packing), |session, known| {
            let channel = known.channel.clone();
            let declared = match known.motion {
                Some(schema) => session.motion(channel, self.limits_of(known, schema)?.limits),
                None => session.channel(channel),
            };
            declared.map_err(|error| self.place(known.line, &error.to_string()))
        })
    }

    /// A URDF's joints are those of the device, by their names.
    pub(crate) fn with_joints(self, names: &[&str]) -> Self {
        Self { joints: Some(names.iter().map(ToString::to_string).collect()), ..self }
    }

    /// Joints of which the file has no limits have those of this one.
    pub(crate) fn with_urdf(mut self, urdf: &Path) -> Result<Self, String> {
        let joints = self.list.iter().filter(|known| known.motion == Some(Schema::Joints));
        if joints.clone().all(|known| self.limits.contains_key(&known.spec.name)) {
            return Err(format!(
                "--limits {}: --channels declares no joints without limits of their own",
                urdf.display()
            ));
        }
        let limits = limits::from_urdf(urdf, self.joints.as_deref());
        self.urdf = Some(limits.map_err(|why| format!("--limits {why}"))?);
        Ok(self)
    }

    /// The channels whose limits a URDF has, and its joints in their order.
    pub(crate) fn urdf_joints(&self) -> Vec<(&str, Vec<String>)> {
        let joints = |known: &Declared| self.limits_of(known, known.motion?).ok().map(|of| of.joints);
        let all = self.list.iter().filter_map(|known| Some((&*known.spec.name, joints(known)?)));
        all.filter(|(_, joints)| !joints.is_empty()).collect()
    }

    fn limits_of(&self, known: &Declared, schema: Schema) -> Result<Limited, String> {
        let name = &known.spec.name;
        let Some((line, table)) = self.limits.get(name) else {
            if let (Schema::Joints, Some(limits)) = (schema, &self.urdf) {
                return Ok(limits.clone());
            }
            let what = format!(
                "channel {name:?} moves the robot, which does not take it without limits: add a table [limits.{name:?}] with {}",
                needed(schema)
            );
            return Err(self.place(known.line, &what));
        };
        let beside = self.file.parent().unwrap_or(Path::new(""));
        limits(schema, table.clone(), beside, self.joints.as_deref())
            .map_err(|why| self.place(*line, &format!("limits.{name:?}: {}", why.trim())))
    }

    /// As devices know them.
    pub(crate) fn lines(&self) -> LineChannels {
        let line = |known: &Declared| {
            let spec = &known.spec;
            // The operator's end needs no limits, and the robot's says what is wrong with them when it declares its channels.
            let limits = known.motion.and_then(|schema| self.limits_of(known, schema).ok());
            let joints = match limits {
                Some(Limited { limits: Limits::Joints(limits), .. }) => {
                    limits.joints().iter().map(JointLimits::bounds).collect()
                }
                _ => Vec::new(),
            };
            LineChannel {
                name: spec.name.clone(),
                direction: spec.way().expect("it was declared"),
                motion: known.motion,
                is_json: spec.bytes() == Encoding::Json,
                delivery: spec.fate(),
                deadline: spec.oldest(),
                priority: spec.urgency(),
                largest: spec.most().get() as usize,
                joints,
            }
        };
        self.list.iter().map(line).collect()
    }
}

/// How such a file is written.
pub(crate) const HELP: &str = "\
Channels (--channels FILE): a TOML file that both ends have the same. Each channel begins with [[channel]]:

  [[channel]]
  name = \"battery\"            # up to 64 bytes
  kind = \"telemetry\"          # motion, feedback, command, audio, video, telemetry, bulk
  direction = \"to_operator\"   # or to_robot; by default as the kind says
  schema = \"Battery\"          # what it is; by default the name
  encoding = \"json\"           # json, raw, cdr, protobuf; taut for motion
  definition = \"@bat.json\"    # the schema's text, or @ and the file that has it; by default none
  delivery = \"newest\"         # newest, deadline, reliable; by default as the kind says
  deadline = \"2s\"             # the age at which a message is worthless; \"0s\": none
  priority = 5                 # 0 goes first, 7 last
  rate = 2                     # messages per second at most
  largest = \"200B\"            # the longest message
  repair = \"auto\"             # auto, none, copy, parity, repeat: how losses are mended
  playout = { fixed = \"40ms\" } # or { adaptive = { min = \"5ms\", max = \"80ms\" } }; by default messages are given on as they come

Name and kind are needed, the rest has defaults. What moves the robot has kind motion, schema taut/State, taut/Joints, taut/Twist or
taut/Gripper, and at the robot limits, without which that does not start:

  [[channel]]
  name = \"arm/servo_jp\"
  kind = \"motion\"
  schema = \"taut/Joints\"

  [limits.\"arm/servo_jp\"]
  joints = 2
  position = [-2.9, 2.9]       # rad; or a pair for each joint
  velocity = 1.0               # rad/s; or a number for each joint
  effort = 20.0                # N·m

or urdf = \"arm.urdf\", with joints = [\"shoulder\", \"elbow\"] where those of the channel are not all that move in that file's order (an SO-101's have
their names); taut robot --limits arm.urdf does that for joints without such a table, and says which joint is which. Before the first channel, channel_rate = \"4Mbit\" is the most that all of them together send from each end, where that is to be less
than what the network carries beside states. packing = { fixed_fragment = { fragment = \"58B\" } } says which messages travel together, and a table
[sampler.\"name\"] which of a channel are worth sending.

Devices that use them: docs/devices.md. All keys and defaults: docs/channels.md.";

/// Does anybody need to know? What becomes of each message is summed up.
pub(crate) const fn is_told(event: &ChannelEvent) -> bool {
    matches!(event, ChannelEvent::Opened { .. } | ChannelEvent::Refused { .. })
}

/// The name of a channel, of no more than so many bytes, and what is behind it: NAME=PLACE, written in this `form`.
pub(crate) fn named<'a>(text: &'a str, longest: usize, form: &str) -> Result<(String, &'a str), String> {
    let (name, place) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`: {form}"))?;
    if !(1..=longest).contains(&name.len()) {
        return Err(format!("`{name}` is not a name of 1 to {longest} bytes: {form}"));
    }
    Ok((name.to_owned(), place))
}

/// Only native sessions have channels.
pub(crate) fn check_codec(codec: Codec, has_channels: bool) -> Result<(), String> {
    match codec {
        Codec::Omni71 if has_channels => {
            Err("--channels, --video, --microphone, --speaker: omni71 has none; leave out --codec".into())
        }
        _ => Ok(()),
    }
}

/// Says what was dropped between a device and its session, if anything was.
pub(crate) fn tell_drops(at: Time, drops: &Drops, json: bool) {
    if *drops == Drops::default() {
        return;
    }
    if json {
        let more = [("to_device", json!(drops.to_device)), ("from_device", json!(drops.from_device))];
        return print(&json_line("messages_dropped", at, more));
    }
    for (way, channels) in [("to", &drops.to_device), ("from", &drops.from_device)] {
        for (name, causes) in channels {
            let causes: Vec<String> =
                causes.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
            print(&format!(
                "messages of {name:?} dropped on the way {way} the device: {}\n",
                causes.join(", ")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::Duration;
    use taut_session::{Playout, Repair};

    const BOTH: &str = r#"
[[channel]]
name = "arm/servo_jp"
kind = "motion"
schema = "taut/Joints"

[[channel]]
name = "battery"
kind = "telemetry"
rate = 2

[limits."arm/servo_jp"]
joints = 2
position = [[-2.9, 2.9], [-1.0, 1.0]]
velocity = 1.0
effort = 20.0
"#;

    fn parse(text: &str) -> Result<Channels, String> {
        Channels::parse(Path::new("channels.toml"), text)
    }

    fn robot(text: &str) -> Result<RobotConfig, String> {
        parse(text).and_then(|channels| channels.for_robot(RobotConfig::new()))
    }

    #[test]
    fn one_file_is_both_ends_and_the_robot_has_limits_for_what_moves_it() {
        let channels = parse(BOTH).unwrap();
        assert_eq!((channels.motion(), channels.name(ChannelId(1))), (vec!["arm/servo_jp"], "battery"));
        assert!(robot(BOTH).is_ok());
        let lines = channels.lines();
        assert!(lines[1].is_json && lines[0].motion == Some(Schema::Joints));
        // The operator needs no limits; the robot does not start without.
        let without = &BOTH[..BOTH.find("[limits").unwrap()];
        assert!(parse(without).is_ok());
        let error = robot(without).unwrap_err();
        assert!(error.starts_with("channels.toml:2: channel \"arm/servo_jp\" moves the robot"), "{error}");
        assert!(
            error.contains("[limits.\"arm/servo_jp\"] with joints, position, velocity and effort"),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_what_to_do() {
        let with = |from: &str, to: &str| robot(&BOTH.replace(from, to)).unwrap_err();
        for (error, line, what) in [
            (with("kind = \"telemetry\"", "kind = \"telemetri\""), 9, "unknown variant `telemetri`"),
            (with("rate = 2", "rat = 2"), 10, "unknown field `rat`, expected one of"),
            (with("taut/Joints", "taut/Joint"), 2, "schema = one of taut/State, taut/Joints"),
            (
                with("name = \"battery\"", "name = \"arm/servo_jp\"\ndirection = \"to_robot\""),
                7,
                "declared twice",
            ),
            (with("kind = \"telemetry\"", "kind = \"bulk\""), 7, "say direction"),
            (with("rate = 2", "repair = \"magic\""), 10, "unknown variant `magic`"),
            (
                with("rate = 2", "playout = { adaptive = { min = \"2ms\", max = \"1ms\" } }"),
                7,
                "playout: is to 10s, min no more than max",
            ),
            (with("rate = 2", "rate = 0"), 7, "rate: is 0.001 to 100000"),
            (with("effort = 20.0", ""), 12, "missing field `effort`; needed are joints, position"),
            (with("effort = 20.0", "effort = inf"), 12, "inf is no limit"),
            (with("effort = 20.0", "effort = 1e39"), 12, "is no limit"),
            (with("velocity = 1.0", "velocity = [1.0]"), 12, "velocity is one value for all of the 2 joints"),
            (with("joints = 2", "joints = 0"), 12, "list of 0"),
            (with("[limits.\"arm/servo_jp\"]", "[limits.\"arm\"]"), 12, "there is no channel of kind motion"),
            (with("rate = 2", "definition = \"@nowhere.json\""), 7, "nowhere.json"),
        ] {
            assert!(error.starts_with(&format!("channels.toml:{line}: ")), "{error}");
            assert!(error.contains(what), "{error}");
        }
        assert!(parse("").unwrap_err().contains("[[channel]]"));
    }

    #[test]
    fn all_channels_together_go_at_the_files_rate() {
        let session = |text: &str| parse(text).unwrap().for_operator(OperatorConfig::new()).unwrap();
        let slow = session(&format!("channel_rate = \"4Mbit\"\n{BOTH}"));
        assert_eq!(slow, session(BOTH).channel_rate(Bitrate::from_bps(4_000_000)));
        assert!(
            parse(&format!("channel_rate = \"4\"\n{BOTH}")).unwrap_err().starts_with("channels.toml:1: ")
        );
    }

    #[test]
    fn what_travels_together_and_what_is_worth_sending_is_in_the_file() {
        let session = |text: &str| parse(text).unwrap().for_operator(OperatorConfig::new()).unwrap();
        let fixed = "packing = { fixed_fragment = { fragment = \"58B\" } }\npacket = \"137B\"\n";
        let scheme = taut_session::Scheme::FixedFragment { fragment: Bytes::new(58) };
        let packing = Packing::new(scheme).unwrap().datagram(Bytes::new(137));
        assert_eq!(session(&format!("{fixed}{BOTH}")), session(BOTH).packing(packing));
        for other in [
            "\"separate\"",
            "{ visual_haptic = { media_rate = \"464kbit\" } }",
            "{ network_aware = { fragment = \"58B\" } }",
        ] {
            assert!(parse(&format!("packing = {other}\n{BOTH}")).is_ok(), "{other}");
        }
        let few = "packing = { network_aware = { fragment = \"58B\", max_samples = 8 } }\n";
        let error = parse(&format!("{few}{BOTH}")).unwrap_err();
        assert!(error.starts_with("channels.toml:1: packing: k must be from 1 to 7"), "{error}");

        let sampled = parse(&format!("{BOTH}\n[sampler.\"arm/servo_jp\"]\nfloor = 0.01\n")).unwrap();
        assert_ne!(sampled.list[0].channel, parse(BOTH).unwrap().list[0].channel);
        for (table, what) in [
            ("\"arm/servo_jp\"]\nk = -1", "k: is 0 to 1"),
            ("arm]\nk = 0.1", "there is no channel of that name"),
        ] {
            let error = parse(&format!("{BOTH}\n[sampler.{table}\n")).unwrap_err();
            assert!(error.starts_with("channels.toml:18: sampler.\"arm") && error.contains(what), "{error}");
        }
    }

    #[test]
    fn losses_are_mended_and_messages_given_on_as_the_file_says() {
        let text = BOTH.replace("rate = 2", "rate = 2\nrepair = \"parity\"\nplayout = { fixed = \"40ms\" }");
        let spec = &parse(&text).unwrap().list[1].spec;
        assert_eq!(
            (spec.mended(), spec.played()),
            (Repair::Parity, Playout::Fixed(Duration::from_millis(40)))
        );
        let spec = &parse(BOTH).unwrap().list[1].spec;
        assert_eq!((spec.mended(), spec.played()), (Repair::Auto, Playout::AtOnce));
    }

    #[test]
    fn every_schema_has_its_limits() {
        for (schema, table) in [
            ("taut/State", "position = [[0, 0, 0], [1, 1, 1]]\nvelocity = 0.5\nforce = 20"),
            ("taut/Twist", "linear_velocity = 0.5\nangular_velocity = 1"),
            ("taut/Gripper", "speed = 2\neffort = 30\nrefuse = true"),
            ("taut/Joints", "joints = 7\nposition = [-2, 2]\nvelocity = 1\neffort = 10\nstep = 0.1"),
        ] {
            let text = format!(
                "[[channel]]\nname = \"m\"\nkind = \"motion\"\nschema = \"{schema}\"\n[limits.m]\n{table}\n"
            );
            assert!(robot(&text).is_ok(), "{schema}: {:?}", robot(&text).err());
        }
    }
}
