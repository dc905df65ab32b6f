//! Cross traffic for whoever carries it over real sockets: the ends that a simulation has, and the books of what the network did.

use std::collections::{BTreeMap, VecDeque};

use taut_core::{
    Address, DropCause, Duration, FlowId, LinkEvent, Node, Packet, PacketMeta, Protocol, Seed, Time,
};
use taut_sim::traffic::DISCARD;
use taut_sim::{LinkId, Observer};

use super::cross::{Ends, each, ends, start, videos};
use super::emulation::PathEnds;
use super::flows::{Counters, FlowInfo};
use super::inputs::{Inputs, RunError};
use super::judge;
use super::teleop::{Way, conservation};
use crate::metrics::{Metrics, Summary, Watch, percent};
use crate::scenario::{Direction, Scenario, TcpSpec, Traffic};
use taut_report::result::{FlowOwner, FlowPart, FlowResult, Input, RunResult, Verdict};

/// One flow of a scenario's cross traffic.
pub struct CrossFlow {
    /// Its place among the flows of the books; what goes back has the next one.
    pub number: usize,
    /// The key of its entry: `"cross.bulk"`.
    pub key: String,
    /// From the operator, or to it.
    pub direction: Direction,
    /// The sender's port, and the receiver's.
    pub ports: [u16; 2],
    /// Differentiated services code point of its packets, both ways.
    pub dscp: u8,
    /// What its ends are.
    pub carrier: CrossCarrier,
    /// What goes there, and what goes back, if anything does.
    parts: Vec<Part>,
}

/// A flow of packets as results call it.
#[derive(Clone)]
struct Part {
    name: String,
    owner: FlowOwner,
    kind: &'static str,
}

/// What the ends of cross traffic are.
pub enum CrossCarrier {
    /// State machines whose packets are UDP datagrams: the payload, and zeros up to the packet's size.
    Datagrams {
        /// The end that sends.
        sender: Box<dyn Node + Send>,
        /// The end that receives, and may report.
        receiver: Box<dyn Node + Send>,
    },
    /// A bulk transfer over the kernel's TCP.
    Tcp {
        /// As the scenario has it.
        spec: TcpSpec,
        /// When it begins.
        start: Time,
    },
}

/// The first of the senders' ports: below those that the kernel picks itself, so that none is taken.
const FIRST_SENDER: u16 = 20_000;
/// The first of those that TCP connects to.
const FIRST_TCP: u16 = 5_001;

/// A scenario's cross traffic between its two ends, every flow with ports of its own. Their time is the run's.
///
/// # Errors
/// When a flow is between other places, or a file that it names cannot be used; names the key.
pub fn cross_flows(scenario: &Scenario, seed: Seed, inputs: &mut Inputs) -> Result<Vec<CrossFlow>, RunError> {
    if scenario.cross.is_empty() {
        return Ok(Vec::new());
    }
    let PathEnds { ends: [operator, robot], .. } = PathEnds::of(scenario)?;
    let mut flows = Vec::new();
    let mut number = 0;
    for one in each(scenario) {
        let key = format!("cross.{}", one.entry);
        let [from, to] = one.between.each_ref().map(String::as_str);
        let direction = match [from, to] {
            way if way == [operator, robot] => Direction::Forward,
            way if way == [robot, operator] => Direction::Backward,
            _ => {
                let message = format!(
                    "goes from {from} to {to}; over real sockets all traffic is between the two ends"
                );
                return Err(RunError::key(key, message));
            }
        };
        let (to, first) = ((Address(0), FlowId(number as u32)), FIRST_SENDER.wrapping_add(number as u16));
        let (port, carrier, kind, back) = match &one.cross.traffic {
            Traffic::Tcp(spec) => {
                let carrier = CrossCarrier::Tcp { spec: *spec, start: start(&one, seed) };
                (FIRST_TCP.wrapping_add(number as u16), carrier, "tcp", Some(("acks", "tcp acks")))
            }
            traffic => {
                let ends = ends(&one, to, (scenario.duration, seed), inputs)?;
                let port = if let Traffic::Rtp(rtp) = traffic { rtp.port } else { DISCARD };
                let Ends { kind, sender, receiver, reports } = ends;
                let carrier = CrossCarrier::Datagrams { sender, receiver };
                (port, carrier, kind, reports.then_some(("reports", "rtcp")))
            }
        };
        let mut parts = vec![Part { name: one.label.clone(), owner: one.owner(FlowPart::Data), kind }];
        parts.extend(back.map(|(what, kind)| Part {
            name: format!("{} {what}", one.label),
            owner: one.owner(FlowPart::Acks),
            kind,
        }));
        let next = number + parts.len();
        let (ports, dscp) = ([first, port], one.cross.dscp);
        flows.push(CrossFlow { number, key, direction, ports, dscp, carrier, parts });
        number = next;
    }
    Ok(flows)
}

