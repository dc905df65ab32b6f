//! What a conversation is for.

taut_core::named! {
    /// What one end asks for and the other offers. Both go into the handshake, so that a proxy's peer cannot speak with a robot of
    /// the same identity that trusts it, nor the other way round.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Service {
        /// A session of an operator and a robot.
        #[default]
        Session = "session",
        /// Datagrams of other applications.
        Proxy = "proxy",
    }
}

impl Service {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Session => Self::Proxy,
            Self::Proxy => Self::Session,
        }
    }
}
