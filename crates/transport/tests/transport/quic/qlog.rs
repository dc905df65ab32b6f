//! Traces of connections (draft-ietf-quic-qlog-main-schema-03, draft-ietf-quic-qlog-quic-events-02).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use taut_transport::quic::qlog::{Qlog, QlogSink};
use taut_transport::quic::{PathUse, QuicConfig};

use crate::quic::harness::{CLIENT, Net, SERVER, at_ms, ms, sample};
use crate::quic::multipath::harness as paths;

/// Records by trace, in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

struct Page(Memory, String);

impl QlogSink for Memory {
    fn open(&self, name: &str) -> Option<Box<dyn Write + Send + Sync>> {
        assert!(
            self.0.lock().expect("nobody panicked").insert(name.to_owned(), Vec::new()).is_none(),
            "{name} is new"
        );
        Some(Box::new(Page(self.clone(), name.to_owned())))
    }
}

impl Write for Page {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let mut pages = self.0.0.lock().expect("nobody panicked");
        pages
            .get_mut(&self.1)
            .expect("it was opened")
            .push(String::from_utf8(record.to_vec()).expect("text"));
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One that takes nothing.
struct Full(bool);

impl QlogSink for Full {
    fn open(&self, _: &str) -> Option<Box<dyn Write + Send + Sync>> {
        struct Refusing;
        impl Write for Refusing {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::StorageFull.into())
            }
        }
        self.0.then(|| Box::new(Refusing) as Box<dyn Write + Send + Sync>)
    }
}

fn traced(config: QuicConfig, memory: &Memory) -> QuicConfig {
    config.qlog(Qlog::new(Arc::new(memory.clone()), 1_700_000_000_123_456_789))
}

/// What the drafts require of a trace; gives its events by name.
fn check(name: &str, records: &[String]) -> BTreeMap<String, Vec<Value>> {
    let mut records = records.iter().map(|record| -> Value {
        let text = record.strip_prefix('\u{1e}').expect("RFC 7464 section 2.2: a record separator");
        let text = text.strip_suffix('\n').expect("and a line feed");
        assert!(!text.contains('\n'));
        serde_json::from_str(text).expect("JSON")
    });
    let header = records.next().expect("a header");
    assert_eq!(
        (header["qlog_version"].as_str(), header["qlog_format"].as_str()),
        (Some("0.3"), Some("JSON-SEQ"))
    );
    let (trace, end) = (&header["trace"], name.split_once('_').expect("an end"));
    assert_eq!(trace["vantage_point"]["type"], end.1);
    let fields = &trace["common_fields"];
    assert_eq!((fields["ODCID"].as_str(), fields["time_format"].as_str()), (Some(end.0), Some("relative")));
    assert!(
        fields["reference_time"]
            .as_f64()
            .is_some_and(|ms| (1_700_000_000_123.0..1_700_000_001_000.0).contains(&ms))
    );
    let (mut before, mut events) = (0.0, BTreeMap::<String, Vec<Value>>::new());
    for event in records {
        let at = event["time"].as_f64().expect("a time");
        assert!(at >= before, "{at} after {before}");
        before = at;
        assert!(event["data"].is_object() && event.get("group_id").is_none(), "{event}");
        let name = event["name"].as_str().expect("a name").to_owned();
        let category = name.split_once(':').expect("of a category").0;
        assert!(["connectivity", "security", "transport", "recovery"].contains(&category), "{name}");
        events.entry(name).or_default().push(event);
    }
    for packet in
        ["transport:packet_sent", "transport:packet_received"].iter().flat_map(|name| &events[*name])
    {
        let header = &packet["data"]["header"];
        assert!(header["packet_number"].is_u64() && header["packet_type"].is_string(), "{packet}");
    }
    assert!(
        events["recovery:metrics_updated"].iter().any(|event| event["data"]["congestion_window"].is_u64())
    );
    events
}

fn talk(config: &QuicConfig) -> Net {
    let mut net = Net::connected(config);
    for _ in 0..100 {
        let now = net.now;
        net.send(CLIENT, sample(now, 100));
        net.send(SERVER, sample(now, 60));
        net.run_for(ms(1));
    }
    net.run_until(at_ms(500));
    net
}

#[test]
fn each_end_of_a_connection_on_one_path_writes_a_trace_that_the_drafts_allow() {
    let memory = Memory::default();
    drop(talk(&traced(QuicConfig::new(), &memory)));
    let traces = memory.0.lock().unwrap();
    let names: Vec<_> = traces.keys().collect();
    let [client, server] = names[..] else { panic!("{names:?}") };
    assert_eq!(client.strip_suffix("_client").unwrap(), server.strip_suffix("_server").unwrap());
    for (name, records) in traces.iter() {
        let events = check(name, records);
        assert!(
            events["transport:packet_sent"].len() >= 100 && events["transport:packet_received"].len() >= 100
        );
    }
}

#[test]
fn a_trace_of_several_paths_names_them_and_the_frames_of_each_packet() {
    let memory = Memory::default();
    let config = traced(QuicConfig::multipath(PathUse::FailOver), &memory);
    let mut net = paths::Net::new(config, 2);
    net.run_until(at_ms(500));
    drop(net);
    let traces = memory.0.lock().unwrap();
    assert_eq!(traces.len(), 2);
    for (name, records) in traces.iter() {
        let events = check(name, records);
        assert_eq!(events["connectivity:connection_started"].len(), 1, "{name}");
        assert!(!events["transport:parameters_set"].is_empty());
        let sent = &events["transport:packet_sent"];
        let on: std::collections::BTreeSet<_> =
            sent.iter().filter_map(|packet| packet["tuple"].as_str()).collect();
        assert!(on.len() >= 2, "{name}: {on:?}");
        let frames = sent.iter().filter_map(|packet| packet["data"]["frames"].as_array()).flatten();
        assert!(frames.filter(|frame| frame["frame_type"] == "ping").count() > 0);
    }
}

#[test]
fn what_is_sent_is_the_same_to_the_byte_with_a_trace_and_without() {
    let plain = talk(&QuicConfig::new()).digest();
    assert_eq!(talk(&traced(QuicConfig::new(), &Memory::default())).digest(), plain);
    for opens in [false, true] {
        let full = QuicConfig::new().qlog(Qlog::new(Arc::new(Full(opens)), 0));
        assert_eq!(talk(&full).digest(), plain, "a sink that takes nothing");
    }
}
