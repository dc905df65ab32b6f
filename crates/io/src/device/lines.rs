//! Lines of JSON that an operator writes on standard input, and reads. What programs that are devices read and write are
//! [`frames`](super::frame).
//!
//! Motion has [names with units](MotionLine).

use serde::Deserialize;
use serde_json::value::RawValue;
use taut_core::Duration;

use super::base64;
pub use super::motion::{GripperLine, JointsLine, MotionLine, StateLine, TwistLine};
pub use super::splitter::Splitter;

/// Bytes of a line, without what ends it, but of a message's. A longer one is junk.
pub const LONGEST: usize = 4_000;

/// What to do, as a channel of motion says it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MotionOf {
    /// Its name.
    pub channel: String,
    /// What to do.
    #[serde(flatten)]
    pub motion: MotionLine,
}

/// A message of a channel: its payload as it is where that is JSON, or else by `base64`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageLine {
    /// Its name.
    pub channel: String,
    /// How old it is, where that is known.
    pub age_ms: Option<f64>,
    /// JSON.
    pub payload: Option<Json>,
    /// Any bytes: RFC 4648, section 4.
    pub base64: Option<String>,
}

/// JSON, as it was written.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Json {
    /// `None` where the bytes are none.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        // The ends of lines in it are white space: in strings there are none (RFC 8259, section 7).
        let text = text.replace(['\n', '\r'], " ");
        RawValue::from_string(text.trim().to_owned()).ok().map(Self)
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl MessageLine {
    /// All of a message, in one line of whatever length.
    pub fn whole(channel: &str, is_json: bool, age: Option<Duration>, payload: &[u8]) -> Self {
        let json = if is_json { Json::new(payload) } else { None };
        Self {
            channel: channel.to_owned(),
            age_ms: age.map(Duration::as_millis_f64),
            base64: json.is_none().then(|| base64::encode(payload)),
            payload: json,
        }
    }

    /// The payload.
    ///
    /// # Errors
    /// Where there is none.
    pub fn bytes(self) -> Result<Vec<u8>, String> {
        match (self.payload, self.base64) {
            (Some(json), None) => Ok(json.text().as_bytes().to_vec()),
            (None, Some(text)) => {
                base64::decode(&text).ok_or_else(|| "`base64` is not what RFC 4648 says".to_owned())
            }
            _ => Err("a message has `payload` (JSON) or `base64`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<MessageLine, String> {
        serde_json::from_str(line).map_err(|error: serde_json::Error| error.to_string())
    }

    #[test]
    fn messages_are_json_as_it_is_or_bytes_as_text() {
        let pretty = b"{\n \"b\": 1.50,\r\n \"a\": 9007199254740993}\n";
        let line = MessageLine::whole("lights", true, None, pretty);
        assert_eq!(line.payload.clone().unwrap().text(), r#"{  "b": 1.50,   "a": 9007199254740993}"#);
        let written = r#"{"channel":"lights","payload":{  "b": 1.50,   "a": 9007199254740993}}"#;
        assert_eq!(read(written), Ok(line));
        let line = MessageLine::whole("lights", true, Some(Duration::from_micros(1_500)), b"\xffno");
        assert_eq!(read(r#"{"channel":"lights","age_ms":1.5,"base64":"/25v"}"#), Ok(line.clone()));
        assert_eq!(line.bytes(), Ok(b"\xffno".to_vec()));
    }

    #[test]
    fn a_message_without_a_payload_and_a_field_that_is_none_are_refused() {
        let error = read(r#"{"channel":"battery","payloud":1}"#).unwrap_err();
        assert!(error.contains("payloud") && error.contains("base64"), "{error}");
        assert!(read(r#"{"channel":"battery"}"#).unwrap().bytes().is_err());
    }
}
