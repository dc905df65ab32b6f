//! Both ends of a control law in step over two lines, where each end may keep a message to itself or send a copy of it
//! over a second line: no clocks, no transport, no session.

use taut_agent::control::{
    Law, Message, Motion, OperatorEnd, Port, Quantity, RobotEnd, Surroundings, Worth, lasts,
};
use taut_agent::{RobotDevice, SetPoint};
use taut_core::{Duration, Rng, Seed, Time};
use taut_session::State;

use super::line::{Line, UnderWay};
use crate::demo::Vector;
use crate::robot::{SimulatedArm, SimulatedRobot};
use crate::scenario::Teleop;

/// What is lost on a line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// Of the messages, 0 to below 1.
    pub(crate) share: f64,
    /// Mean number of messages that are lost in a row, at least 1 (two states, all lost in one: Gilbert, *Capacity of a burst-noise
    /// channel*, Bell System Tech. J. 39(5), 1960). 0: each by itself.
    pub(crate) burst: f64,
}

/// Which messages are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Saving {
    /// All.
    Every,
    /// Which left the deadband of this fraction.
    Deadband(f64),
    /// Which left the deadband of this fraction, or whose holding cost this share of the reserve.
    Work(f64, f64),
}

/// Which of those that are sent go over a second line as well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Copies {
    /// None.
    None,
    /// Of a sender whose reserve is spent within this time.
    Spent(Duration),
    /// This share of them, by chance.
    Share(f64),
}

/// N and m/s, below which a deadband sends nothing; and its longest silence.
const FLOORS: [f64; 2] = [0.05, 0.001];
const KEEP_ALIVE: u64 = 100;

/// Hand, law, line and arm.
pub(crate) struct Ends<'a> {
    pub(crate) teleop: &'a Teleop,
    /// Between them; what is lost on it, `losses` says.
    pub(crate) line: Line,
    pub(crate) losses: Losses,
    pub(crate) saving: Saving,
    pub(crate) copies: Copies,
    pub(crate) seed: Seed,
}

/// After one period.
pub(crate) struct Moment {
    pub(crate) now: Time,
    pub(crate) hand: Motion,
    /// On the hand until now, N.
    pub(crate) felt: Vector,
    pub(crate) arm: Motion,
    /// Of the environment on the arm, N.
    pub(crate) met: Vector,
}

/// Messages of both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Messages {
    pub(crate) made: u64,
    pub(crate) sent: u64,
    pub(crate) copied: u64,
}

impl Ends<'_> {
    /// For so long. `hand` is told the force on it for a period, and says where it is after that; `None` where the arm does not move.
    pub(crate) fn run(
        &self,
        time: Duration,
        begins_at: Vector,
        mut hand: impl FnMut(Time, &Vector) -> Option<Motion>,
        mut each: impl FnMut(&Moment),
    ) -> Option<Messages> {
        let Teleop { period, watchdog, device_force, .. } = *self.teleop;
        let law = self.teleop.coupling().unwrap_or(Law::PositionForce);
        let servo = SimulatedRobot::SERVO;
        let mut operator = OperatorEnd::new(law, servo, period).limit_force(device_force);
        let mut robot = RobotEnd::new(law, servo, period);
        let mut arm = SimulatedArm::of_run(self.teleop, self.seed, begins_at);
        arm.enable().ok()?;
        let delay = self.line.there();
        let mut there = Way::new(self, Quantity::Velocity, "line/there", delay);
        let mut back = Way::new(self, Quantity::Force, "line/back", self.line.periods - delay);
        let mut measured = Surroundings::default();
        (measured.arm.position, measured.force) = (begins_at, [0.0; 3]);
        let (mut felt, mut begun) = ([0.0; 3], false);
        for step in 1..=time / period {
            let now = Time::ZERO + period * step;
            back.under_way.pop().iter().for_each(|(_, message)| operator.receive(message));
            let moved = hand(now, &felt)?;
            let output = operator.step(&moved)?;
            there.offer(now, &output.message, &output.port, output.reserve);
            if let Some((made, message)) = there.under_way.pop() {
                robot.receive(&message, now.saturating_since(made));
                begun = true;
            }
            let lead = robot.step(&measured)?;
            if begun {
                let single = |vector: Vector| vector.map(|part| part as f32);
                let Motion { position, velocity } = lead.reference;
                let state =
                    State { position: single(position), velocity: single(velocity), ..State::at(now) };
                arm.apply(&SetPoint { state, age: Duration::ZERO, lease: watchdog, fresh: Duration::MAX });
            }
            let state = arm.measure()?.state;
            let wide = |vector: [f32; 3]| vector.map(f64::from);
            measured = Surroundings {
                arm: Motion { position: wide(state.position), velocity: wide(state.velocity) },
                force: wide(state.force),
            };
            back.offer(now, &lead.message, &lead.port(), lead.reserve);
            each(&Moment { now, hand: moved, felt, arm: measured.arm, met: measured.force });
            felt = output.force;
        }
        let both = |of: fn(&Messages) -> u64| of(&there.messages) + of(&back.messages);
        Some(Messages {
            made: both(|way| way.made),
            sent: both(|way| way.sent),
            copied: both(|way| way.copied),
        })
    }
}