/// What packets of cross traffic are told by: back to the operator or not, TCP or not, source and destination port.
type Key = (bool, bool, u16, u16);

/// What became of cross traffic: written by whoever sees its packets in the network, or by its ends where nobody does.
pub struct CrossBooks {
    watch: Watch,
    metrics: Metrics,
    parts: Vec<Part>,
    by_ports: BTreeMap<Key, usize>,
    /// What the network was seen to do with all of them.
    ways: [Way; 2],
    /// What the ends counted, where it was not seen: of each part, and whether that goes back.
    tallies: Vec<(bool, Tallies)>,
    /// How long packets took by the word of their ends, where it was not seen.
    took: Vec<Summary>,
    /// What else they counted, by name.
    counters: Vec<BTreeMap<String, u64>>,
    has_videos: bool,
    /// Packets under way that had no room to say when they were sent: flow, time, payload.
    untold: VecDeque<(usize, Time, Vec<u8>)>,
    /// When the run began: before it, nothing is sent.
    began: Time,
    /// Bytes of all else that entered and that left, there and back, of what was sent in the time that counts.
    others: [[u64; 2]; 2],
}

/// What takes longer is lost.
const LONGEST: Duration = Duration::from_secs(30);

/// What both ends of a flow counted: packets, and bytes of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets that the sender sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that the receiver got.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
}

/// Of one flow, in all, and at both ends of the time that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tallies {
    total: Tally,
    before: Tally,
    until: Tally,
}

impl CrossBooks {
    /// Empty ones of `flows`, which are those of the scenario.
    pub fn new(scenario: &Scenario, flows: &[CrossFlow]) -> Self {
        let watch = Watch::of(scenario);
        let (mut parts, mut by_ports, mut tallies) = (Vec::new(), BTreeMap::new(), Vec::new());
        for flow in flows {
            let is_tcp = matches!(flow.carrier, CrossCarrier::Tcp { .. });
            let ([from, to], returns) = (flow.ports, flow.direction == Direction::Backward);
            let keys = [(returns, is_tcp, from, to), (!returns, is_tcp, to, from)];
            for (part, key) in flow.parts.iter().zip(keys) {
                by_ports.insert(key, parts.len());
                tallies.push((key.0, Tallies::default()));
                parts.push(part.clone());
            }
        }
        let videos = videos(scenario, &infos(&parts));
        Self {
            watch,
            has_videos: !videos.is_empty(),
            untold: VecDeque::new(),
            metrics: Metrics::new(watch, &[], parts.len(), 1, None).with_videos(videos),
            took: vec![Summary::default(); parts.len()],
            counters: vec![BTreeMap::new(); parts.len()],
            parts,
            by_ports,
            ways: Default::default(),
            tallies,
            began: Time::ZERO,
            others: Default::default(),
        }
    }

    /// The run begins: the clock of whoever writes shows `now`.
    pub fn begin(&mut self, now: Time) {
        (self.began, self.others) = (now, Default::default());
    }

    /// A packet enters the network, `back` to the operator or not. Of what is no cross traffic bytes alone are counted.
    pub fn entered(&mut self, back: bool, packet: &Packet) {
        let Some(seen) = self.seen(back, packet) else { return self.other(back, 0, &packet.meta) };
        let way = &mut self.ways[usize::from(back)];
        way.entered += 1;
        way.entered_bytes += packet.meta.size.get();
        self.metrics.sent(seen.meta.sent, &seen);
    }

    /// It leaves.
    pub fn left(&mut self, back: bool, now: Time, packet: &Packet) {
        let Some(seen) = self.seen(back, packet) else { return self.other(back, 1, &packet.meta) };
        let way = &mut self.ways[usize::from(back)];
        way.left += 1;
        way.left_bytes += packet.meta.size.get();
        self.metrics.delivered(self.since_began(now), seen.meta.destination, &seen);
    }

