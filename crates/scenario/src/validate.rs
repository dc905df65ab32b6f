//! What the types cannot say: ranges, and names that must exist.

mod commands;
mod haptic;
mod instant;
mod queues;

use std::collections::BTreeSet;

use taut_core::{Bitrate, Bytes, Duration};
use taut_transport::etp::MAX_GAP;
use taut_transport::mtip::MAX_PATHS;
use taut_wire::rtp::Codec;

use super::schema::*;
use super::{axes, reach, teleop};

/// A key (empty for the whole scenario) and what is wrong with it.
pub(super) struct Fault {
    pub(super) key: String,
    pub(super) message: String,
}

pub(super) type Checked = Result<(), Fault>;

pub(super) fn fault(key: impl Into<String>, message: impl Into<String>) -> Checked {
    Err(Fault { key: key.into(), message: message.into() })
}

pub(super) fn within<T: PartialOrd + std::fmt::Display>(key: String, value: T, low: T, high: T) -> Checked {
    if value >= low && value <= high {
        Ok(())
    } else {
        fault(key, format!("{value} is not within {low} to {high}"))
    }
}

/// The longest run: a day.
pub(super) const LONGEST: Duration = Duration::from_secs(86_400);

/// The most vertices, so that a table of routes between all of them stays small.
const MOST_VERTICES: u64 = 4096;

pub(super) fn check(scenario: &Scenario) -> Checked {
    check_text("title", &scenario.title)?;
    within("duration".into(), scenario.duration, Duration::from_nanos(1), LONGEST)?;
    within("drain".into(), scenario.drain, Duration::ZERO, LONGEST)?;
    if scenario.warmup >= scenario.duration {
        return fault(
            "warmup",
            format!("{} is not less than the duration {}", scenario.warmup, scenario.duration),
        );
    }
    for (name, lan) in &scenario.lans {
        let key = format!("lans.{name}");
        check_text(&key, name)?;
        within(format!("{key}.hosts"), lan.hosts, 1, 1000)?;
        chain(&format!("{key}.chain"), &lan.chain)?;
    }
    for (name, link) in &scenario.links {
        check_text(&format!("links.{name}"), name)?;
        ends(&format!("links.{name}"), link)?;
        chain(&format!("links.{name}.chain"), &link.chain)?;
    }
    // Counted before they are listed.
    let hosts: u64 = scenario.lans.values().map(|lan| u64::from(lan.hosts) + 1).sum();
    if hosts > MOST_VERTICES || scenario.vertices().len() as u64 > MOST_VERTICES {
        return fault("links", format!("links and LANs connect more than {MOST_VERTICES} vertices"));
    }
    let vertices = scenario.vertices();
    if scenario.session.is_some() && scenario.teleop.is_some() {
        return fault("teleop", "there is a `session` as well; a scenario has one of them");
    }
    axes::check(scenario)?;
    if let Some(teleop) = &scenario.teleop {
        teleop::check(teleop, &vertices)?;
        if teleop.led {
            within("duration".into(), scenario.duration, teleop::LED, LONGEST)?;
        }
    }
    if let Some(session) = &scenario.session {
        check_session(session, &vertices)?;
    }
    if let Some(flow) = &scenario.commands {
        commands::check(flow, scenario.duration, &vertices)?;
    }
    for (name, cross) in &scenario.cross {
        check_text(&format!("cross.{name}"), name)?;
        check_cross(&format!("cross.{name}"), cross, scenario, &vertices)?;
    }
    if let Some(model) = &scenario.model {
        check_model(model, scenario)?;
    }
    reach::check(scenario)?;
    instant::check(scenario)
}

/// Names and titles are printed: they have no line breaks and nothing that moves a cursor.
fn check_text(key: &str, text: &str) -> Checked {
    if text.chars().any(char::is_control) { fault(key, "has a control character in it") } else { Ok(()) }
}

