//! From the scenario's words to cross traffic.

use taut_core::{Bytes, Duration, FlowId, Node, Protocol, Seed, Time};
use taut_sim::traffic::{Cbr, Pattern, Poisson, Replay, Sink, Source, Video, Voice};
use taut_sim::{Endpoint, Network, Peer, VertexId};
use taut_trace::Data;
use taut_transport::tcp::TcpConfig;

use super::flows::{Counted, Counters, FlowInfo};
use super::inputs::{Inputs, RunError};
use super::rtp_adapting::{AdaptingSource, ReportingReceiver};
use super::rtp_replay::{Recorded, RtpReplay, video_of};
use super::video::{Haptics, RtpSource, codec};
use super::{signals, transports};
use crate::metrics::VideoWatch;
use crate::scenario::{
    Cross, HapticTraffic, ReplayTraffic, RtpSender, RtpTraffic, Scenario, TcpSpec, Traffic, VideoTraffic,
};
use taut_report::result::{FlowOwner, FlowPart};

/// One of the flows that an entry of cross traffic makes.
struct One<'a> {
    /// The entry's name.
    entry: &'a str,
    cross: &'a Cross,
    /// Which of its flows, from 0.
    index: u32,
    /// How results call it.
    label: String,
    from: VertexId,
    to: VertexId,
}

impl One<'_> {
    fn owner(&self, part: FlowPart) -> FlowOwner {
        FlowOwner::Cross { entry: self.entry.to_owned(), index: self.index, part }
    }
}

/// Adds all cross traffic; flows are numbered on from `flows`.
pub(super) fn add(
    network: &mut Network,
    scenario: &Scenario,
    seed: Seed,
    inputs: &mut Inputs,
    flows: &mut Vec<FlowInfo>,
) -> Result<(), RunError> {
    for (name, cross) in &scenario.cross {
        for (index, (from, to)) in (0..).zip(pairs(cross, scenario)) {
            let label = if cross.count == 1 && !cross.from.ends_with("/*") && !cross.to.ends_with("/*") {
                name.clone()
            } else {
                format!("{name}/{}", index + 1)
            };
            let (from, to) = (vertex(network, &from), vertex(network, &to));
            let one = One { entry: name, cross, index, label, from, to };
            add_one(network, &one, (scenario.duration, seed), inputs, flows)?;
        }
    }
    Ok(())
}

fn vertex(network: &Network, name: &str) -> VertexId {
    network.find(name).expect("a valid scenario names vertices that exist")
}

/// Sender and receiver of each flow.
fn pairs(cross: &Cross, scenario: &Scenario) -> Vec<(String, String)> {
    let hosts = |end: &str| match end.strip_suffix("/*") {
        Some(lan) => (1..=scenario.lans[lan].hosts).map(|host| format!("{lan}/{host}")).collect(),
        None => vec![end.to_owned()],
    };
    let (from, to) = (hosts(&cross.from), hosts(&cross.to));
    let many = from.len().max(to.len());
    let pair = |i: usize| (from[i % from.len()].clone(), to[i % to.len()].clone());
    (0..many).flat_map(|i| (0..cross.count).map(move |_| i)).map(pair).collect()
}

fn add_one(
    network: &mut Network,
    one: &One<'_>,
    (duration, seed): (Duration, Seed),
    inputs: &mut Inputs,
    flows: &mut Vec<FlowInfo>,
) -> Result<(), RunError> {
    let One { label, cross, .. } = one;
    let flow = FlowId(flows.len() as u32);
    let mut rng = seed.stream(&format!("cross/{label}"));
    let stop = cross.stop.map_or(Time::MAX, |stop| Time::ZERO + stop);
    // Where nothing says when, flows do not all begin together: they would meet in step for the whole run.
    let mut start = |interval: Duration| {
        Time::ZERO + cross.start.unwrap_or_else(|| Duration::from_nanos(rng.below(interval.as_nanos())))
    };
    let (pattern, kind, start): (Box<dyn Pattern>, _, _) = match &cross.traffic {
        Traffic::Tcp(tcp) => {
            let start = start(TCP_START);
            add_tcp(network, one, tcp, start, seed, flows);
            return Ok(());
        }
        Traffic::Cbr(f) => (Box::new(Cbr::new(f.rate, f.packet)), "cbr", start(f.packet / f.rate)),
        Traffic::Poisson(f) => {
            let rng = seed.stream(&format!("cross/{label}/arrivals"));
            (
                Box::new(Poisson::new(f.rate, f.packet, rng)),
                "poisson",
                Time::ZERO + cross.start.unwrap_or_default(),
            )
        }
        Traffic::Voice => {
            let rng = seed.stream(&format!("cross/{label}/speech"));
            (Box::new(Voice::g711(rng)), "voice", start(Duration::from_millis(20)))
        }
        Traffic::Video(v) => {
            let interval = Duration::from_nanos(1_000_000_000 / u64::from(v.fps));
            (Box::new(video(v, interval)), "video", start(interval))
        }
        Traffic::Rtp(rtp) => {
            let start = match rtp.file {
                Some(_) => Time::ZERO + cross.start.unwrap_or_default(),
                None => start(Duration::from_nanos(1_000_000_000 / u64::from(rtp.fps))),
            };
            return add_rtp(network, one, rtp, (start, stop), (seed, inputs), flows);
        }
        Traffic::Haptic(h) => {
            (Box::new(haptics(h, one, (duration, seed), inputs)?), "haptic", start(h.period))
        }
        Traffic::Replay(r) => {
            (Box::new(replay(r, one.entry, inputs)?), "replay", Time::ZERO + cross.start.unwrap_or_default())
        }
    };
    let sink = network.node(format!("{label} receiver"), one.to, Box::new(Sink::default()));
    let source = Source::new(sink, flow, pattern).between(start, stop).dscp(cross.dscp);
    let source = network.node(format!("{label} sender"), one.from, Box::new(source));
    network.flow(source, sink);
    flows.push(FlowInfo {
        name: label.clone(),
        owner: one.owner(FlowPart::Data),
        kind,
        sender: source,
        counters: Counters::default(),
    });
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
            codec: codec(rtp.codec),
            haptic: rtp.with.as_ref().and_then(haptic),
            within: rtp.within,
        }),
        _ => None,
    };
    (0..).zip(flows).filter_map(video).collect()
}