    fn other(&mut self, back: bool, end: usize, meta: &PacketMeta) {
        if meta.sent >= self.began && self.watch.counts(self.since_began(meta.sent)) {
            self.others[usize::from(back)][end] += meta.size.get();
        }
    }

    /// Bytes of what is no cross traffic that entered and that left, there and back, of what was sent after the warm-up and before the
    /// scenario's end.
    pub fn others(&self) -> [[u64; 2]; 2] {
        self.others
    }

    /// It was dropped.
    pub fn dropped(&mut self, back: bool, meta: &PacketMeta, cause: DropCause) {
        let Some(meta) = self.known(back, meta) else { return };
        *self.ways[usize::from(back)].dropped.entry(cause.name().to_owned()).or_default() += 1;
        self.metrics.link_event(meta.sent, LinkId(0), &LinkEvent::Dropped { meta, cause });
    }

    /// A copy of it was made.
    pub fn duplicated(&mut self, back: bool, meta: &PacketMeta) {
        self.ways[usize::from(back)].duplicated += u64::from(self.known(back, meta).is_some());
    }

    /// What the ends of a flow have counted until `now`, where nobody sees the network.
    pub fn tallied(&mut self, now: Time, flow: usize, tally: Tally) {
        let (now, watch) = (self.since_began(now), self.watch);
        let tallies = &mut self.tallies[flow].1;
        tallies.total = tally;
        if now < Time::ZERO + watch.warmup {
            tallies.before = tally;
        }
        if now <= Time::ZERO + watch.duration {
            tallies.until = tally;
        }
    }

    /// A packet of a flow is sent, by the word of its end; `told` when it says so itself where it arrives.
    pub fn sent(&mut self, flow: usize, now: Time, packet: &Packet, told: bool) {
        if !self.has_videos {
            return;
        }
        let oldest = |(_, sent, _): &(usize, Time, Vec<u8>)| now.saturating_since(*sent) > LONGEST;
        while self.untold.front().is_some_and(oldest) {
            self.untold.pop_front();
        }
        if !told {
            self.untold.push_back((flow, now, packet.payload.clone()));
        }
        let packet = self.by_its_end(flow, now, packet);
        self.metrics.sent(packet.meta.sent, &packet);
    }

    /// A packet of a flow came, by the word of its ends: it was `sent` then, where it says so.
    pub fn took(&mut self, flow: usize, sent: Option<Time>, now: Time, packet: &Packet) {
        let same = |(of, _, payload): &(usize, Time, Vec<u8>)| {
            *of == flow && packet.payload.get(..payload.len()) == Some(payload)
        };
        let untold = || {
            let place = self.untold.iter().position(same)?;
            self.untold.remove(place).map(|(_, sent, _)| sent)
        };
        let Some(sent) = sent.or_else(untold) else { return };
        if self.watch.counts(self.since_began(sent))
            && let Some(took) = self.took.get_mut(flow)
        {
            took.record(now.saturating_since(sent));
        }
        if self.has_videos {
            let packet = self.by_its_end(flow, sent, packet);
            self.metrics.delivered(self.since_began(now), packet.meta.destination, &packet);
        }
    }

    /// As the metrics know it: no two of a flow that are told apart are sent at once.
    fn by_its_end(&self, flow: usize, sent: Time, packet: &Packet) -> Packet {
        let sent = self.since_began(sent);
        let meta = PacketMeta { id: sent.as_nanos(), flow: FlowId(flow as u32), sent, ..packet.meta };
        Packet { meta, payload: packet.payload.clone() }
    }

    /// Something that an end of a flow counted, by name.
    pub fn count(&mut self, flow: usize, name: &str, count: u64) {
        self.counters[flow].insert(name.to_owned(), count);
    }

    /// What all of it was of what the network carried, there and back.
    pub fn ways(&self) -> [Way; 2] {
        let mut ways = self.ways.clone();
        for (back, Tallies { total, .. }) in &self.tallies {
            ways[usize::from(*back)].add(&Way {
                entered: total.sent,
                entered_bytes: total.sent_bytes,
                left: total.delivered,
                left_bytes: total.delivered_bytes,
                ..Way::default()
            });
        }
        ways
    }