impl Scenario {
    /// The names of all files that it reads.
    pub(super) fn files_mut(&mut self) -> Vec<&mut String> {
        let mut files = Vec::new();
        let lans = self.lans.values_mut().map(|lan| &mut lan.chain);
        for element in lans.chain(self.links.values_mut().map(|link| &mut link.chain)).flatten() {
            match element {
                ElementSpec::Server(server) => files.extend(&mut server.mahimahi),
                ElementSpec::DelayTable(table) | ElementSpec::LossTable(table) => files.push(&mut table.file),
                ElementSpec::JitterTable(table) => files.push(&mut table.file),
                ElementSpec::Recorded(recorded) => files.push(&mut recorded.file),
                _ => {}
            }
        }
        let session = self.session.iter_mut();
        let haptic = session
            .flat_map(|s| [&mut s.forward, &mut s.backward])
            .flatten()
            .filter_map(|s| s.haptic.as_mut());
        for haptic in haptic {
            if let HapticSource::Recording(recording) = &mut haptic.source {
                files.push(&mut recording.file);
            }
        }
        for cross in self.cross.values_mut() {
            match &mut cross.traffic {
                Traffic::Replay(replay) => files.push(&mut replay.file),
                Traffic::Rtp(rtp) => files.extend(&mut rtp.file),
                Traffic::Haptic(haptic) => {
                    if let HapticSource::Recording(recording) = &mut haptic.source {
                        files.push(&mut recording.file);
                    }
                }
                _ => {}
            }
        }
        files
    }

    /// Every vertex that links and LANs connect.
    pub fn vertices(&self) -> BTreeSet<String> {
        let lans = self.lans.iter().flat_map(|(name, lan)| {
            std::iter::once(name.clone()).chain((1..=lan.hosts).map(move |host| format!("{name}/{host}")))
        });
        let ends = self.links.values().flat_map(|link| {
            let pair = link.between.iter().flatten();
            pair.chain(&link.from).chain(&link.to).cloned()
        });
        lans.chain(ends).collect()
    }
}

fn ends(key: &str, link: &LinkSpec) -> Checked {
    match (&link.between, &link.from, &link.to) {
        (Some([a, b]), None, None) if a != b => Ok(()),
        (None, Some(a), Some(b)) if a != b => Ok(()),
        (Some(_), None, None) | (None, Some(_), Some(_)) => fault(key, "connects a vertex with itself"),
        _ => fault(key, "needs either `between = [\"a\", \"b\"]` or both `from` and `to`"),
    }
}

