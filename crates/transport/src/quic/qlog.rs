//! What a connection does, packet by packet, as qlog for qvis and whatever else reads it.
//!
//! Of one path and of several it is version 0.3 of qlog in JSON text sequences (draft-ietf-quic-qlog-main-schema-03 section 6.2, RFC
//! 7464): the newest that qvis opens. `quinn-proto` writes that; what `noq-proto` writes (draft-ietf-quic-qlog-quic-events-12) gets
//! the names that the same events have there, and keeps what is newer, such as the path of a packet (`tuple`). The header is ours.
//! With one path a packet's frames are not told, the trigger of a loss is not to be relied on, and time has 24 bits: after an hour it
//! is told to a quarter of a millisecond. Addresses are those that this transport makes up for its paths.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::Arc;

use taut_core::Time;

/// Where traces go: files of a host, or of a lab.
pub trait QlogSink: Send + Sync {
    /// A connection begins. Each call of `write` is given one whole record and must not wait; its drop ends the trace. `name` is the
    /// connection's (its first destination ID in hexadecimal digits), `_` and `client` or `server`. `None`: it is not written.
    fn open(&self, name: &str) -> Option<Box<dyn Write + Send + Sync>>;
}

/// Has connections write traces.
#[derive(Clone)]
pub struct Qlog {
    sink: Arc<dyn QlogSink>,
    epoch_ns: u64,
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qlog").field("epoch_ns", &self.epoch_ns).finish_non_exhaustive()
    }
}

impl Qlog {
    /// Traces go to `sink`; [`Time::ZERO`] is so many nanoseconds after the beginning of 1970.
    pub fn new(sink: Arc<dyn QlogSink>, epoch_ns: u64) -> Self {
        Self { sink, epoch_ns }
    }

    /// What a library writes the trace of a connection to that begins now.
    pub(super) fn begin(&self, now: Time, connection: &[u8], end: &str) -> Option<Box<Trace>> {
        let connection = hexadecimal(connection);
        let out = self.sink.open(&format!("{connection}_{end}"))?;
        let began_ns = self.epoch_ns.saturating_add(now.as_nanos());
        let (ms, rest) = (began_ns / 1_000_000, began_ns % 1_000_000);
        let header = format!(
            "\u{1e}{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"taut\",\"trace\":{{\"title\":\"{end}\",\
             \"vantage_point\":{{\"type\":\"{end}\"}},\"common_fields\":{{\"ODCID\":\"{connection}\",\"protocol_type\":[\"QUIC\"],\
             \"time_format\":\"relative\",\"reference_time\":{ms}.{rest:06}}}}}}}\n"
        );
        Some(Box::new(Trace { out, header: Some(header), record: Vec::new() }))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // To a string: it cannot fail.
    }
    text
}

/// A library writes a record in many pieces: it is passed on when it is whole.
pub(super) struct Trace {
    out: Box<dyn Write + Send + Sync>,
    /// Instead of the first record, which is the library's header.
    header: Option<String>,
    record: Vec<u8>,
}

impl Write for Trace {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.record.extend_from_slice(piece);
        // Inside JSON of one line there is none.
        if piece.ends_with(b"\n") {
            let whole = match self.header.take() {
                Some(header) => self.out.write(header.as_bytes()),
                None if translate(&mut self.record) => self.out.write(&self.record),
                None => Ok(0),
            };
            // What the sink does not take, it counts.
            let _ = whole;
            self.record.clear();
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How the name of an event begins where it is of draft 12.
const NEW: &[u8] = b"\"name\":\"quic:";
/// Of one path each event names its connection, and not always by the same ID: it would be taken for several.
const GROUP: &[u8] = b",\"group_id\":\"";
/// Timers of other kinds have no place in version 0.3, and are most of what several paths would write.
const LOSS_TIMER: &[u8] = b"\"timer_type\":\"loss_timeout\"";

fn find(record: &[u8], text: &[u8]) -> Option<usize> {
    record.windows(text.len()).position(|window| window == text)
}

/// Makes an event one of version 0.3; false: there it is none.
fn translate(record: &mut Vec<u8>) -> bool {
    if let Some(begin) = find(record, GROUP)
        && let Some(length) = record[begin + GROUP.len()..].iter().position(|byte| *byte == b'"')
    {
        record.drain(begin..=begin + GROUP.len() + length);
    }
    let Some(found) = find(record, NEW) else { return true };
    let begin = found + NEW.len();
    let Some(length) = record[begin..].iter().position(|byte| *byte == b'"') else { return false };
    let name = &record[begin..begin + length];
    let plain = name.strip_prefix(b"recovery_").unwrap_or(name);
    let category = match plain {
        b"connection_started" | b"connection_closed" | b"connection_state_updated" | b"tuple_assigned" => {
            "connectivity"
        }
        b"metrics_updated" | b"congestion_state_updated" | b"timer_updated" | b"packet_lost" => "recovery",
        _ if plain.len() < name.len() => "recovery",
        _ => "transport",
    };
    let is_timer = plain == b"timer_updated";
    let plain = if is_timer { b"loss_timer_updated" } else { plain };
    let renamed = [category.as_bytes(), b":", plain].concat();
    record.splice(begin - b"quic:".len()..begin + length, renamed);
    !is_timer || find(record, LOSS_TIMER).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_several_paths_get_the_names_that_qvis_knows() {
        for (new, old) in [
            ("quic:packet_sent", "transport:packet_sent"),
            ("quic:parameters_set", "transport:parameters_set"),
            ("quic:recovery_metrics_updated", "recovery:metrics_updated"),
            ("quic:packet_lost", "recovery:packet_lost"),
            ("quic:connection_started", "connectivity:connection_started"),
            ("transport:packet_sent", "transport:packet_sent"),
        ] {
            let record = |name: &str| format!("\u{1e}{{\"time\":1.5,\"name\":\"{name}\",\"data\":{{}}}}\n");
            let mut written = record(new).into_bytes();
            assert!(translate(&mut written));
            assert_eq!(String::from_utf8(written).unwrap(), record(old));
        }
        let timer = |kind: &str| {
            format!("{{\"name\":\"quic:timer_updated\",\"data\":{{\"timer_type\":\"{kind}\"}}}}\n")
        };
        assert!(translate(&mut timer("loss_timeout").into_bytes()));
        assert!(!translate(&mut timer("idle_timeout").into_bytes()));
    }

    #[test]
    fn a_trace_is_of_one_connection_whatever_its_events_say() {
        let mut record = b"{\"time\":1,\"name\":\"a:b\",\"data\":{},\"group_id\":\"0a\"}\n".to_vec();
        assert!(translate(&mut record));
        assert_eq!(record, b"{\"time\":1,\"name\":\"a:b\",\"data\":{}}\n");
    }
}
