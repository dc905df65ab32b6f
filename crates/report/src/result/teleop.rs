//! What became of a teleoperation session.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use taut_qos::rendering::Critical;

use super::Direction;
use super::Distribution;
use super::FeltResult;

/// A session of operator and robot, seen from outside.
///
/// `made = applied + dropped + refused + lost + in_flight`, for each stream and in all. One-way latency, jitter and loss
/// of states are those of the medium `forward haptic`, feedback's those of `backward haptic`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeleopResult {
    /// `"quic"`.
    pub transport: String,
    /// Which ends had devices of a program's own, `operator` and `robot`; absent when hand and arm were the simulated ones. Then what the
    /// devices said themselves is measured, and `touch` is absent: only the simulated two are known well enough to judge it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_devices: Vec<String>,
    /// From the first packet to the connected transport at the operator, in milliseconds; absent when it never was.
    pub handshake_ms: Option<f64>,
    /// Until operator and robot knew each other, in milliseconds.
    pub opened_ms: Option<f64>,
    /// Until the first state was at the robot, in milliseconds.
    pub first_state_ms: Option<f64>,
    /// The handshake once more between the same two, which remember the first time: QUIC's session tickets. Absent where
    /// nothing is remembered.
    pub resumed_handshake_ms: Option<f64>,
    /// Then, until operator and robot knew each other.
    pub resumed_opened_ms: Option<f64>,
    /// Then, until the first state was at the robot.
    pub resumed_first_state_ms: Option<f64>,
    /// Until the robot moved for the first time, in milliseconds.
    pub moved_ms: Option<f64>,
    /// When the session ended by itself, in virtual seconds; absent when it did not.
    pub closed_s: Option<f64>,
    /// States that the device made, and those that it would have made until the scenario's end where the session was given up or never opened.
    pub made: u64,
    /// Of these, that arrived at the robot.
    pub arrived: u64,
    /// arrived / made, per cent; absent when none was to be made.
    pub delivered_percent: Option<f64>,
    /// The states by stream; those with any.
    pub streams: Vec<StreamResult>,
    /// From a state's sending to its acknowledgement, in milliseconds; absent when none was acknowledged.
    pub rtt_ms: Option<Distribution>,
    /// Mean absolute difference of consecutive round trips, in milliseconds.
    pub rtt_jitter_ms: Option<f64>,
    /// What went over the wire, forward and backward, in the whole run.
    pub wire: [WireResult; 2],
    /// The channels of the scenario, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelResult>,
    /// Every press of the emergency stop.
    pub emergencies: Vec<EmergencyResult>,
    /// Every time that the watchdog stopped the robot while the operator sent.
    pub watchdogs: Vec<WatchdogResult>,
    /// How often the robot began to move.
    pub resumed: u64,
    /// The rate that the session was held to at the end, states per second.
    pub allowed_hz: f64,
    /// How far the robot's estimate of the operator's clock was off at the end, in milliseconds.
    pub clock_error_ms: Option<f64>,
    /// How far it said that it may be off.
    pub clock_uncertainty_ms: Option<f64>,
    /// Hand and arm; absent when the robot never moved.
    pub control: Option<ControlResult>,
}

/// The states of one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// `"high"`, `"normal, even"`.
    pub name: String,
    /// Made.
    pub made: u64,
    /// Arrived at the robot, once or more.
    pub arrived: u64,
    /// Given to the arm.
    pub applied: u64,
    /// Sent, and never arrived although newer ones did.
    pub lost: u64,
    /// Sent, newer than all that arrived, and not there when the run ended; or waiting in a slow robot.
    pub in_flight: u64,
    /// Dropped at the operator, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Arrived and not applied, by cause.
    pub refused: BTreeMap<String, u64>,
    /// Arrived at or beyond their deadline, warm-up included.
    pub late: u64,
    /// Further copies that arrived.
    pub duplicates: u64,
    /// Arrived after newer ones.
    pub reordered: u64,
    /// From creation to arrival, in milliseconds.
    pub one_way_ms: Option<Distribution>,
    /// Mean absolute difference of consecutive latencies, in milliseconds.
    pub jitter_ms: Option<f64>,
}