    /// Adds what became of it to the result of the session beside it.
    pub fn add_to(&self, result: &mut RunResult) {
        let infos = infos(&self.parts);
        result.flows.extend(infos.iter().enumerate().map(|(at, info)| self.flow(at, info)));
        let names: Vec<String> = infos.iter().map(|info| info.name.clone()).collect();
        result.series.extend(self.metrics.series(&[], &names, &[]));
        let videos = self.metrics.videos();
        let mut limits = std::mem::take(&mut result.verdict.limits);
        limits.extend(judge::videos(&videos));
        result.verdict = Verdict::of(limits);
        result.videos.extend(videos);
        self.ways().iter().for_each(|way| way.add_to(&mut result.conservation));
    }

    fn flow(&self, at: usize, info: &FlowInfo) -> FlowResult {
        let seen = self.metrics.flow(at, info, None);
        let Tallies { total, before, until } = self.tallies[at].1;
        let counters = self.counters[at].clone();
        if total == Tally::default() {
            return FlowResult { counters, ..seen };
        }
        let seconds = self.watch.duration.saturating_sub(self.watch.warmup).as_secs_f64();
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 * 8.0 / seconds;
        FlowResult {
            sent: total.sent,
            delivered: total.delivered,
            loss_percent: percent(total.sent.saturating_sub(total.delivered), total.sent),
            sent_bps: rate(before.sent_bytes, until.sent_bytes),
            delivered_bps: rate(before.delivered_bytes, until.delivered_bytes),
            delay_ms: self.took[at].to_result(),
            counters,
            ..seen
        }
    }

    fn since_began(&self, now: Time) -> Time {
        Time::ZERO + now.saturating_since(self.began)
    }

    /// As the metrics know it.
    fn known(&self, back: bool, meta: &PacketMeta) -> Option<PacketMeta> {
        let key = (back, meta.protocol == Protocol::Tcp, meta.source_port, meta.destination_port);
        let flow = FlowId(*self.by_ports.get(&key)? as u32);
        Some(PacketMeta { flow, sent: self.since_began(meta.sent), ..*meta })
    }

    fn seen(&self, back: bool, packet: &Packet) -> Option<Packet> {
        let meta = self.known(back, &packet.meta)?;
        // Only videos are looked into.
        let headers = usize::from(meta.headers).min(packet.payload.len());
        let payload = if self.has_videos { packet.payload[headers..].to_vec() } else { Vec::new() };
        Some(Packet { meta, payload })
    }
}

fn infos(parts: &[Part]) -> Vec<FlowInfo> {
    let info = |Part { name, owner, kind }: &Part| {
        let (name, owner, counters) = (name.clone(), owner.clone(), Counters::default());
        FlowInfo { name, owner, kind, sender: Address::default(), counters }
    };
    parts.iter().map(info).collect()
}

