//! From the scenario's words to cross traffic.

use taut_core::{Address, Duration, FlowId, Node, Protocol, Rng, Seed, Time};
use taut_media::VideoTable;
use taut_sim::traffic::{Cbr, Pattern, Poisson, Replay, Sink, Source, Video, Voice};
use taut_sim::{Endpoint, Network, Peer, VertexId};
use taut_trace::Data;
use taut_transport::tcp::TcpConfig;

use super::flows::{Counted, Counters, FlowInfo};
use super::inputs::{Inputs, RunError};
use super::rtp_adapting::{AdaptingSource, ReportingReceiver};
use super::rtp_replay::{Recorded, RtpReplay, video_of};
use super::video::{Haptics, RtpSource};
use super::{signals, transports};
use crate::metrics::VideoWatch;
use crate::scenario::{
    Cross, HapticSource, HapticTraffic, ReplayTraffic, RtpSender, RtpTraffic, Scenario, TcpSpec, Traffic,
    VideoTraffic,
};
use taut_report::result::{FlowOwner, FlowPart};

/// One of the flows that an entry of cross traffic makes.
pub(super) struct One<'a> {
    /// The entry's name.
    pub(super) entry: &'a str,
    pub(super) cross: &'a Cross,
    /// Which of its flows, from 0.
    index: u32,
    /// How results call it.
    pub(super) label: String,
    /// The sender's vertex and the receiver's.
    pub(super) between: [String; 2],
}

impl One<'_> {
    pub(super) fn owner(&self, part: FlowPart) -> FlowOwner {
        FlowOwner::Cross { entry: self.entry.to_owned(), index: self.index, part }
    }

    fn vertices(&self, network: &Network) -> [VertexId; 2] {
        let of = |name| network.find(name).expect("a valid scenario names vertices that exist");
        self.between.each_ref().map(|name| of(name))
    }
}

/// Every flow of cross traffic, in the order of results.
pub(super) fn each(scenario: &Scenario) -> impl Iterator<Item = One<'_>> {
    scenario.cross.iter().flat_map(move |(name, cross)| {
        let many = cross.count > 1 || cross.from.ends_with("/*") || cross.to.ends_with("/*");
        (0..).zip(pairs(cross, scenario)).map(move |(index, (from, to))| {
            let label = if many { format!("{name}/{}", index + 1) } else { name.clone() };
            One { entry: name, cross, index, label, between: [from, to] }
        })
    })
}

/// Adds all cross traffic; flows are numbered on from `flows`.
pub(super) fn add(
    network: &mut Network,
    scenario: &Scenario,
    seed: Seed,
    inputs: &mut Inputs,
    flows: &mut Vec<FlowInfo>,
) -> Result<(), RunError> {
    each(scenario).try_for_each(|one| add_one(network, &one, (scenario.duration, seed), inputs, flows))
}

/// Sender and receiver of each flow.
pub(super) fn pairs(cross: &Cross, scenario: &Scenario) -> Vec<(String, String)> {
    let hosts = |end: &str| match end.strip_suffix("/*") {
        Some(lan) => (1..=scenario.lans[lan].hosts).map(|host| format!("{lan}/{host}")).collect(),
        None => vec![end.to_owned()],
    };
    let (from, to) = (hosts(&cross.from), hosts(&cross.to));
    let many = from.len().max(to.len());
    let pair = |i: usize| (from[i % from.len()].clone(), to[i % to.len()].clone());
    (0..many).flat_map(|i| (0..cross.count).map(move |_| i)).map(pair).collect()
}

/// Both ends of a flow that is no transport.
pub(super) struct Ends {
    pub(super) kind: &'static str,
    pub(super) sender: Box<dyn Node + Send>,
    pub(super) receiver: Box<dyn Node + Send>,
    /// Does the receiver report?
    pub(super) reports: bool,
}