/// One way: which messages go, and what is under way, nothing where it was lost or kept.
struct Way {
    worth: Option<Worth>,
    copies: Copies,
    lines: [Lossy; 2],
    choice: Rng,
    under_way: UnderWay<(Time, Message)>,
    messages: Messages,
}

impl Way {
    fn new(ends: &Ends<'_>, quantity: Quantity, name: &str, delay: usize) -> Self {
        let floor = FLOORS[usize::from(quantity == Quantity::Velocity)];
        let deadband = |k| Worth::new(quantity, ends.teleop.period).weber(k, floor).keep_alive(KEEP_ALIVE);
        let worth = match ends.saving {
            Saving::Every => None,
            Saving::Deadband(k) => Some(deadband(k)),
            Saving::Work(k, eta) => Some(deadband(k).work(eta)),
        };
        let line = |part: &str| Lossy {
            losses: ends.losses,
            rng: ends.seed.stream(&format!("{name}{part}")),
            is_bad: false,
        };
        Self {
            worth,
            copies: ends.copies,
            lines: [line(""), line("/second")],
            choice: ends.seed.stream(&format!("{name}/copies")),
            under_way: UnderWay::new(delay, ends.line.spread, ends.seed.stream(&format!("{name}/late"))),
            messages: Messages::default(),
        }
    }

    /// A message is made, by an end with this port and so much left.
    fn offer(&mut self, now: Time, message: &Message, port: &Port, reserve: f64) {
        self.messages.made += 1;
        let lost = self.lines.each_mut().map(Lossy::is_lost);
        let chance = self.choice.fraction();
        let is_sent = self.worth.as_mut().is_none_or(|worth| worth.is_due(message, port, reserve));
        let is_copied = is_sent
            && match self.copies {
                Copies::None => false,
                Copies::Spent(time) => lasts(reserve, port) <= time,
                Copies::Share(share) => chance < share,
            };
        self.messages.sent += u64::from(is_sent);
        self.messages.copied += u64::from(is_copied);
        let arrives = is_sent && (!lost[0] || is_copied && !lost[1]);
        self.under_way.push(arrives.then_some((now, *message)));
    }
}

/// Loses messages, whether they are sent or not: what is kept shifts no luck.
struct Lossy {
    losses: Losses,
    rng: Rng,
    is_bad: bool,
}

impl Lossy {
    fn is_lost(&mut self) -> bool {
        let Losses { share, burst } = self.losses;
        let chance = self.rng.fraction();
        if burst < 1.0 {
            return chance < share;
        }
        let ends = 1.0 / burst;
        self.is_bad = if self.is_bad { chance >= ends } else { chance < ends * share / (1.0 - share) };
        self.is_bad
    }
}
