//! Where the two ends are.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use taut_io::ThreadOptions;
use taut_netlab::{Namespace, NamespaceError};

use crate::Outcome;

/// Two hosts, or one that speaks with itself.
pub(crate) enum Site {
    Loopback,
    /// Network namespaces, joined by a pair of Ethernet devices.
    Veth(Box<[Namespace; 2]>),
}

/// Which of the two ends; also the CPU that it is pinned to.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Client = 0,
    Server = 1,
}

impl Site {
    pub(crate) fn veth() -> Result<Self, NamespaceError> {
        let (a, b) = (Namespace::new()?, Namespace::new()?);
        Namespace::join((&a, "v0", "10.95.0.1/24"), (&b, "v0", "10.95.0.2/24"))?;
        Ok(Self::Veth(Box::new([a, b])))
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Veth(_) => "two namespaces, veth",
        }
    }

    fn at<R: Send>(&self, end: End, open: impl FnOnce() -> R + Send) -> Outcome<R> {
        match self {
            Self::Loopback => Ok(open()),
            Self::Veth(namespaces) => Ok(namespaces[end as usize].run(open)?),
        }
    }

    fn address(&self) -> IpAddr {
        match self {
            Self::Loopback => [127, 0, 0, 1].into(),
            Self::Veth(_) => [10, 95, 0, 2].into(),
        }
    }

    /// The client's socket and the server's, bound to all addresses as a session's are, and the server's address.
    pub(crate) fn sockets(&self) -> Outcome<(UdpSocket, UdpSocket, SocketAddr)> {
        let bind = || UdpSocket::bind("0.0.0.0:0");
        let (client, server) = (self.at(End::Client, bind)??, self.at(End::Server, bind)??);
        let remote = SocketAddr::new(self.address(), server.local_addr()?.port());
        Ok((client, server, remote))
    }

    pub(crate) fn listener(&self) -> Outcome<(TcpListener, SocketAddr)> {
        let listener = self.at(End::Server, || TcpListener::bind("0.0.0.0:0"))??;
        let remote = SocketAddr::new(self.address(), listener.local_addr()?.port());
        Ok((listener, remote))
    }

    /// Where something at the server's host is.
    pub(crate) fn to_the_server(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(), port)
    }

    /// Opens something that belongs to the server's host.
    pub(crate) fn at_the_server<R: Send>(&self, open: impl FnOnce() -> R + Send) -> Outcome<R> {
        self.at(End::Server, open)
    }

    /// Opens something that belongs to the client's host.
    pub(crate) fn at_the_client<R: Send>(&self, open: impl FnOnce() -> R + Send) -> Outcome<R> {
        self.at(End::Client, open)
    }
}

impl End {
    /// To a CPU of its own, where there are two.
    pub(crate) fn pin(self) {
        if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
            // A warning would change nothing in what is compared.
            let _ = ThreadOptions::new().cpu(self as usize).apply();
        }
    }
}
