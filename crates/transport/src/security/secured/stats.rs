//! What was counted.

/// What went through a [`Secured`](super::Secured), in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecuredStats {
    /// Datagrams of the transport inside that were sealed.
    pub sealed: u64,
    /// Datagrams of the transport inside that were authentic and new.
    pub opened: u64,
    /// Handshakes whose keys were used.
    pub handshakes: u64,
    /// Of those, handshakes that continued a conversation.
    pub rekeys: u64,
    /// Refused: not authentic, from nobody who is trusted, from a second operator, or beyond the limit of handshakes.
    pub unauthenticated: u64,
    /// Refused: authentic, or claiming to be, but seen before or too old to tell.
    pub replayed: u64,
    /// Refused: not a datagram of this protocol.
    pub malformed: u64,
    /// Of the unauthenticated, initiations from a trusted peer while another one had the robot. At the operator: how
    /// often the robot said so.
    pub busy: u64,
    /// Of the unauthenticated, initiations beyond [`SecurityConfig::handshakes_per_second`](crate::security::SecurityConfig::handshakes_per_second), which were not looked into.
    pub limited: u64,
    /// Of those, how often the sender was asked to show that it is at its address. At the operator: how often it was asked.
    pub challenged: u64,
    /// Initiations of those who take a robot for a proxy, or the other way round. At the operator: how often it was told so.
    pub other_service: u64,
    /// How often the peer moved to another path, and answered there what it was asked.
    pub moved: u64,
    /// With several paths. Of the unauthenticated: authentic, but from where the peer has not been shown to be.
    pub unvalidated: u64,
    /// Datagrams of the transport inside for a path on which the peer has not been shown to be, and that were not sent.
    pub no_path: u64,
}
