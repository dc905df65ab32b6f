//! DDS as ROS 2 speaks it: names and types as its rmw has them, payloads opaque.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustdds::bytes::Bytes;
use rustdds::mio1::{Events, Interest, Poll, Token};
use rustdds::no_key::{
    DataReader, DataWriter, Decode, DefaultDecoder, DeserializerAdapter, SerializerAdapter,
};
use rustdds::policy::{Durability, History, Lifespan, Reliability};
use rustdds::{
    DomainParticipant, DomainParticipantBuilder, DomainParticipantStatusEvent, EndpointDescription, GUID,
    QosPolicies, QosPolicyBuilder, RTPSEntity, RepresentationIdentifier, StatusEvented, Topic, TopicKind,
};

use crate::backend::{self, Publish, Sink, Tell, another_bridge, other_type, type_name};
use crate::cdr::HEADER;
use crate::config::Qos;

#[derive(Clone, Debug)]
struct Opaque(Bytes);

struct Adapter;

#[derive(Clone, Debug)]
struct Decoder;

impl Decode<'_, Opaque> for Decoder {
    type Error = std::io::Error;
    fn decode_bytes(self, body: &[u8], _: RepresentationIdentifier) -> Result<Opaque, Self::Error> {
        Ok(Opaque([&HEADER, body].concat().into()))
    }
}

impl DeserializerAdapter<Opaque> for Adapter {
    type Error = std::io::Error;
    type Decoded = Opaque;
    fn supported_encodings() -> &'static [RepresentationIdentifier] {
        &[RepresentationIdentifier::CDR_LE]
    }
    fn transform_decoded(message: Opaque) -> Opaque {
        message
    }
}

impl DefaultDecoder<Opaque> for Adapter {
    type Decoder = Decoder;
    const DECODER: Decoder = Decoder;
}

impl SerializerAdapter<Opaque> for Adapter {
    type Error = std::io::Error;
    fn output_encoding() -> RepresentationIdentifier {
        RepresentationIdentifier::CDR_LE
    }
    fn to_bytes(message: &Opaque) -> Result<Bytes, Self::Error> {
        Ok(message.0.clone())
    }
}

/// By that a bridge's writer is known: 68 years in which no message grows old, and a part of a second that nobody else has. Programs that repeat
/// what they recorded may offer it too: it counts of RustDDS alone.
const MARK: Lifespan = Lifespan { duration: rustdds::Duration::from_nanos(2_147_483_646_454_612_091) };

/// How names of RustDDS's participants begin.
const VENDOR: [u8; 2] = [0x01, 0x12];

fn policies(qos: Qos, reliable: bool) -> QosPolicyBuilder {
    let builder = QosPolicyBuilder::new().history(History::KeepLast { depth: i32::from(qos.depth) });
    let builder = builder.durability(if qos.transient_local {
        Durability::TransientLocal
    } else {
        Durability::Volatile
    });
    let wait = rustdds::Duration::from_millis(if qos.moves { 5 } else { 100 });
    let repeated = Reliability::Reliable { max_blocking_time: wait };
    builder.reliability(if reliable { repeated } else { Reliability::BestEffort })
}

/// As rmw has it: `/arm/state` is `rt/arm/state`.
fn topic_name(topic: &str) -> String {
    format!("rt{topic}")
}

/// One participant of a domain, with a thread that reads.
pub(crate) struct Participant {
    domain: DomainParticipant,
    readers: Vec<(DataReader<Opaque, Adapter>, Sink)>,
    writers: Vec<(GUID, Arc<AtomicUsize>)>,
    ends: Vec<End>,
}

/// What is known of peers.
#[derive(Default)]
struct Known {
    /// Our writer, and a reader of its topic.
    matched: Vec<[GUID; 2]>,
    /// Of another type, for they are matched by the name of their topic alone, and writers of other bridges: what they say is not taken, and
    /// whether they listen does not count.
    not_taken: BTreeSet<GUID>,
}

impl Known {
    fn forget(&mut self, is_gone: impl Fn(GUID) -> bool) {
        self.matched.retain(|[_, peer]| !is_gone(*peer));
        self.not_taken.retain(|peer| !is_gone(*peer));
    }
}

