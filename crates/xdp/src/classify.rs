//! Which packets on a device the gate looks at.

use std::fmt;
use std::net::IpAddr;

use taut_link::frame_gate::Filter;
use taut_wire::rtp::Codec;

/// Filters that the program has places for.
pub const MAX_FILTERS: usize = 4;
/// Words of a filter in the map: `struct filter`.
pub(crate) const FILTER_WORDS: usize = 6;

/// Which packets on a device are video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoFilter {
    filter: Filter,
    address: Option<IpAddr>,
}

impl VideoFilter {
    /// RTP that `filter` takes, to any address.
    pub const fn new(filter: Filter) -> Self {
        Self { filter, address: None }
    }

    /// Only to this address. Default: to any.
    pub const fn to(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    pub(crate) const fn codec(&self) -> Codec {
        self.filter.video_codec()
    }

    pub(crate) fn words(&self) -> [u64; FILTER_WORDS] {
        let codec = Codec::ALL.iter().position(|codec| *codec == self.filter.video_codec());
        let (family, high, low) = match self.address {
            None => (0, 0, 0),
            Some(IpAddr::V4(address)) => (4, 0, u64::from(u32::from(address))),
            Some(IpAddr::V6(address)) => {
                let bits = u128::from(address);
                (6, (bits >> 64) as u64, bits as u64)
            }
        };
        let payload_type = self.filter.only_type().map_or(0, |only| u64::from(only) + 1);
        [u64::from(self.filter.udp_port()), payload_type, codec.unwrap_or_default() as u64, family, high, low]
    }
}

/// As it is named on the command line: `udp:10.0.0.2:5004,codec=h264,payload-type=97`. What is not said is any address, VP8, any
/// payload type.
impl fmt::Display for VideoFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("udp:")?;
        match self.address {
            None => {}
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
        }
        write!(f, "{}", self.filter.udp_port())?;
        match self.filter.video_codec() {
            Codec::Vp8 => {}
            codec => write!(f, ",codec={}", codec.name())?,
        }
        self.filter.only_type().map_or(Ok(()), |only| write!(f, ",payload-type={only}"))
    }
}
