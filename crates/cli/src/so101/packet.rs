//! Packets of the Feetech STS servos' bus, sans-IO: half-duplex, little-endian, one answers at a time.
//!
//! A request is `FF FF`, the servo (FE: all), the length of what follows, the instruction, its parameters, and a checksum: the complement of the sum
//! of all after `FF FF`. An answer has the servo's errors in place of the instruction. Source: Feetech, *Communication Protocol Manual*, and the
//! memory table of the STS3215.

/// Registers of an STS3215, and how many bytes each has.
pub(super) mod register {
    /// 1 byte: 1 holds its goal, 0 turns freely.
    pub(in super::super) const TORQUE_ENABLE: u8 = 40;
    /// 2 bytes: a step is 1/4096 turn; bit 15 is the sign.
    pub(in super::super) const GOAL_POSITION: u8 = 42;
    /// 2 bytes: the largest torque, in thousandths of the stall torque.
    pub(in super::super) const TORQUE_LIMIT: u8 = 48;
    /// 2 bytes each, one after the other: position, steps, and speed, steps/s, with their signs in bit 15; load, in thousandths of the stall torque,
    /// with its sign in bit 10.
    pub(in super::super) const PRESENT: u8 = 56;
}

/// Bytes from [`register::TORQUE_ENABLE`] on, up to the torque limit.
pub(super) const CONTROL_BYTES: usize = 10;
/// Bytes from [`register::PRESENT`] on.
pub(super) const PRESENT_BYTES: usize = 6;

const START: [u8; 2] = [0xff; 2];
const ALL: u8 = 0xfe;
const SYNC_READ: u8 = 0x82;
const SYNC_WRITE: u8 = 0x83;
/// An answer has a servo, a length, errors and a checksum besides its data.
const LEAST: usize = 6;
/// What is kept of what came at most: answers of all servos, twice.
const MOST: usize = 256;

/// Asks `servos` for `count` bytes from a register on; they answer one after the other, in this order.
pub(super) fn sync_read(register: u8, count: usize, servos: &[u8]) -> Vec<u8> {
    request(SYNC_READ, [&[register, count as u8], servos].concat())
}

/// Writes each servo's bytes, as many of each, from a register on; none answers.
pub(super) fn sync_write<const N: usize>(register: u8, values: &[(u8, [u8; N])]) -> Vec<u8> {
    let each = values.iter().flat_map(|(servo, bytes)| std::iter::once(*servo).chain(*bytes));
    request(SYNC_WRITE, [register, N as u8].into_iter().chain(each).collect())
}

fn request(instruction: u8, parameters: Vec<u8>) -> Vec<u8> {
    let mut body = vec![ALL, parameters.len() as u8 + 2, instruction];
    body.extend(parameters);
    let checksum = checksum(&body);
    [&START[..], &body, &[checksum]].concat()
}

fn checksum(body: &[u8]) -> u8 {
    !body.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
}

/// What a servo answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) servo: u8,
    pub(super) errors: u8,
    pub(super) data: Vec<u8>,
}

/// Finds answers in what comes; what is none is skipped, and counted.
#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: Vec<u8>,
    pub(super) skipped: u64,
}

impl Reader {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.skip(self.bytes.len().saturating_sub(MOST));
    }

    /// What came before belongs to another request.
    pub(super) fn clear(&mut self) {
        self.skip(self.bytes.len());
    }

    pub(super) fn pop(&mut self) -> Option<Answer> {
        loop {
            let start = self.bytes.windows(2).position(|pair| pair == START);
            self.skip(start.unwrap_or(self.bytes.len().saturating_sub(1)));
            let length = usize::from(*self.bytes.get(3)?);
            if length < LEAST - 4 {
                self.skip(1);
                continue;
            }
            let packet = self.bytes.get(..4 + length)?;
            let (body, sum) = (&packet[2..3 + length], packet[3 + length]);
            if checksum(body) == sum {
                let answer = Answer { servo: body[0], errors: body[2], data: body[3..].to_vec() };
                self.bytes.drain(..4 + length);
                return Some(answer);
            }
            self.skip(1);
        }
    }

    fn skip(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.skipped += count as u64;
    }
}

/// A number whose sign is a bit of its own.
pub(super) fn signed(bytes: [u8; 2], sign: u32) -> i32 {
    let raw = i32::from(u16::from_le_bytes(bytes));
    let magnitude = raw & ((1 << sign) - 1);
    if raw >> sign & 1 == 1 { -magnitude } else { magnitude }
}

/// Errors of an answer, by their bits.
pub(super) fn errors(bits: u8) -> String {
    const NAMES: [&str; 6] = ["voltage", "sensor", "temperature", "current", "angle", "overload"];
    let named = (0..8).filter(|bit| bits >> bit & 1 == 1);
    let names: Vec<&str> =
        named.map(|bit: usize| NAMES.get(bit).copied().unwrap_or("unknown error")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feetech's manual has these bytes as examples: a synchronous write of position, time and speed to four servos, and one to two servos
    /// and its checksum by hand.
    #[test]
    fn requests_have_the_bytes_of_the_manual() {
        let each = [0x00, 0x08, 0x00, 0x00, 0xe8, 0x03];
        let wrote = sync_write(register::GOAL_POSITION, &[1, 2, 3, 4].map(|servo| (servo, each)));
        let mut expected = vec![0xff, 0xff, 0xfe, 0x20, 0x83, 0x2a, 0x06];
        for servo in 1..=4 {
            expected.push(servo);
            expected.extend(each);
        }
        expected.push(0x58);
        assert_eq!(wrote, expected);
        assert_eq!(
            sync_read(register::PRESENT, 8, &[1, 2]),
            [0xff, 0xff, 0xfe, 0x06, 0x82, 0x38, 0x08, 0x01, 0x02, 0x36]
        );
    }

    #[test]
    fn answers_are_found_between_noise_and_in_parts() {
        let mut reader = Reader::default();
        // Servo 1 is at 0x0518 and answers without an error.
        let answer = [0xff, 0xff, 0x01, 0x04, 0x00, 0x18, 0x05, 0xdd];
        let mut wrong = answer;
        wrong[7] = 0;
        reader.push(&[7, 0xff]);
        reader.push(&wrong);
        for byte in answer {
            assert_eq!(reader.pop(), None);
            reader.push(&[byte]);
        }
        assert_eq!(reader.pop(), Some(Answer { servo: 1, errors: 0, data: vec![0x18, 0x05] }));
        assert_eq!((reader.pop(), reader.skipped), (None, 10));
        reader.push(&[0xff; 10_000]);
        assert!(reader.bytes.len() <= MOST && reader.pop().is_none());
        reader.clear();
        reader.push(&answer);
        assert!(reader.pop().is_some());
    }

    #[test]
    fn signs_and_errors_have_bits_of_their_own() {
        assert_eq!((signed([0x18, 0x05], 15), signed([0x18, 0x85], 15)), (0x518, -0x518));
        assert_eq!((signed([0xe8, 0x03], 10), signed([0xe8, 0x07], 10)), (1_000, -1_000));
        assert_eq!(errors(0b10_0100), "temperature, overload");
    }
}