/// A writer or a reader of ours.
struct End {
    guid: GUID,
    topic: String,
    /// As on the wire.
    kind: String,
    /// It hears what moves the robot.
    hears_motion: bool,
}

/// Writes one topic.
pub(crate) struct Publisher {
    writer: DataWriter<Opaque, Adapter>,
    /// Of what moves the robot: with a window of its own, for a subscriber that is frozen fills the other one's.
    for_stops: Option<DataWriter<Opaque, Adapter>>,
    subscribers: Arc<AtomicUsize>,
}

fn write(writer: &DataWriter<Opaque, Adapter>, message: &[u8]) -> Result<(), String> {
    let body = message.strip_prefix(&HEADER[..]).ok_or("it is no CDR little endian")?;
    writer.write(Opaque(Bytes::copy_from_slice(body)), None).map_err(|error| error.to_string())
}

impl Publish for Publisher {
    fn publish(&self, message: &[u8]) -> Result<(), String> {
        write(&self.writer, message)
    }

    /// Behind what moves the robot it has to be told, too: whoever was frozen hears that as soon as they go on.
    fn stop(&self, message: &[u8]) -> Result<(), String> {
        let written = write(&self.writer, message);
        if let (Err(_), Some(writer)) = (&written, &self.for_stops) {
            _ = write(writer, message);
        }
        written
    }

    fn subscribers(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.subscribers)
    }
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("DDS: {error}")
}

impl Participant {
    /// # Errors
    /// When the system refuses a socket.
    pub(crate) fn new(domain: u16, interfaces: &[IpAddr]) -> Result<Self, String> {
        let builder = DomainParticipantBuilder::new(domain).with_only_networks(interfaces.iter().copied());
        let domain = builder.build().map_err(failed)?;
        Ok(Self { domain, readers: Vec::new(), writers: Vec::new(), ends: Vec::new() })
    }

    fn topic(
        &self,
        topic: &str,
        kind: &str,
        qos: Qos,
        reliable: bool,
    ) -> Result<(Topic, QosPolicies), String> {
        let qos = policies(qos, reliable).build();
        let made = self.domain.create_topic(topic_name(topic), type_name(kind), &qos, TopicKind::NoKey);
        Ok((made.map_err(failed)?, qos))
    }

    fn add(&mut self, guid: GUID, topic: &str, kind: &str, hears_motion: bool) {
        self.ends.push(End { guid, topic: topic.to_owned(), kind: type_name(kind), hears_motion });
    }

    fn read(mut self, mut poll: Poll, status: &rustdds::DomainParticipantStatusListener, tell: &Tell) {
        let mut events = Events::with_capacity(64);
        let mut known = Known::default();
        loop {
            // Readers tell when something came; once a second all are looked at, whether or not they told.
            if poll.poll(&mut events, Some(std::time::Duration::from_secs(1))).is_err() {
                continue;
            }
            // Who a message is from is known before it.
            while let Some(event) = status.try_recv_status() {
                self.notice(event, &mut known, tell);
            }
            for (reader, sink) in &mut self.readers {
                while let Some(message) = next(reader, &known.not_taken) {
                    sink(message.as_ref().map(|message| &*message.0));
                }
            }
        }
    }

    fn notice(&self, event: DomainParticipantStatusEvent, known: &mut Known, tell: &Tell) {
        use DomainParticipantStatusEvent as Event;
        match event {
            Event::RemoteReaderMatched { local_writer, remote_reader }
                if local_writer.prefix != remote_reader.prefix
                    && !known.matched.contains(&[local_writer, remote_reader]) =>
            {
                known.matched.push([local_writer, remote_reader]);
            }
            Event::ReaderLost { guid, .. } | Event::WriterLost { guid, .. } => {
                known.forget(|peer| peer == guid);
            }
            Event::ParticipantLost { id, .. } => known.forget(|peer| peer.prefix == id),
            Event::ReaderDetected { reader } => self.compare(&reader, "a subscriber", known, tell),
            Event::WriterDetected { writer } => self.compare(&writer, "a publisher", known, tell),
            Event::RemoteWriterQosIncompatible { local_reader, .. } => {
                self.misfit(local_reader, "a publisher", tell);
            }
            Event::RemoteReaderQosIncompatible { local_writer, .. } => {
                self.misfit(local_writer, "a subscriber", tell);
            }
            _ => {}
        }
        for (writer, subscribers) in &self.writers {
            let hears = |[local, peer]: &&[GUID; 2]| local == writer && !known.not_taken.contains(peer);
            subscribers.store(known.matched.iter().filter(hears).count(), Ordering::Release);
        }
    }