/// A run that is cross traffic alone, from its books and what each path carried there and back: what is known of the network besides
/// stands at the first flow of either direction.
pub fn account_cross(
    scenario: &Scenario,
    seed: Seed,
    books: &CrossBooks,
    paths: &[[Way; 2]],
    inputs: Vec<Input>,
) -> RunResult {
    let mut result = super::blank(scenario, seed.get(), inputs);
    books.add_to(&mut result);
    let network = Way::of_all(paths);
    for (way, is_back) in network.iter().zip([false, true]) {
        if let Some(first) = books.tallies.iter().position(|(back, _)| *back == is_back) {
            result.flows[first].counters.extend(way.counters.clone());
        }
    }
    RunResult { conservation: conservation(&network, Vec::new()), ..result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_core::{Bytes, Duration};

    const SCENARIO: &str = r#"
title = "t"
duration = "2s"
warmup = "1s"
[links.wire]
between = ["a", "b"]
chain = [{ delay = "1ms" }]
[cross.bulk]
from = "b"
to = "a"
traffic = { tcp = {} }
[cross.steady]
from = "a"
to = "b"
count = 2
traffic = { cbr = { rate = "1Mbit", packet = "150B" } }
"#;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn books() -> (CrossBooks, Vec<CrossFlow>) {
        let scenario = Scenario::parse("t.toml", SCENARIO).unwrap();
        let flows = cross_flows(&scenario, Seed::new(1), &mut Inputs::default()).unwrap();
        let mut books = CrossBooks::new(&scenario, &flows);
        books.begin(at(5_000));
        (books, flows)
    }

    fn packet(flow: &CrossFlow, back: bool, sent: Time) -> Packet {
        let [source_port, destination_port] = if back { [flow.ports[1], flow.ports[0]] } else { flow.ports };
        let is_tcp = matches!(flow.carrier, CrossCarrier::Tcp { .. });
        let protocol = if is_tcp { Protocol::Tcp } else { Protocol::Udp };
        let size = Bytes::new(150);
        let meta =
            PacketMeta { source_port, destination_port, protocol, size, sent, ..PacketMeta::default() };
        Packet { meta, payload: vec![0; 150] }
    }

    fn result(books: &CrossBooks) -> RunResult {
        let scenario = Scenario::parse("t.toml", SCENARIO).expect("it is well formed");
        account_cross(&scenario, Seed::new(1), books, &[books.ways()], Vec::new())
    }

    #[test]
    fn what_is_known_of_the_network_is_told_of_cross_traffic_alone() {
        let (books, _) = books();
        let scenario = Scenario::parse("t.toml", SCENARIO).unwrap();
        let way = |late, gated| Way {
            entered: 9,
            left: 9 - gated,
            dropped: [("gated".to_owned(), gated)].into(),
            counters: [("emulator_late_p99_us".to_owned(), late)].into(),
            ..Way::default()
        };
        let result = account_cross(&scenario, Seed::new(1), &books, &[[way(70, 2), way(90, 0)]], Vec::new());
        let late = |flow: usize| result.flows[flow].counters.get("emulator_late_p99_us").copied();
        assert_eq!([0, 1, 2, 3].map(late), [Some(90), Some(70), None, None]);
        assert_eq!((result.conservation.sent, result.conservation.dropped["gated"]), (18, 2));
    }

    #[test]
    fn flows_have_ports_of_their_own_and_the_names_of_a_simulated_run() {
        let (books, flows) = books();
        let mut senders: Vec<u16> = flows.iter().map(|flow| flow.ports[0]).collect();
        senders.dedup();
        assert_eq!(senders.len(), 3);
        let names: Vec<String> = result(&books).flows.into_iter().map(|flow| flow.name).collect();
        assert_eq!(names, ["bulk", "bulk acks", "steady/1", "steady/2"]);
    }

    #[test]
    fn what_a_packet_is_of_is_told_by_its_ports_and_its_direction() {
        let (mut books, flows) = books();
        let sent = at(6_500);
        for (back, packet) in [
            (false, packet(&flows[1], false, sent)),
            (false, packet(&flows[2], false, sent)),
            (true, packet(&flows[0], false, sent)),
            (false, packet(&flows[0], true, sent)),
            // Against the grain, and somebody else's.
            (true, packet(&flows[1], false, sent)),
            (false, Packet::default()),
        ] {
            books.entered(back, &packet);
            books.left(back, sent + Duration::from_millis(3), &packet);
        }
        let lost = packet(&flows[1], false, sent);
        books.entered(false, &lost);
        books.dropped(false, &lost.meta, DropCause::QueueFullBytes);
        let result = result(&books);
        let counts: Vec<_> = result.flows.iter().map(|flow| (flow.sent, flow.delivered)).collect();
        assert_eq!(counts, [(1, 1), (1, 1), (2, 1), (1, 1)]);
        assert!((result.flows[2].delay_ms.as_ref().unwrap().p50 - 3.0).abs() < 0.1);
        assert_eq!(result.flows[2].dropped.values().sum::<u64>(), 1);
        // One of the two seconds counts.
        assert!((result.flows[2].sent_bps - 2.0 * 150.0 * 8.0).abs() < 1e-6);
        let ways = books.ways();
        assert_eq!((ways[0].entered, ways[0].left, ways[1].entered), (4, 3, 1));
        assert_eq!((result.conservation.sent, result.conservation.held), (5, 0));
    }

    #[test]
    fn what_ends_counted_counts_from_the_end_of_the_warm_up() {
        let (mut books, _) = books();
        let tally = |packets: u64| Tally {
            sent: packets,
            sent_bytes: packets * 100,
            delivered: packets - 1,
            delivered_bytes: (packets - 1) * 100,
        };
        for (ms, packets) in [(5_500, 10), (5_990, 20), (6_900, 120), (7_500, 200)] {
            books.tallied(at(ms), 2, tally(packets));
        }
        let flow = &result(&books).flows[2];
        assert_eq!((flow.sent, flow.delivered), (200, 199));
        assert!((flow.sent_bps - 100.0 * 100.0 * 8.0).abs() < 1e-6, "{flow:?}");
        assert_eq!(books.ways()[0].entered, 200);
    }
}