/// When a flow begins: where nothing says so, flows do not all begin together, for they would meet in step for the whole run.
pub(super) fn start(one: &One<'_>, seed: Seed) -> Time {
    let within = |interval: Duration| {
        Duration::from_nanos(seed.stream(&format!("cross/{}", one.label)).below(interval.as_nanos()))
    };
    let frame = |fps| Duration::from_nanos(1_000_000_000 / u64::from(fps));
    Time::ZERO
        + one.cross.start.unwrap_or_else(|| match &one.cross.traffic {
            Traffic::Tcp(_) => within(TCP_START),
            Traffic::Cbr(f) => within(f.packet / f.rate),
            Traffic::Voice => within(Duration::from_millis(20)),
            Traffic::Video(v) => within(frame(v.fps)),
            Traffic::Rtp(rtp) if rtp.file.is_none() => within(frame(rtp.fps)),
            Traffic::Haptic(h) => within(h.period),
            Traffic::Poisson(_) | Traffic::Rtp(_) | Traffic::Replay(_) => Duration::ZERO,
        })
}

/// The ends of all but TCP; packets go to `to` as the flow `data`, and back to the next address as the next flow.
pub(super) fn ends(
    one: &One<'_>,
    (to, data): (Address, FlowId),
    (duration, seed): (Duration, Seed),
    inputs: &mut Inputs,
) -> Result<Ends, RunError> {
    let One { label, cross, .. } = one;
    let (start, stop) = (start(one, seed), cross.stop.map_or(Time::MAX, |stop| Time::ZERO + stop));
    let stream = |name: &str| seed.stream(&format!("cross/{label}/{name}"));
    let (pattern, kind): (Box<dyn Pattern + Send>, _) = match &cross.traffic {
        Traffic::Tcp(_) => unreachable!("TCP is a transport"),
        Traffic::Rtp(rtp) => return rtp_ends(one, rtp, (to, data), (start, stop), (seed, inputs)),
        Traffic::Cbr(f) => (Box::new(Cbr::new(f.rate, f.packet)), "cbr"),
        Traffic::Poisson(f) => (Box::new(Poisson::new(f.rate, f.packet, stream("arrivals"))), "poisson"),
        Traffic::Voice => (Box::new(Voice::g711(stream("speech"))), "voice"),
        Traffic::Video(v) => {
            let interval = Duration::from_nanos(1_000_000_000 / u64::from(v.fps));
            (Box::new(video(v, interval, stream("first frame"))), "video")
        }
        Traffic::Haptic(h) => (Box::new(haptics(h, one, (duration, seed), inputs)?), "haptic"),
        Traffic::Replay(r) => (Box::new(replay(r, one.entry, inputs)?), "replay"),
    };
    let sender = Box::new(Source::new(to, data, pattern).between(start, stop).dscp(cross.dscp));
    Ok(Ends { kind, sender, receiver: Box::new(Sink::default()), reports: false })
}

fn add_one(
    network: &mut Network,
    one: &One<'_>,
    (duration, seed): (Duration, Seed),
    inputs: &mut Inputs,
    flows: &mut Vec<FlowInfo>,
) -> Result<(), RunError> {
    if let Traffic::Tcp(tcp) = &one.cross.traffic {
        add_tcp(network, one, tcp, seed, flows);
        return Ok(());
    }
    let to = (network.next_address(), FlowId(flows.len() as u32));
    let Ends { kind, sender, receiver, reports } = ends(one, to, (duration, seed), inputs)?;
    let label = &one.label;
    let [from, to] = one.vertices(network);
    let sink = network.node(format!("{label} receiver"), to, receiver);
    let source = network.node(format!("{label} sender"), from, sender);
    network.flow(source, sink);
    let mut flow = |name, part, kind, sender| {
        flows.push(FlowInfo { name, owner: one.owner(part), kind, sender, counters: Counters::default() });
    };
    flow(label.clone(), FlowPart::Data, kind, source);
    if reports {
        network.flow(sink, source);
        flow(format!("{label} reports"), FlowPart::Acks, "rtcp", sink);
    }
    Ok(())
}

