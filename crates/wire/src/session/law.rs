//! By which control law an end is coupled.

use std::fmt;

use super::{Error, code_at, codes, u32_at};

codes! {
    /// A control law that both ends have to go by.
    LawKind {
        /// Each end follows the other by a spring and a damper.
        PositionPosition = 1 "position_position",
        /// Wave variables.
        Wave = 2 "wave",
        /// Time-domain passivity.
        Tdpa = 3 "tdpa",
    }
}

/// By which control law an end is coupled, as far as both ends have to be alike: between the rest of the hello of such an end and its channels.
///
/// | bytes | field | unit |
/// | --- | --- | --- |
/// | 0 | kind | |
/// | 1–4, 5–8 | stiffness and damping of the arm's controller | mN/m, mN·s/m |
/// | 9–12, 13–16 | the same of how it is turned; 0 where that is not coupled | mN·m/rad, mN·m·s/rad |
/// | 17–20 | impedance of waves; 0 of other laws | mN·s/m |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLaw {
    /// Which.
    pub kind: LawKind,
    /// Stiffness and damping of the arm's controller, mN/m and mN·s/m.
    pub servo: [u32; 2],
    /// The same of how it is turned, mN·m/rad and mN·m·s/rad; 0 where that is not coupled.
    pub turning_servo: [u32; 2],
    /// Of waves, mN·s/m; 0 of other laws.
    pub impedance: u32,
}

impl ControlLaw {
    /// Bytes that it takes.
    pub const LEN: usize = 21;

    pub(super) fn parse_at(bytes: &[u8], at: usize) -> Result<Self, Error> {
        Ok(Self {
            kind: code_at(bytes, at, LawKind::from_code)?,
            servo: [u32_at(bytes, at + 1), u32_at(bytes, at + 5)],
            turning_servo: [u32_at(bytes, at + 9), u32_at(bytes, at + 13)],
            impedance: u32_at(bytes, at + 17),
        })
    }

    pub(super) fn emit(&self, buffer: &mut Vec<u8>) {
        buffer.push(self.kind.code());
        let numbers = self.servo.iter().chain(&self.turning_servo).chain([&self.impedance]);
        numbers.for_each(|number| buffer.extend_from_slice(&number.to_be_bytes()));
    }
}

impl fmt::Display for ControlLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |number: u32| f64::from(number) / 1e3;
        let [stiffness, damping] = self.servo.map(of);
        write!(f, "`{}` with a servo of {stiffness} N/m and {damping} N·s/m", self.kind.name())?;
        if self.turning_servo != [0; 2] {
            let [stiffness, damping] = self.turning_servo.map(of);
            write!(f, ", turning {stiffness} N·m/rad and {damping} N·m·s/rad")?;
        }
        if self.impedance != 0 {
            write!(f, ", impedance {} N·s/m", of(self.impedance))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAVE: ControlLaw = ControlLaw {
        kind: LawKind::Wave,
        servo: [3_000_000, 45_000],
        turning_servo: [30_000, 450],
        impedance: 30_000,
    };

    #[test]
    fn ends_of_different_laws_are_told_both_in_words() {
        let tdpa = ControlLaw { kind: LawKind::Tdpa, turning_servo: [0; 2], impedance: 0, ..WAVE };
        let says = |theirs, ours| Error::OtherLaw { theirs, ours }.to_string();
        let said = says(Some(tdpa), Some(WAVE));
        assert!(
            said.starts_with("this end is coupled by `wave` with a servo of 3000 N/m and 45 N·s/m"),
            "{said}"
        );
        assert!(
            said.contains(
                "turning 30 N·m/rad and 0.45 N·m·s/rad, impedance 30 N·s/m, and the peer by `tdpa`"
            ),
            "{said}"
        );
        assert!(says(None, Some(tdpa)).contains("the peer by none"));
    }
}