fn chain(key: &str, elements: &[ElementSpec]) -> Checked {
    for (i, element) in elements.iter().enumerate() {
        let key = format!("{key}.{i}");
        match element {
            ElementSpec::Server(server) => check_server(&format!("{key}.server"), server)?,
            ElementSpec::Delay(delay) => within(format!("{key}.delay"), *delay, Duration::ZERO, LONGEST)?,
            ElementSpec::Jitter(jitter) => {
                within(format!("{key}.jitter.correlation"), jitter.correlation, 0.0, 1.0)?;
                within(format!("{key}.jitter.spread"), jitter.spread, Duration::ZERO, LONGEST)?;
                within(format!("{key}.jitter.mean"), jitter.mean, Duration::ZERO, LONGEST)?;
            }
            ElementSpec::Cut(CutSpec { at, until: Some(until) }) if until <= at => {
                return fault(format!("{key}.cut.until"), format!("{until} is not after {at}"));
            }
            ElementSpec::DelayTable(table) => check_table(&format!("{key}.delay_table"), table)?,
            ElementSpec::LossTable(table) => check_table(&format!("{key}.loss_table"), table)?,
            ElementSpec::JitterTable(table) => {
                within(format!("{key}.jitter_table.every"), table.every, Duration::from_micros(1), LONGEST)?;
            }
            ElementSpec::Recorded(recorded) => {
                within(format!("{key}.recorded.every"), recorded.every, Duration::from_micros(1), LONGEST)?;
            }
            ElementSpec::Gate(gate) => {
                let server = |element: &ElementSpec| matches!(element, ElementSpec::Server(_));
                if !elements[i + 1..].iter().any(server) {
                    return fault(
                        format!("{key}.gate"),
                        "watches the next server of its chain; there is none",
                    );
                }
                check_gate(&format!("{key}.gate"), gate)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_gate(key: &str, gate: &GateConfig) -> Checked {
    let millisecond = Duration::from_millis(1);
    within(format!("{key}.update_interval"), gate.update_interval, millisecond, LONGEST)?;
    within(format!("{key}.reset_interval"), gate.reset_interval, millisecond, LONGEST)?;
    within(format!("{key}.bandwidth_over"), gate.bandwidth_over, gate.update_interval, LONGEST)?;
    within(format!("{key}.payload_type"), gate.payload_type.unwrap_or(0), 0, 127)?;
    if let Some(rtcp @ 64..=95) = gate.payload_type {
        return fault(format!("{key}.payload_type"), format!("{rtcp} is none of video: 0 to 63, 96 to 127"));
    }
    Ok(())
}

fn check_table(key: &str, table: &TableSpec) -> Checked {
    within(format!("{key}.every"), table.every, Duration::from_micros(1), LONGEST)
}

fn check_server(key: &str, server: &ServerSpec) -> Checked {
    let given = [server.rate.is_some(), server.mahimahi.is_some(), server.rate_table.is_some()];
    if given.iter().filter(|given| **given).count() != 1 {
        return fault(key, "needs exactly one of `rate`, `mahimahi` and `rate_table`");
    }
    if server.rate == Some(Bitrate::ZERO) {
        return fault(format!("{key}.rate"), "must be more than 0; use `cut` for a link that passes nothing");
    }
    if let Some(rows) = &server.rate_table {
        if rows.is_empty() {
            return fault(format!("{key}.rate_table"), "has no rows");
        }
        if rows.iter().all(|row| row.rate == Bitrate::ZERO) {
            let what = "is 0 in every row; use `cut` for a link that passes nothing";
            return fault(format!("{key}.rate_table"), what);
        }
        if let Some(i) = (1..rows.len()).find(|&i| rows[i].at <= rows[i - 1].at) {
            let (now, before) = (rows[i].at, rows[i - 1].at);
            return fault(
                format!("{key}.rate_table.{i}.at"),
                format!("{now} is not after {before} of the row before"),
            );
        }
    }
    queues::check(&format!("{key}.queue"), &server.queue)
}

pub(super) fn vertex(key: &str, name: &str, vertices: &BTreeSet<String>) -> Checked {
    if vertices.contains(name) {
        return Ok(());
    }
    let known: Vec<&str> = vertices.iter().take(12).map(String::as_str).collect();
    fault(key, format!("no link leads to `{name}`; there are {}", known.join(", ")))
}

/// Where two ends are one.
const BETWEEN: &str = "nothing would cross a link; name two vertices";

fn check_session(session: &Session, vertices: &BTreeSet<String>) -> Checked {
    vertex("session.operator", &session.operator, vertices)?;
    vertex("session.robot", &session.robot, vertices)?;
    if session.operator == session.robot {
        return fault("session.robot", format!("is `{}`, as the operator is: {BETWEEN}", session.robot));
    }
    if session.forward.is_none() && session.backward.is_none() {
        return fault("session", "needs `forward`, `backward` or both");
    }
    check_transport("session.transport", &session.transport, 1)?;
    for (name, stream) in [("forward", &session.forward), ("backward", &session.backward)] {
        if let Some(stream) = stream {
            check_stream(&format!("session.{name}"), stream)?;
        }
    }
    Ok(())
}

fn check_stream(key: &str, stream: &Stream) -> Checked {
    if stream.haptic.is_none() && stream.audio.is_none() && stream.video.is_none() {
        return fault(key, "needs at least one of `haptic`, `audio` and `video`");
    }
    within(format!("{key}.dscp"), stream.dscp, 0, 63)?;
    if let Some(packet) = stream.packet {
        within(format!("{key}.packet"), packet, Bytes::new(64), Bytes::new(1500))?;
    }
    if let Some(haptic) = &stream.haptic {
        let key = format!("{key}.haptic");
        within(format!("{key}.period"), haptic.period, Duration::from_micros(10), Duration::from_secs(60))?;
        within(format!("{key}.gap"), haptic.gap, Duration::ZERO, Duration::from_secs(60))?;
        within(format!("{key}.burst"), haptic.burst, 1, 100)?;
        within(format!("{key}.size"), haptic.size, Bytes::new(1), Bytes::new(1200))?;
        haptic::check(&key, &haptic.source, &haptic.sampler)?;
    }
    if let Some(audio) = &stream.audio {
        within(format!("{key}.audio.rate"), audio.rate, Bitrate::from_bps(1), Bitrate::from_bps(10_000_000))?;
        within(format!("{key}.audio.frame"), audio.frame, Duration::from_millis(1), Duration::from_secs(1))?;
    }
    if let Some(video) = &stream.video {
        within(format!("{key}.video.fps"), video.fps, 1, 240)?;
        if video.source == VideoSource::Constant && video.rate.is_none() {
            return fault(format!("{key}.video.rate"), "is needed where `source` is `constant`");
        }
        if let Some(rate) = video.rate {
            within(
                format!("{key}.video.rate"),
                rate,
                Bitrate::from_bps(1),
                Bitrate::from_bps(1_000_000_000),
            )?;
        }
    }
    let alone =
        |kind: &str| fault(format!("{key}.multiplexer"), format!("{kind} needs `haptic` samples to ride on"));
    match stream.multiplexer {
        MultiplexerSpec::Separate => {}
        MultiplexerSpec::FixedFragment(_) if stream.haptic.is_none() => return alone("fixed_fragment"),
        MultiplexerSpec::VisualHaptic if stream.haptic.is_none() => return alone("visual_haptic"),
        MultiplexerSpec::NetworkAware(_) if stream.haptic.is_none() => return alone("network_aware"),
        MultiplexerSpec::NetworkAware(aware) => {
            within(format!("{key}.multiplexer.network_aware.max_samples"), aware.max_samples, 1, 7)?;
        }
        MultiplexerSpec::FixedFragment(fixed) => {
            let key = format!("{key}.multiplexer.fixed_fragment.fragment");
            within(key, fixed.fragment, Bytes::new(1), Bytes::new(1200))?;
        }
        MultiplexerSpec::VisualHaptic => {}
    }
    stream
        .packing(Bytes::ZERO)
        .map(|_| ())
        .or_else(|error| fault(format!("{key}.multiplexer"), error.to_string()))
}

/// A session or commands have so many paths at most.
pub(super) const MOST_PATHS: u8 = MAX_PATHS as u8;

pub(super) fn check_transport(key: &str, transport: &TransportSpec, paths: u8) -> Checked {
    match transport {
        TransportSpec::Udp | TransportSpec::EveryPath => Ok(()),
        TransportSpec::Etp(etp) => {
            within(format!("{key}.etp.gap"), etp.gap.unwrap_or_default(), Duration::ZERO, MAX_GAP)?;
            match &etp.tcp {
                Some(_) if etp.gap.is_none() => {
                    fault(format!("{key}.etp.gap"), "is needed with `tcp`: only over UDP does the gap adapt")
                }
                Some(_) if etp.pack => {
                    fault(format!("{key}.etp.pack"), "has no effect with `tcp`, which packs by itself")
                }
                Some(tcp) => check_tcp(&format!("{key}.etp.tcp"), tcp),
                None => Ok(()),
            }
        }
        TransportSpec::Tcp(tcp) => check_tcp(&format!("{key}.tcp"), tcp),
        TransportSpec::Quic(quic) => {
            let key = format!("{key}.quic");
            within(format!("{key}.ack_every"), quic.ack_every, 1, 100)?;
            within(
                format!("{key}.ack_delay"),
                quic.ack_delay,
                Duration::from_millis(1),
                Duration::from_millis(25),
            )?;
            let (least, most) = (Bitrate::from_bps(64_000), Bitrate::from_bps(1_000_000_000_000));
            within(format!("{key}.floor"), quic.floor.unwrap_or(least), least, most)?;
            match (quic.floor, quic.congestion) {
                (Some(_), congestion) if congestion != QuicCongestion::Paced => {
                    fault(format!("{key}.floor"), "is for `congestion = \"paced\"` only")
                }
                _ => Ok(()),
            }
        }
        TransportSpec::Sctp(sctp) => {
            let key = format!("{key}.sctp");
            within(format!("{key}.retransmissions"), sctp.retransmissions, 0, 1000)?;
            let (least, most) = (Duration::from_millis(50), Duration::from_secs(4));
            within(format!("{key}.rto_min"), sctp.rto_min, least, most)?;
            let (least, most) = (Bytes::new(4_800), Bytes::new(10_000_000));
            within(format!("{key}.min_window"), sctp.min_window.unwrap_or(least), least, most)
        }
        TransportSpec::Dccp(dccp) => within(format!("{key}.dccp.ccid"), dccp.ccid, 2, 3),
        TransportSpec::Mtip(mtip) => commands::check_mtip(&format!("{key}.mtip"), mtip, paths),
        TransportSpec::Mptcp(mptcp) => check_tcp(&format!("{key}.mptcp.subflow"), &mptcp.subflow),
        TransportSpec::Mpquic(mpquic) => commands::check_mpquic(&format!("{key}.mpquic"), mpquic),
    }
}

fn check_tcp(key: &str, tcp: &TcpSpec) -> Checked {
    within(format!("{key}.segment"), tcp.segment, Bytes::new(100), Bytes::new(65_535))?;
    within(format!("{key}.ack_every"), tcp.ack_every, 1, 100)?;
    within(format!("{key}.initial_window"), tcp.initial_window, 1, 1000)?;
    within(format!("{key}.min_rto"), tcp.min_rto, Duration::from_millis(1), Duration::from_secs(60))
}

fn check_cross(key: &str, cross: &Cross, scenario: &Scenario, vertices: &BTreeSet<String>) -> Checked {
    within(format!("{key}.count"), cross.count, 1, 1000)?;
    within(format!("{key}.dscp"), cross.dscp, 0, 63)?;
    let hosts = |end: &str, name: &String| match name.strip_suffix("/*") {
        None => vertex(&format!("{key}.{end}"), name, vertices).map(|()| None),
        Some(lan) => match scenario.lans.get(lan) {
            Some(lan) => Ok(Some(lan.hosts)),
            None => fault(format!("{key}.{end}"), format!("there is no LAN `{lan}`")).map(|()| None),
        },
    };
    let (from, to) = (hosts("from", &cross.from)?, hosts("to", &cross.to)?);
    if let (Some(from), Some(to)) = (from, to)
        && from != to
    {
        return fault(
            format!("{key}.to"),
            format!("pairs {from} hosts with {to}: the LANs must be of one size"),
        );
    }
    check_ends_differ(key, &cross.from, &cross.to)?;
    for (name, at) in [("start", cross.start), ("stop", cross.stop)] {
        within(format!("{key}.{name}"), at.unwrap_or_default(), Duration::ZERO, LONGEST)?;
    }
    if let (start, Some(stop)) = (cross.start.unwrap_or_default(), cross.stop)
        && stop <= start
    {
        return fault(format!("{key}.stop"), format!("{stop} is not after {start}"));
    }
    if matches!(cross.traffic, Traffic::Tcp(_)) && cross.stop.is_some() {
        return fault(format!("{key}.stop"), "is for other traffic: a bulk transfer over TCP never ends");
    }
    match &cross.traffic {
        Traffic::Cbr(flow) => check_rate(&format!("{key}.traffic.cbr"), flow),
        Traffic::Poisson(flow) => check_rate(&format!("{key}.traffic.poisson"), flow),
        Traffic::Video(video) => {
            within(format!("{key}.traffic.video.fps"), video.fps, 1, 240)?;
            within(format!("{key}.traffic.video.packet"), video.packet, Bytes::new(100), Bytes::new(65_535))
        }
        Traffic::Rtp(rtp) => check_rtp(&format!("{key}.traffic.rtp"), rtp, scenario),
        Traffic::Haptic(haptic) => check_haptic_traffic(&format!("{key}.traffic.haptic"), haptic),
        Traffic::Tcp(tcp) => check_tcp(&format!("{key}.traffic.tcp"), tcp),
        Traffic::Voice | Traffic::Replay(_) => Ok(()),
    }
}

fn check_rtp(key: &str, rtp: &RtpTraffic, scenario: &Scenario) -> Checked {
    within(format!("{key}.fps"), rtp.fps, 1, 240)?;
    within(format!("{key}.packet"), rtp.packet, Bytes::new(100), Bytes::new(65_535))?;
    within(format!("{key}.within"), rtp.within, Duration::ZERO, Duration::from_secs(1))?;
    if let Some(rate) = rtp.rate {
        within(format!("{key}.rate"), rate, Bitrate::from_bps(1_000), Bitrate::from_bps(1_000_000_000))?;
    }
    if rtp.file.is_some() {
        let encode = RtpTraffic::default();
        let of_the_encode = [
            ("fps", rtp.fps != encode.fps),
            ("rate", rtp.rate.is_some()),
            ("packet", rtp.packet != encode.packet),
            ("sender", rtp.sender != encode.sender),
        ];
        if let Some((name, _)) = of_the_encode.iter().find(|(_, given)| *given) {
            return fault(
                format!("{key}.{name}"),
                "is for the encode: a `file` has times and packets of its own",
            );
        }
    } else if rtp.codec == Codec::H264 {
        return fault(format!("{key}.codec"), "is h264; the encode is of VP8: write vp8, or opaque");
    }
    let Some(with) = &rtp.with else { return Ok(()) };
    match scenario.cross.get(with).map(|cross| (&cross.traffic, cross.count)) {
        Some((Traffic::Haptic(_) | Traffic::Replay(_), 1)) => Ok(()),
        _ => fault(
            format!("{key}.with"),
            format!("`{with}` is no single cross traffic of type haptic or replay"),
        ),
    }
}

fn check_haptic_traffic(key: &str, haptic: &HapticTraffic) -> Checked {
    within(format!("{key}.period"), haptic.period, Duration::from_micros(10), Duration::from_secs(1))?;
    within(format!("{key}.packet"), haptic.packet, Bytes::new(28), Bytes::new(65_535))?;
    haptic::check(key, &haptic.source, &haptic.sampler)
}

/// Also where only one of a LAN's hosts would send to itself.
fn check_ends_differ(key: &str, from: &str, to: &str) -> Checked {
    let is_host_of = |host: &str, all: &str| {
        let lan = all.strip_suffix('*');
        lan.is_some_and(|lan| host.strip_prefix(lan).is_some_and(|host| !host.contains('/')))
    };
    if from == to {
        return fault(format!("{key}.to"), format!("is `{to}`, as `from` is: {BETWEEN}"));
    }
    if is_host_of(from, to) || is_host_of(to, from) {
        return fault(
            format!("{key}.to"),
            format!("one host of `{from}` to `{to}` would send to itself: {BETWEEN}"),
        );
    }
    Ok(())
}

fn check_rate(key: &str, flow: &RateAndPacket) -> Checked {
    within(format!("{key}.rate"), flow.rate, Bitrate::ZERO, Bitrate::from_bps(1_000_000_000_000))?;
    within(format!("{key}.packet"), flow.packet, Bytes::new(28), Bytes::new(65_535))?;
    if flow.packet / flow.rate == Duration::ZERO {
        let more = format!("{} of {} follow each other within a nanosecond", flow.rate, flow.packet);
        return fault(format!("{key}.rate"), more);
    }
    Ok(())
}

fn check_model(model: &Model, scenario: &Scenario) -> Checked {
    let Some(link) = scenario.links.get(&model.link) else {
        let known: Vec<&str> = scenario.links.keys().map(String::as_str).collect();
        return fault("model.link", format!("no link `{}`; there are {}", model.link, known.join(", ")));
    };
    let shaped = link.chain.iter().any(|element| {
        matches!(element, ElementSpec::Server(server) if server.rate.is_some() && server.queue.bytes.is_some())
    });
    if !shaped {
        return fault(
            "model.link",
            "this link has no server with a constant `rate` and a queue limited in `bytes`",
        );
    }
    for name in &model.cross {
        if !scenario.cross.contains_key(name) {
            return fault("model.cross", format!("no cross traffic `{name}`"));
        }
    }
    let stream = scenario.session.as_ref().and_then(|session| match model.direction {
        Direction::Forward => session.forward.as_ref(),
        Direction::Backward => session.backward.as_ref(),
    });
    match stream.map(|stream| stream.haptic.is_some()) {
        Some(true) => Ok(()),
        _ => fault("model.direction", "the session has no haptic stream in this direction"),
    }
}