/// The messages of one channel: `made = delivered + dropped + lost`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelResult {
    /// Its name.
    pub name: String,
    /// Which way.
    pub direction: Direction,
    /// `"newest"`, `"deadline"` or `"reliable"`.
    pub delivery: String,
    /// Messages that its sender made.
    pub made: u64,
    /// Of these, that were given to the receiver's device.
    pub delivered: u64,
    /// Dropped at either end, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Lost on the network, or under way at the end.
    pub lost: u64,
    /// Bytes of those that were delivered.
    pub bytes: u64,
    /// Of those that were made after the warm-up, bits delivered per second in which states were made. Absent in older results, and where no states were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_bps: Option<f64>,
    /// How old they were then, in milliseconds.
    pub age_ms: Option<Distribution>,
}

/// One direction of a session on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireResult {
    /// Packets that the end sent.
    pub packets: u64,
    /// Their bytes, all headers included.
    pub bytes: u64,
    /// Bytes of states (feedback) and of messages of channels that arrived, each once.
    pub payload: u64,
    /// payload / bytes, per cent; absent when nothing was sent.
    pub efficiency_percent: Option<f64>,
    /// Bits sent per second in which states were made, after the warm-up; over real sockets, all that were sent before the scenario's end by these seconds. What
    /// is repeated after the last state is left out. Absent in older results, and where no states were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bps: Option<f64>,
    /// The same of the payload that was made then and arrived, whenever it arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bps: Option<f64>,
}

impl WireResult {
    /// Application bytes delivered of wire bytes sent, while states were made.
    pub fn efficiency(&self) -> Option<f64> {
        let sent = self.sent_bps.filter(|bps| *bps > 0.0)?;
        Some(self.payload_bps? / sent)
    }
}

/// One press of the emergency stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmergencyResult {
    /// When it was pressed, in virtual seconds.
    pub pressed_s: f64,
    /// Until the robot stood, in milliseconds.
    pub stopped_ms: Option<f64>,
    /// Until the operator knew, in milliseconds.
    pub acknowledged_ms: Option<f64>,
    /// Of it, what the packets that carried stop and acknowledgement took through the network: their round trip. Absent where the press before was not
    /// acknowledged yet: the packets were under way already.
    pub network_ms: Option<f64>,
    /// Of it, what these packets waited behind others of the session, where it would have waited without other traffic as
    /// well. The packet in service does not count. 0 on links whose rate is not constant.
    pub own_queue_ms: Option<f64>,
    /// States that waited at the operator when it was pressed.
    pub waiting: u64,
}

impl TeleopResult {
    /// With how stiff what is touched might be, by theory.
    pub fn beside(mut self, critical: Option<TouchCritical>) -> Self {
        if let Some(touch) = self.control.as_mut().and_then(|control| control.touch.as_mut()) {
            touch.critical = critical;
        }
        self
    }
}

impl EmergencyResult {
    /// The round trip of the path at that moment, with the queue that others made and without the session's own, in
    /// milliseconds.
    pub fn path_ms(&self) -> Option<f64> {
        Some(self.network_ms? - self.own_queue_ms?)
    }

    /// What operator, robot and their transports added to the round trip of the path, by their own queue in the network
    /// and elsewhere, in milliseconds.
    pub fn added_ms(&self) -> Option<f64> {
        Some(self.acknowledged_ms? - self.path_ms()?)
    }
}

/// One stop by the watchdog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchdogResult {
    /// When, in virtual seconds.
    pub stopped_s: f64,
    /// Since the robot was last given a state, or was resumed, in milliseconds.
    pub silence_ms: f64,
}