/// The videos whose frames are counted.
pub(super) fn videos(scenario: &Scenario, flows: &[FlowInfo]) -> Vec<VideoWatch> {
    let of = |flow: &FlowInfo| match &flow.owner {
        FlowOwner::Cross { entry, part: FlowPart::Data, .. } => Some(entry.clone()),
        _ => None,
    };
    let haptic = |entry: &String| {
        let at = flows.iter().position(|flow| of(flow).as_ref() == Some(entry))?;
        Some((flows[at].name.clone(), FlowId(at as u32)))
    };
    let video = |(flow, info): (u32, &FlowInfo)| match &scenario.cross.get(&of(info)?)?.traffic {
        Traffic::Rtp(rtp) => Some(VideoWatch {
            name: info.name.clone(),
            flow: FlowId(flow),
            codec: rtp.codec,
            haptic: rtp.with.as_ref().and_then(haptic),
            within: rtp.within,
        }),
        _ => None,
    };
    (0..).zip(flows).filter_map(video).collect()
}

fn rtp_ends(
    one: &One<'_>,
    spec: &RtpTraffic,
    (to, data): (Address, FlowId),
    (start, stop): (Time, Time),
    (seed, inputs): (Seed, &mut Inputs),
) -> Result<Ends, RunError> {
    let recorded = spec.file.as_ref().map(|file| recorded_video(file, spec.port, one.entry, inputs));
    let recorded = recorded.transpose()?;
    let peer = Peer {
        address: to,
        source_port: EPHEMERAL,
        destination_port: spec.port,
        flow: data,
        protocol: Protocol::Udp,
        dscp: one.cross.dscp,
    };
    let back = Peer {
        address: Address(to.0 + 1),
        source_port: spec.port,
        destination_port: EPHEMERAL,
        flow: FlowId(data.0 + 1),
        ..peer
    };
    let reports = spec.sender == RtpSender::Gcc;
    let mut rng = seed.stream(&format!("cross/{}/rtp", one.label));
    let sender: Box<dyn Node + Send> = match recorded {
        Some(packets) => Box::new(RtpReplay::new(packets, peer, start, stop)),
        None if reports => Box::new(AdaptingSource::new(spec, peer, start, stop, &mut rng)),
        None => Box::new(RtpSource::new(spec, peer, start, stop, &mut rng)),
    };
    let receiver: Box<dyn Node + Send> =
        if reports { Box::new(ReportingReceiver::new(back)) } else { Box::new(Sink::default()) };
    Ok(Ends { kind: "rtp", sender, receiver, reports })
}

/// The packets of a file's video.
fn recorded_video(
    file: &str,
    port: u16,
    entry: &str,
    inputs: &mut Inputs,
) -> Result<Vec<Recorded>, RunError> {
    let error = |what: String| RunError::key(format!("cross.{entry}.traffic.rtp.file"), what);
    let bytes = inputs.read(file).map_err(|e| error(e.to_string()))?;
    let datagrams = taut_trace::datagrams(file, &bytes).map_err(|e| error(e.to_string()))?;
    let packets = video_of(datagrams, port);
    if packets.is_empty() {
        return Err(error(format!("{file}: has no RTP packets to UDP port {port}")));
    }
    Ok(packets)
}

/// A bulk transfer starts somewhere in the first 100 ms.
const TCP_START: Duration = Duration::from_millis(100);

