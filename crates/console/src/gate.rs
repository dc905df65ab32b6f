//! Which requests are served. Sans-IO.
//!
//! A page of another site can make a browser send requests to loopback, and by DNS can give its own name this address: the names that a request
//! has for host and origin tell (`Host`, `Origin`), and a token that only this start's page knows.

/// The subprotocol of the WebSocket; the token is a second one (RFC 6455 section 4.2.2 lets the server pick the first).
pub const PROTOCOL: &str = "taut.console.1";
/// Bytes of a request at most.
pub const REQUEST: usize = 8_192;

/// What is served.
#[derive(Debug)]
pub struct Gate {
    port: u16,
    token: String,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A file.
    File(String),
    /// To speak with the session.
    Session {
        /// Of the WebSocket.
        key: String,
        /// To stop the robot, and for nothing else.
        aside: bool,
    },
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no GET of HTTP/1.1.
    Malformed,
    /// It is for another host.
    Host,
    /// Another site's page asks.
    Origin,
    /// It does not know the token of this start.
    Token,
}

impl Refused {
    /// Its status line, and what to do.
    pub const fn answer(self) -> (&'static str, &'static str) {
        match self {
            Self::Malformed => ("400 Bad Request", "this is no request that a browser makes"),
            Self::Host => ("421 Misdirected Request", "open the address that taut console prints"),
            Self::Origin => ("403 Forbidden", "another site's page asks for this console"),
            Self::Token => {
                ("403 Forbidden", "the token is another start's: open the address that taut console prints")
            }
        }
    }
}

impl Gate {
    /// For a gateway that listens on `port`.
    pub fn new(port: u16, token: u128) -> Self {
        Self { port, token: format!("{token:032x}") }
    }

    /// Where the page is. What stands in a fragment is not sent to anybody.
    pub fn url(&self) -> String {
        // Not by a name, which may be ::1 here: there somebody else may listen, and be told the token.
        format!("http://127.0.0.1:{}/#{}", self.port, self.token)
    }

    /// `head`: a request up to its empty line.
    ///
    /// # Errors
    /// When it is not to be served.
    pub fn check(&self, head: &str) -> Result<Asked, Refused> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some("GET"), Some(path), Some("HTTP/1.1"), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Refused::Malformed);
        };
        let fields: Vec<(&str, &str)> =
            lines.filter_map(|line| line.split_once(':')).map(|(key, value)| (key, value.trim())).collect();
        let field = |name: &str| {
            let mut found = fields.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            // Of two, nobody knows which one counts.
            found.next().filter(|_| found.next().is_none()).map(|(_, value)| *value)
        };
        let host = field("host").filter(|host| self.is_own(host)).ok_or(Refused::Host)?;
        let origin = field("origin");
        if origin.is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
            return Err(Refused::Origin);
        }
        let aside = match path {
            "/session" => false,
            "/stop" => true,
            _ => return Ok(Asked::File(path.to_owned())),
        };
        let (Some(key), Some("13"), Some(protocols)) =
            (field("sec-websocket-key"), field("sec-websocket-version"), field("sec-websocket-protocol"))
        else {
            return Err(Refused::Malformed);
        };
        match protocols.split(',').map(str::trim).collect::<Vec<_>>()[..] {
            [PROTOCOL, token] => {
                self.admit(origin, token).map(|()| Asked::Session { key: key.to_owned(), aside })
            }
            _ => Err(Refused::Token),
        }
    }

    /// Whoever asks to speak with the session, over whatever carries that, is a page that was served here, and knows the token.
    ///
    /// # Errors
    /// When it is not.
    pub fn admit(&self, origin: Option<&str>, token: &str) -> Result<(), Refused> {
        if !origin.and_then(|origin| origin.strip_prefix("http://")).is_some_and(|host| self.is_own(host)) {
            return Err(Refused::Origin);
        }
        if !is_same(token.as_bytes(), self.token.as_bytes()) {
            return Err(Refused::Token);
        }
        Ok(())
    }

    fn is_own(&self, host: &str) -> bool {
        ["localhost", "127.0.0.1"].iter().any(|name| host == format!("{name}:{}", self.port))
    }
}

/// In a time that does not tell where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(host: &str, origin: &str, token: &str) -> Result<Asked, Refused> {
        let gate = Gate::new(4480, 0xab);
        gate.check(&format!(
            "GET /session HTTP/1.1\r\nHost: {host}\r\n{origin}Sec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Protocol: {PROTOCOL}, {token}"
        ))
    }

    #[test]
    fn only_its_own_page_with_the_token_of_this_start_speaks_with_the_session() {
        let (token, own) = (format!("{:032x}", 0xab), "Origin: http://localhost:4480\r\n");
        assert_eq!(
            session("localhost:4480", own, &token),
            Ok(Asked::Session { key: "k".to_owned(), aside: false })
        );
        for host in ["evil.example:4480", "localhost", "localhost:4481", "localhost:4480.evil.example"] {
            assert_eq!(session(host, own, &token), Err(Refused::Host), "{host}");
        }
        for origin in
            ["", "Origin: null\r\n", "Origin: http://evil.example\r\n", "Origin: https://localhost:4480\r\n"]
        {
            assert_eq!(session("localhost:4480", origin, &token), Err(Refused::Origin), "{origin}");
        }
        assert_eq!(session("127.0.0.1:4480", own, &token), Err(Refused::Origin), "of another name");
        for token in ["", "0", &token.to_uppercase(), &format!("{:032x}", 0xac)] {
            assert_eq!(session("localhost:4480", own, token), Err(Refused::Token), "{token}");
        }
    }

    #[test]
    fn a_page_that_is_spoken_with_elsewhere_is_one_that_was_served_here() {
        let (gate, token) = (Gate::new(4480, 0xab), format!("{:032x}", 0xab));
        for own in ["http://localhost:4480", "http://127.0.0.1:4480"] {
            assert_eq!(gate.admit(Some(own), &token), Ok(()));
            assert_eq!(gate.admit(Some(own), ""), Err(Refused::Token));
        }
        for other in [
            None,
            Some("null"),
            Some("https://localhost:4480"),
            Some("http://localhost"),
            Some("http://192.0.2.7:4480"),
        ] {
            assert_eq!(gate.admit(other, &token), Err(Refused::Origin), "{other:?}");
        }
    }

    #[test]
    fn files_are_for_this_host_alone_and_nothing_but_get_is_known() {
        let gate = Gate::new(4480, 1);
        let file = |head: &str| gate.check(head);
        assert_eq!(file("GET / HTTP/1.1\r\nHost: localhost:4480"), Ok(Asked::File("/".to_owned())));
        assert_eq!(file("GET / HTTP/1.1\r\nHost: evil.example"), Err(Refused::Host));
        assert_eq!(file("GET / HTTP/1.1"), Err(Refused::Host));
        let twice = "GET / HTTP/1.1\r\nHost: localhost:4480\r\nHost: localhost:4480";
        assert_eq!(file(twice), Err(Refused::Host));
        for head in ["", "POST / HTTP/1.1\r\nHost: localhost:4480", "GET / HTTP/1.0\r\nHost: localhost:4480"]
        {
            assert_eq!(file(head), Err(Refused::Malformed), "{head}");
        }
    }
}