/// Hand and arm while the robot moved, warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlResult {
    /// What the arm touched: `"wall"`; `"its own"` where the arm is a program's own.
    pub environment: String,
    /// How long the robot moved, in seconds.
    pub moved_s: f64,
    /// Distance of device and arm at one time, root mean square, in millimetres.
    pub tracking_rms_mm: f64,
    /// The largest.
    pub tracking_max_mm: f64,
    /// Difference of the force on the hand and the force on the arm at one time, root mean square, in newtons; absent
    /// when no force comes back.
    pub force_error_rms_n: Option<f64>,
    /// The largest.
    pub force_error_max_n: Option<f64>,
    /// The largest force on the arm, in newtons.
    pub force_max_n: f64,
    /// How often the arm began to touch something: what bounces, apart for less than 0.25 s, is one contact.
    pub contacts: u64,
    /// For how long it did, in seconds.
    pub contact_s: f64,
    /// The device's largest speed, in metres per second.
    pub speed_max_m_s: f64,
    /// The first value of hand or arm that was no number, and when: nothing after it was measured, and the run fails.
    pub failure: Option<String>,
    /// What is felt of it; absent where there is nothing to touch, or no force comes back.
    pub touch: Option<TouchResult>,
    /// What a led hand felt; absent where it is not led, or not for long enough, where the arm is the caller's own, and where more than 5 % of its periods were missed by a late host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub felt: Option<FeltResult>,
    /// The same without a network: of the same hand, law and arm, a period apart, at the same number of states and forces a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub felt_twin: Option<FeltResult>,
}

/// How what the arm touches feels in the hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TouchResult {
    /// While the hand pressed and held still, the force rippled by less than 7 % of its mean and did not grow. Absent when the hand
    /// never rested on anything for long enough, or felt less than half of it.
    pub calm: Option<bool>,
    /// The force neither rippled so nor grew, whether or not the hand felt any of it. Absent when the hand never rested on anything for long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<bool>,
    /// Force ripple of 2 to 50 Hz on the arm in the second half of the rests, root mean square, per cent of the mean force.
    pub ripple_percent: Option<f64>,
    /// How many times as large the ripple was in the second half of the rests as in the first.
    pub growth: Option<f64>,
    /// Mean force on the arm in the second half of the rests, in newtons.
    pub rest_force_n: Option<f64>,
    /// Mean force on the hand in the second half of the rests, in newtons.
    pub rest_felt_n: Option<f64>,
    /// How long the second halves of the rests were together, in seconds.
    pub rest_s: f64,
    /// The round trip from which on what is touched rattles, in milliseconds: the margin of hand, arm and surface, of which the
    /// network knows nothing. Absent where no delay makes it rattle, and where that is not known.
    pub critical_rtt_ms: Option<f64>,
    /// That margin is not known: no linear model has the surface, whose hysteresis is above 0 and below a tenth.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub margin_unknown: bool,
    /// How stiff it might be over the delay of this run; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<TouchCritical>,
    /// The most that hand and environment got back within one contact of what they had put in, in millijoules. A passive arm gives
    /// back what its mass and its servo hold, some 10 mJ; what is beyond, delay made. Hand and arm are where their encoders say.
    pub drawdown_mj: f64,
    /// What hand and environment put in, in all, in millijoules.
    pub energy_mj: f64,
}

/// How stiff what is touched might be at the round trip of a run, by theory. Each number is of position–force control, or of a simpler world.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TouchCritical {
    /// The round trip: the medians of what states and forces took, in milliseconds.
    pub rtt_ms: f64,
    /// The least stiffness with which the delayed loop of hand, arm and surface has a root on the right, a period later, in newtons per metre: a surface that is
    /// as stiff rattles by position–force control. Absent where none up to 20 kN/m does, and where no linear model has the surface: its hysteresis is above
    /// 0 and below a tenth.
    pub margin_n_m: Option<f64>,
    /// What simpler worlds say.
    pub simpler: Critical,
}