    fn compare(&self, peer: &EndpointDescription, who: &str, known: &mut Known, tell: &Tell) {
        let (kind, Some(topic)) = (&peer.type_name, peer.topic_name.strip_prefix("rt")) else { return };
        let ends = || self.ends.iter().filter(|end| end.topic == topic);
        if let Some(end) = ends().find(|end| end.kind != *kind) {
            tell(topic, other_type(who, kind, &end.kind));
            known.not_taken.insert(peer.guid);
        }
        let is_bridge = peer.qos.lifespan() == Some(MARK) && peer.guid.prefix.as_ref().starts_with(&VENDOR);
        if is_bridge && ends().any(|end| end.hears_motion) && known.not_taken.insert(peer.guid) {
            tell(topic, another_bridge());
        }
    }

    fn misfit(&self, own: GUID, who: &str, tell: &Tell) {
        for end in self.ends.iter().filter(|end| end.guid == own) {
            tell(&end.topic, format!("the quality of service of {who} does not fit: set the route's `qos`"));
        }
    }
}

impl backend::Participant for Participant {
    fn publish(&mut self, topic: &str, kind: &str, qos: Qos) -> Result<Box<dyn Publish>, String> {
        let moves = qos.moves;
        // Old stops are for nobody who comes later.
        let of_stops = Qos { transient_local: false, ..qos };
        let reliable = qos.reliable.unwrap_or(true);
        let (made, of_topic) = self.topic(topic, kind, qos, reliable)?;
        let publisher = self.domain.create_publisher(&of_topic).map_err(failed)?;
        let create = |qos| {
            let qos = policies(qos, reliable).lifespan(MARK).build();
            let writer = publisher.create_datawriter_no_key::<Opaque, Adapter>(&made, Some(qos));
            writer.map_err(failed)
        };
        let writer = create(qos)?;
        let for_stops = moves.then(|| create(of_stops)).transpose()?;
        let subscribers = Arc::<AtomicUsize>::default();
        self.writers.push((writer.guid(), Arc::clone(&subscribers)));
        self.add(writer.guid(), topic, kind, false);
        Ok(Box::new(Publisher { writer, for_stops, subscribers }))
    }

    fn subscribe(&mut self, topic: &str, kind: &str, qos: Qos, sink: Sink) -> Result<(), String> {
        let hears_motion = qos.moves;
        let (made, qos) = self.topic(topic, kind, qos, qos.reliable.unwrap_or(false))?;
        let subscriber = self.domain.create_subscriber(&qos).map_err(failed)?;
        let reader =
            subscriber.create_datareader_no_key::<Opaque, Adapter>(&made, Some(qos)).map_err(failed)?;
        self.add(reader.guid(), topic, kind, hears_motion);
        self.readers.push((reader, sink));
        Ok(())
    }

    /// Reads from here on too.
    fn start(mut self: Box<Self>, tell: Tell) -> Result<(), String> {
        let poll = Poll::new().map_err(failed)?;
        for (at, (reader, _)) in self.readers.iter_mut().enumerate() {
            poll.registry().register(reader, Token(at), Interest::READABLE).map_err(failed)?;
        }
        let mut status = self.domain.status_listener();
        let token = Token(self.readers.len());
        poll.registry()
            .register(status.as_status_source_mio1(), token, Interest::READABLE)
            .map_err(failed)?;
        let read = move || self.read(poll, &status, &tell);
        std::thread::Builder::new().name("dds".to_owned()).spawn(read).map_err(failed)?;
        Ok(())
    }
}

/// What came; of one that cannot be read, such as one with another encoding or of another type, that it came.
fn next(reader: &mut DataReader<Opaque, Adapter>, not_taken: &BTreeSet<GUID>) -> Option<Option<Opaque>> {
    match reader.take_next_sample() {
        Ok(sample) => sample.map(|sample| {
            let is_ours = !not_taken.contains(&sample.sample_info().writer_guid());
            is_ours.then(|| sample.into_value())
        }),
        Err(_) => Some(None),
    }
}
