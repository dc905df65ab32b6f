//! What a channel carries: messages of the user's own types.

use std::error::Error;

/// Why a message of yours cannot be written or read, or a device of yours does not do what it is told. Any error becomes one by `?`.
pub type Failure = Box<dyn Error + Send + Sync>;

/// How the bytes of a payload are to be read.
pub use taut_session::Encoding;

/// What a message is, for both ends to compare: a channel opens only when they say the same.
///
/// ```
/// use taut::{Encoding, Schema};
/// const LAMP: Schema = Schema::new("example.Lamp", Encoding::Raw).definition("one byte: 0 off, 1 on");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    name: &'static str,
    encoding: Encoding,
    definition: &'static str,
}

impl Schema {
    /// By a name of 1 to 64 bytes, as `sensor_msgs/msg/JointState`.
    pub const fn new(name: &'static str, encoding: Encoding) -> Self {
        Self { name, encoding, definition: "" }
    }

    /// The text that defines it. Where it differs between the ends, the channel stays closed. Default: none.
    pub const fn definition(mut self, text: &'static str) -> Self {
        self.definition = text;
        self
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn declared(&self) -> taut_session::Schema {
        taut_session::Schema::new(self.name, self.encoding).definition(self.definition)
    }
}

/// A type that channels carry.
///
/// With the feature `json`, a type of serde's is one by `Json`, in one line. `Vec<u8>` is one as it is.
///
/// ```
/// use taut::{Encoding, Failure, Message, Schema};
///
/// struct Lamp(bool);
///
/// impl Message for Lamp {
///     const SCHEMA: Schema = Schema::new("example.Lamp", Encoding::Raw);
///     fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), Failure> {
///         bytes.push(self.0.into());
///         Ok(())
///     }
///     fn decode(bytes: &[u8]) -> Result<Self, Failure> {
///         match bytes {
///             [0] => Ok(Self(false)),
///             [1] => Ok(Self(true)),
///             _ => Err("a lamp is one byte, 0 or 1".into()),
///         }
///     }
/// }
/// ```
pub trait Message: Sized + Send + 'static {
    /// Both ends have the same.
    const SCHEMA: Schema;

    /// Appends its bytes.
    ///
    /// # Errors
    /// When it has none. Nothing is sent then.
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), Failure>;

    /// Reads its bytes. They come from a peer that is trusted, and may be anything all the same.
    ///
    /// # Errors
    /// When they are none of this type.
    fn decode(bytes: &[u8]) -> Result<Self, Failure>;
}

/// Any bytes.
impl Message for Vec<u8> {
    const SCHEMA: Schema = Schema::new("bytes", Encoding::Raw);

    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), Failure> {
        bytes.extend_from_slice(self);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, Failure> {
        Ok(bytes.to_vec())
    }
}

/// Makes a type of serde's a [`Message`], as JSON.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Battery {
///     percent: u8,
/// }
///
/// impl taut::Json for Battery {
///     const NAME: &'static str = "example.Battery";
/// }
/// # use taut::Message;
/// # let mut bytes = Vec::new();
/// # Battery { percent: 87 }.encode(&mut bytes).unwrap();
/// # assert_eq!(bytes, br#"{"percent":87}"#);
/// # assert_eq!(Battery::decode(&bytes).unwrap().percent, 87);
/// ```
#[cfg(feature = "json")]
pub trait Json: serde::Serialize + serde::de::DeserializeOwned + Send + 'static {
    /// Of its schema: 1 to 64 bytes, the same at both ends.
    const NAME: &'static str;
}

#[cfg(feature = "json")]
impl<T: Json> Message for T {
    const SCHEMA: Schema = Schema::new(T::NAME, Encoding::Json);

    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(serde_json::to_writer(bytes, self)?)
    }

    fn decode(bytes: &[u8]) -> Result<Self, Failure> {
        Ok(serde_json::from_slice(bytes)?)
    }
}