fn add_tcp(network: &mut Network, one: &One<'_>, spec: &TcpSpec, seed: Seed, flows: &mut Vec<FlowInfo>) {
    let (label, start) = (&one.label, start(one, seed));
    let data = FlowId(flows.len() as u32);
    let acks = FlowId(data.0 + 1);
    let port = 5001u16.wrapping_add(data.0 as u16);
    let receiver = network.next_address();
    let sender = Address(receiver.0 + 1);
    let peer = |address, flow, source_port, destination_port| Peer {
        address,
        source_port,
        destination_port,
        flow,
        protocol: Protocol::Tcp,
        dscp: one.cross.dscp,
    };
    let config =
        TcpConfig { local_port: port, remote_port: EPHEMERAL, trace: true, ..transports::tcp_config(spec) };
    let (server, client) = transports::bulk_pair(&config, seed, label);
    let [sent, acked]: [Counters; 2] = Default::default();
    let (server, client) = (Counted::new(server, acked.clone()), Counted::new(client, sent.clone()));
    let server = Endpoint::new(server, peer(sender, acks, port, EPHEMERAL));
    let client = Endpoint::new(client, peer(receiver, data, EPHEMERAL, port));
    let [from, to] = one.vertices(network);
    let receiver = network.node(format!("{label} receiver"), to, Box::new(server));
    let sender = network.node(format!("{label} sender"), from, Box::new(client.starting_at(start)));
    flows.push(FlowInfo {
        name: label.clone(),
        owner: one.owner(FlowPart::Data),
        kind: "tcp",
        sender,
        counters: sent,
    });
    flows.push(FlowInfo {
        name: format!("{label} acks"),
        owner: one.owner(FlowPart::Acks),
        kind: "tcp acks",
        sender: receiver,
        counters: acked,
    });
    network.flow(sender, receiver);
    network.flow(receiver, sender);
}

/// The first dynamic port (RFC 6335).
const EPHEMERAL: u16 = 49_152;

/// Cameras that began together would send their key frames at once, for the whole run.
fn video(spec: &VideoTraffic, interval: Duration, mut rng: Rng) -> Video {
    let mut frames: Vec<_> = VideoTable::vp8_25fps_400k().frames().iter().map(|frame| frame.size).collect();
    let first = rng.below(frames.len() as u64) as usize;
    frames.rotate_left(first);
    Video::new(frames, interval, spec.packet)
}

fn haptics(
    spec: &HapticTraffic,
    one: &One<'_>,
    (duration, seed): (Duration, Seed),
    inputs: &mut Inputs,
) -> Result<Haptics, RunError> {
    /// 2⁶⁴ by the golden ratio: multiples of it are far apart, and no seed that anyone gives beside another is one away.
    const APART: u64 = 0x9e37_79b9_7f4a_7c15;
    let key = format!("cross.{}.traffic.haptic", one.entry);
    // Each of an entry's flows has a signal of its own, and of a recording a place to begin at.
    let apart = u64::from(one.index).wrapping_mul(APART);
    let seed = Seed::new(seed.get().wrapping_add(apart));
    let signal = signals::load((&spec.source, spec.period), &key, duration, seed, inputs)?;
    let recorded = matches!(spec.source, HapticSource::Recording(_));
    let first = if recorded { signal.row_at(apart) } else { 0 };
    Ok(Haptics::new(spec, signal, first))
}

fn replay(spec: &ReplayTraffic, entry: &str, inputs: &mut Inputs) -> Result<Replay, RunError> {
    let error = |what: String| RunError::key(format!("cross.{entry}.traffic.replay.file"), what);
    let bytes = inputs.read(&spec.file).map_err(|e| error(e.to_string()))?;
    let recording = taut_trace::read_bytes(&spec.file, &bytes).map_err(|e| error(e.to_string()))?;
    let kind = recording.data().kind();
    let Data::Packets(packets) = recording.into_data() else {
        return Err(error(format!(
            "{}: holds {kind}; a pcap or pcapng file of packets is needed",
            spec.file
        )));
    };
    let rows: Vec<_> =
        packets.rows().iter().map(|row| (row.time.saturating_since(Time::ZERO), row.size)).collect();
    if !spec.repeat {
        return Ok(Replay::new(rows, None));
    }
    // Behind the last packet comes a gap as the others are in the mean.
    let last = rows.last().map(|(at, _)| *at).unwrap_or_default();
    let gaps = rows.len().saturating_sub(1).max(1) as u64;
    if last == Duration::ZERO {
        return Err(error(format!("{}: lasts no time; it cannot be repeated", spec.file)));
    }
    Ok(Replay::new(rows, Some(last + last / gaps)))
}
