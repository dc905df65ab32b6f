//! What an emulator reads packets of, and writes them to.

use std::io;
use std::os::fd::AsFd;

/// One end of an emulated network. Packets are whole IP packets. Its descriptor is readable while a packet waits.
pub trait Port: AsFd + Send + 'static {
    /// The next packet that this end sends, without waiting; 0 bytes long when there is none.
    ///
    /// # Errors
    /// What the system says: the emulator ends.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Gives this end a packet.
    ///
    /// # Errors
    /// When it is none any more, a bit having been flipped, or the system does not take it.
    fn write(&mut self, packet: &[u8]) -> io::Result<()>;
    /// Packets that this end sent and that were dropped before they could be read.
    fn overruns(&self) -> u64;
    /// Errors that the network told of packets written to this end: nobody listens there, or one is too long for the path. Default: it
    /// tells of none.
    fn errors(&self) -> u64 {
        0
    }
}