fn add_rtp(
    network: &mut Network,
    one: &One<'_>,
    spec: &RtpTraffic,
    (start, stop): (Time, Time),
    (seed, inputs): (Seed, &mut Inputs),
    flows: &mut Vec<FlowInfo>,
) -> Result<(), RunError> {
    let label = &one.label;
    let recorded = spec.file.as_ref().map(|file| recorded_video(file, spec.port, one.entry, inputs));
    let recorded = recorded.transpose()?;
    let receiver = network.next_address();
    let peer = Peer {
        address: receiver,
        source_port: EPHEMERAL,
        destination_port: spec.port,
        flow: FlowId(flows.len() as u32),
        protocol: Protocol::Udp,
        dscp: one.cross.dscp,
    };
    let back = Peer {
        address: taut_core::Address(receiver.0 + 1),
        source_port: spec.port,
        destination_port: EPHEMERAL,
        flow: FlowId(peer.flow.0 + 1),
        ..peer
    };
    let adapts = spec.sender == RtpSender::Gcc;
    let mut rng = seed.stream(&format!("cross/{label}/rtp"));
    let source: Box<dyn Node> = match recorded {
        Some(packets) => Box::new(RtpReplay::new(packets, peer, start, stop)),
        None if adapts => Box::new(AdaptingSource::new(spec, peer, start, stop, &mut rng)),
        None => Box::new(RtpSource::new(spec, peer, start, stop, &mut rng)),
    };
    let sink: Box<dyn Node> =
        if adapts { Box::new(ReportingReceiver::new(back)) } else { Box::new(Sink::default()) };
    let sink = network.node(format!("{label} receiver"), one.to, sink);
    let source = network.node(format!("{label} sender"), one.from, source);
    network.flow(source, sink);
    let mut flow = |name, part, kind, sender| {
        flows.push(FlowInfo { name, owner: one.owner(part), kind, sender, counters: Counters::default() });
    };
    flow(label.clone(), FlowPart::Data, "rtp", source);
    if adapts {
        network.flow(sink, source);
        flow(format!("{label} reports"), FlowPart::Acks, "rtcp", sink);
    }
    Ok(())
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

fn add_tcp(
    network: &mut Network,
    one: &One<'_>,
    spec: &TcpSpec,
    start: Time,
    seed: Seed,
    flows: &mut Vec<FlowInfo>,
) {
    let label = &one.label;
    let data = FlowId(flows.len() as u32);
    let acks = FlowId(data.0 + 1);
    let port = 5001u16.wrapping_add(data.0 as u16);
    let receiver = network.next_address();
    let sender = taut_core::Address(receiver.0 + 1);
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
    let receiver = network.node(format!("{label} receiver"), one.to, Box::new(server));
    let sender = network.node(format!("{label} sender"), one.from, Box::new(client.starting_at(start)));
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

fn video(spec: &VideoTraffic, interval: Duration) -> Video {
    let frames = super::still::vp8_frames().into_iter().map(Bytes::new).collect();
    Video::new(frames, interval, spec.packet)
}

fn haptics(
    spec: &HapticTraffic,
    one: &One<'_>,
    (duration, seed): (Duration, Seed),
    inputs: &mut Inputs,
) -> Result<Haptics, RunError> {
    let key = format!("cross.{}.traffic.haptic", one.entry);
    Ok(Haptics::new(spec, signals::load((&spec.source, spec.period), &key, duration, seed, inputs)?))
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
    let repeat = spec.repeat.then(|| rows.last().map(|(at, _)| *at).unwrap_or_default());
    Ok(Replay::new(rows, repeat))
}
