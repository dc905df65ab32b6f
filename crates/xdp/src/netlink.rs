//! One question of rtnetlink(7): the counters of a queueing discipline. The bytes of it, without a socket.

/// What a queueing discipline counts (`struct gnet_stats_basic`, `gnet_stats_queue`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QdiscStats {
    /// Its kind: `pfifo`, `fq_codel`, …
    pub kind: String,
    /// Bytes that left it, link-layer headers included.
    pub bytes: u64,
    /// Packets that left it, modulo 2³².
    pub packets: u32,
    /// Packets that wait.
    pub queue_length: u32,
    /// Bytes that wait.
    pub backlog: u32,
    /// Packets that it dropped, modulo 2³².
    pub drops: u32,
    /// Bytes that its size table adds to every packet (`stab overhead`, tc-stab(8)); 0 without one.
    pub overhead: i32,
}

/// Why there are no counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The kernel refused, with this error number (positive).
    #[error("error {0}")]
    Refused(i32),
    /// Not an answer to the question.
    #[error("an answer that is none")]
    Malformed,
}

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
/// The kernel announces what it found, and only who asks for an echo hears of it.
const NLM_F_ECHO: u16 = 8;
const NLMSG_HEADER: usize = 16;
const TCMSG: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STAB: u16 = 8;
const TCA_STAB_BASE: u16 = 1;
/// Where `struct tc_sizespec` has its overhead.
const OVERHEAD_AT: usize = 4;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

/// The question: which qdisc of the device `index` hangs at `parent`, or (with parent 0) has this `handle`?
pub(crate) fn qdisc_request(index: u32, parent: u32, handle: u32) -> Vec<u8> {
    let mut request = Vec::with_capacity(NLMSG_HEADER + TCMSG);
    request.extend(((NLMSG_HEADER + TCMSG) as u32).to_ne_bytes());
    request.extend(RTM_GETQDISC.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_ECHO).to_ne_bytes());
    request.extend([0; 8]); // sequence number, port
    request.extend([0; 4]); // family, padding
    for word in [index, handle, parent, 0] {
        request.extend(word.to_ne_bytes());
    }
    request
}

/// Reads the kernel's answer.
///
/// # Errors
/// See [`ReplyError`]; no input panics.
pub fn parse_qdisc_reply(reply: &[u8]) -> Result<QdiscStats, ReplyError> {
    let malformed = ReplyError::Malformed;
    let length = u32_at(reply, 0).ok_or(malformed)? as usize;
    let kind = u16_at(reply, 4).ok_or(malformed)?;
    let body = reply.get(NLMSG_HEADER..length).ok_or(malformed)?;
    if kind == NLMSG_ERROR {
        let error = u32_at(body, 0).ok_or(malformed)? as i32;
        return Err(ReplyError::Refused(error.saturating_neg()));
    }
    if kind != RTM_NEWQDISC {
        return Err(malformed);
    }
    let mut stats = QdiscStats::default();
    let mut counted = false;
    for (kind, value) in attributes(body.get(TCMSG..).ok_or(malformed)?) {
        match kind {
            TCA_KIND => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                stats.kind = String::from_utf8_lossy(name).into_owned();
            }
            TCA_STAB => {
                let base = attributes(value).find(|(kind, _)| *kind == TCA_STAB_BASE);
                stats.overhead = base.and_then(|(_, value)| u32_at(value, OVERHEAD_AT)).unwrap_or(0) as i32;
            }
            TCA_STATS2 => counted |= stats.read(value).is_some(),
            _ => {}
        }
    }
    if counted { Ok(stats) } else { Err(malformed) }
}

impl QdiscStats {
    fn read(&mut self, nested: &[u8]) -> Option<()> {
        let mut queue = None;
        for (kind, value) in attributes(nested) {
            match kind {
                TCA_STATS_BASIC => {
                    self.bytes = u64::from_ne_bytes(*value.first_chunk()?);
                    self.packets = u32_at(value, 8)?;
                }
                TCA_STATS_QUEUE => {
                    let [length, backlog, drops] = [0, 4, 8].map(|at| u32_at(value, at));
                    (self.queue_length, self.backlog, self.drops) = (length?, backlog?, drops?);
                    queue = Some(());
                }
                _ => {}
            }
        }
        queue
    }
}

/// Kind and value of each attribute (`struct rtattr`); what comes after one with a wrong length is not looked at.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        // The two highest bits are flags.
        let kind = u16_at(bytes, 2)? & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((4 + value.len() as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((NLMSG_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn reply() -> Vec<u8> {
        let mut basic = 123_456_789_012_u64.to_ne_bytes().to_vec();
        basic.extend(77u32.to_ne_bytes());
        let queue: Vec<u8> = [3u32, 4_000, 5, 6, 7].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut stats = attribute(TCA_STATS_BASIC, &basic);
        stats.extend(attribute(TCA_STATS_QUEUE, &queue));
        let mut body = vec![0; TCMSG];
        body.extend(attribute(TCA_KIND, b"tbf\0"));
        body.extend(attribute(TCA_STATS2, &stats));
        let size: Vec<u8> = [0, -14, 1, 0, 0, 0].iter().flat_map(|word: &i32| word.to_ne_bytes()).collect();
        body.extend(attribute(TCA_STAB, &attribute(TCA_STAB_BASE, &size)));
        message(RTM_NEWQDISC, &body)
    }

    #[test]
    fn the_question_is_that_of_linux_rtnetlink_h() {
        let request = qdisc_request(7, 0xffff_ffff, 0);
        let mut golden = Vec::new();
        for word in [36u32, 0x0009_0026, 0, 0, 0, 7, 0, 0xffff_ffff, 0] {
            golden.extend(word.to_le_bytes());
        }
        if cfg!(target_endian = "little") {
            assert_eq!(request, golden);
        }
    }

    #[test]
    fn the_answer_is_read() {
        let stats = QdiscStats {
            kind: "tbf".to_owned(),
            bytes: 123_456_789_012,
            packets: 77,
            queue_length: 3,
            backlog: 4_000,
            drops: 5,
            overhead: -14,
        };
        assert_eq!(parse_qdisc_reply(&reply()), Ok(stats));
    }

    #[test]
    fn refusals_and_truncations_are_errors() {
        let refusal = message(NLMSG_ERROR, &(-19i32).to_ne_bytes());
        assert_eq!(parse_qdisc_reply(&refusal), Err(ReplyError::Refused(19)));
        let reply = reply();
        for len in 0..reply.len() {
            assert_eq!(parse_qdisc_reply(&reply[..len]), Err(ReplyError::Malformed), "{len}");
            // Also when the length says that this is all.
            let mut shorter = reply[..len].to_vec();
            if len >= 4 {
                shorter[..4].copy_from_slice(&(len as u32).to_ne_bytes());
                let _ = parse_qdisc_reply(&shorter);
            }
        }
    }
}
