//! Who an end is.

use std::fmt;

use getrandom::SysRng;
use rand_core::UnwrapErr;
pub use taut_transport::identity::Fingerprint;

/// Who an end is: a secret, which is never sent. Others trust it by its [`Fingerprint`], which is no secret.
///
/// ```
/// let identity = taut::Identity::generate();
/// println!("trust this one: {}", identity.fingerprint());
/// ```
#[derive(Clone)]
pub struct Identity(pub(crate) taut_transport::identity::Identity);

impl Identity {
    /// A new one.
    ///
    /// # Panics
    /// Where the operating system has no randomness (getrandom(2) fails).
    pub fn generate() -> Self {
        Self(taut_transport::identity::Identity::generate(&mut UnwrapErr(SysRng)))
    }

    /// The one with this secret of 32 bytes, from wherever you keep it.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        Self(taut_transport::identity::Identity::from_bytes(secret))
    }

    /// The one in this file, which is made when there is none: readable by its owner alone, in a folder that only its owner can write in.
    /// From then on this process leaves no core dumps, for it holds a secret.
    ///
    /// # Errors
    /// When the file is something else, can be read by others, or cannot be made.
    #[cfg(feature = "sockets")]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self, crate::Error> {
        let path = std::path::absolute(path.as_ref())
            .map_err(|error| crate::Error::System(format!("{}: {error}", path.as_ref().display())))?;
        let read = taut_io::identity::read_or_make(&path);
        let (identity, _) =
            read.map_err(|error| crate::Error::System(format!("{}: {error}", path.display())))?;
        Ok(Self(identity))
    }

    /// What others trust it by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint()
    }
}

/// Without the secret.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
