//! What the network does to the loop through hand and arm.

use taut_core::{Duration, Seed, Time};

use super::calm::Calm;
use super::led::Led;
use super::line::{self, Line};
use super::ports::Ports;
use crate::demo::Vector;
use crate::demo::operator::Intention;
use crate::hand::{intention, norm};
use crate::metrics::{Buckets, Moments, Watch};
use crate::scenario::Teleop;
use taut_report::result::{ControlResult, Series, TouchResult};

/// Newtons at which arm and environment touch.
const TOUCH: f64 = 0.05;

/// What an arm of the caller's own touches.
const OWN: &str = "its own";

/// Watches hand and arm.
pub(crate) struct Control {
    dt: f64,
    /// The hand: position, and the force that it is given.
    device: [Vector; 2],
    /// Which of them are the caller's own.
    own: [bool; 2],
    /// What the caller's own hand was given to feel.
    felt: Vector,
    /// What the simulated hand means to do, and until when it is known.
    intention: Intention,
    until: Option<Time>,
    moving: bool,
    ports: Ports,
    calm: Calm,
    tracking: Moments,
    tracking_squares: f64,
    force: Moments,
    force_squares: f64,
    largest_force: f64,
    fastest: f64,
    contact_steps: u64,
    steps: u64,
    failure: Option<String>,
    series: [Buckets; 4],
    /// Of a led hand.
    led: Option<Led>,
}

impl Control {
    pub(crate) fn new(teleop: &Teleop, seed: Seed, watch: Watch) -> Self {
        let dt = teleop.period.as_secs_f64();
        Self {
            dt,
            device: [[0.0; 3]; 2],
            own: [false; 2],
            felt: [0.0; 3],
            intention: intention(teleop, seed),
            until: None,
            moving: false,
            ports: Ports::default(),
            calm: Calm::new(dt),
            tracking: Moments::default(),
            tracking_squares: 0.0,
            force: Moments::default(),
            force_squares: 0.0,
            largest_force: 0.0,
            fastest: 0.0,
            contact_steps: 0,
            steps: 0,
            failure: None,
            series: std::array::from_fn(|_| watch.whole()),
            led: teleop.led.then(|| Led::new(teleop)),
        }
    }

    /// These ends have devices of the caller's own.
    pub(super) fn own(&mut self, ends: &[String]) {
        self.own = ["operator", "robot"].map(|end| ends.iter().any(|own| own == end));
    }

    /// The robot's force came to the hand, or nothing fresh is known of it.
    pub(super) fn feels(&mut self, force: Option<Vector>) {
        self.felt = force.unwrap_or_default();
    }

    /// The robot moves, or stands.
    pub(crate) fn moves(&mut self, moves: bool) {
        self.moving = moves;
    }

    /// The device made a step.
    pub(crate) fn device(&mut self, now: Time, position: Vector, velocity: Vector, force: Vector) {
        if self.fails(now, "the hand", [&position, &velocity, &force]) {
            return;
        }
        // Periods in which nobody asked it have passed as well.
        let passed = self.until.map_or(self.dt, |until| now.saturating_since(until).as_secs_f64());
        self.intention.pass(passed);
        self.until = Some(now);
        // A simulated hand says itself what pushes it.
        let force = if self.own[0] { self.felt } else { force };
        self.device = [position, force];
        if let Some(led) = &mut self.led {
            led.device(now, position[0], force[0]);
        }
        self.ports.device(position, force, norm(&force) > TOUCH);
        if self.moving {
            self.fastest = self.fastest.max(norm(&velocity));
        }
    }

    /// The arm made a step; `force` is that of the environment on it.
    pub(crate) fn arm(&mut self, now: Time, position: Vector, force: Vector) {
        if self.fails(now, "the arm", [&position, &[0.0; 3], &force]) {
            return;
        }
        let [felt, met] = [norm(&self.device[1]), norm(&force)];
        let touches = met > TOUCH;
        self.ports.arm(position, force, touches, self.dt);
        match &mut self.led {
            Some(led) => led.arm(position[0], force[0]),
            None => self.calm.record([met, felt], self.intention.rests().filter(|_| self.moving)),
        }
        self.series[1].record(now, self.ports.energy * 1e3);
        self.series[2].record(now, felt);
        self.series[3].record(now, met);
        if !self.moving {
            return;
        }
        self.steps += 1;
        self.contact_steps += u64::from(touches);
        let apart = |a: &Vector, b: &Vector| norm(&std::array::from_fn(|i| a[i] - b[i]));
        let (tracking, error) = (apart(&self.device[0], &position), apart(&self.device[1], &force));
        self.tracking.record(tracking);
        self.tracking_squares += tracking * tracking;
        self.force.record(error);
        self.force_squares += error * error;
        self.largest_force = self.largest_force.max(met);
        self.series[0].record(now, tracking * 1e3);
    }

    /// Position, velocity or force that is no number is named once, and nothing is measured any more.
    fn fails(&mut self, now: Time, whose: &str, values: [&Vector; 3]) -> bool {
        let wrong = ["position", "velocity", "force"].into_iter().zip(values);
        let mut wrong = wrong.filter(|(_, value)| !value.iter().all(|part| part.is_finite()));
        if self.failure.is_none()
            && let Some((name, _)) = wrong.next()
        {
            let at = now.as_nanos() as f64 / 1e9;
            self.failure = Some(format!("the {name} of {whose} is no finite number at {at:.3} s"));
        }
        self.failure.is_some()
    }

    /// `None` when the robot never moved, and nothing failed.
    pub(crate) fn to_result(&self, teleop: &Teleop) -> Option<ControlResult> {
        let feels = teleop.feedback > 0;
        let rms = |squares: f64| (squares / self.steps.max(1) as f64).sqrt();
        (self.steps > 0 || self.failure.is_some()).then(|| ControlResult {
            environment: if self.own[1] { OWN } else { teleop.environment.name() }.to_owned(),
            moved_s: self.steps as f64 * self.dt,
            tracking_rms_mm: rms(self.tracking_squares) * 1e3,
            tracking_max_mm: self.tracking.max * 1e3,
            force_error_rms_n: feels.then(|| rms(self.force_squares)),
            force_error_max_n: feels.then_some(self.force.max),
            force_max_n: self.largest_force,
            contacts: self.ports.contacts,
            contact_s: self.contact_steps as f64 * self.dt,
            speed_max_m_s: self.fastest,
            failure: self.failure.clone(),
            touch: teleop
                .environment
                .surface()
                .filter(|_| feels && self.own == [false; 2])
                .map(|_| self.touch(teleop)),
            felt: self.led.as_ref().filter(|_| self.own == [false; 2]).and_then(|led| led.felt(teleop)),
            felt_twin: None,
        })
    }

    /// As [`to_result`](Self::to_result), beside what a led hand feels without a network.
    pub(super) fn beside_its_twin(&self, teleop: &Teleop) -> Option<ControlResult> {
        let result = self.to_result(teleop)?;
        let near =
            || line::touched(teleop, Led::SHORTEST, Line { periods: 1, ..Line::default() }, Seed::new(1));
        let felt_twin = result.felt.and_then(|_| near()?.felt);
        Some(ControlResult { felt_twin, ..result })
    }

    fn touch(&self, teleop: &Teleop) -> TouchResult {
        let found = self.calm.found();
        let critical = teleop.touch().and_then(|touch| touch.critical_round_trip());
        TouchResult {
            steady: found.map(|found| found.is_calm()),
            calm: found.filter(|found| found.came_back(teleop.device_force)).map(|found| found.is_calm()),
            ripple_percent: found.map(|found| found.ripple_percent),
            growth: found.map(|found| found.growth),
            rest_force_n: found.map(|found| found.mean),
            rest_felt_n: found.map(|found| found.felt),
            rest_s: found.map_or(0.0, |found| found.seconds),
            critical_rtt_ms: critical.map(Duration::as_millis_f64),
            margin_unknown: teleop.touch().is_none(),
            critical: None,
            // Adding zero turns a negative zero into zero.
            drawdown_mj: self.ports.drawdown * 1e3 + 0.0,
            energy_mj: self.ports.energy * 1e3 + 0.0,
        }
    }

    pub(super) fn series(&self) -> Vec<Series> {
        let [tracking, energy, felt, met] = &self.series;
        let all = [
            tracking.to_result("tracking error", "arm", "mm"),
            energy.to_result("energy at both ports", "hand and environment", "mJ"),
            felt.to_result("force", "on the hand", "N"),
            met.to_result("force", "on the arm", "N"),
        ];
        all.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn parsed(keys: &str) -> Result<Teleop, String> {
        let text = format!(
            "title = \"touch\"\nduration = \"40s\"\n[links.wire]\nbetween = [\"operator\", \"robot\"]\nchain = []\n[teleop]\n\
             operator = \"operator\"\nrobot = \"robot\"\ndevice_force = 40.0\n{keys}"
        );
        Scenario::parse("touch.toml", &text)
            .map(|scenario| scenario.teleop.unwrap())
            .map_err(|error| error.to_string())
    }

    fn teleop(keys: &str) -> Teleop {
        parsed(keys).unwrap()
    }

    fn touched(teleop: &Teleop, seconds: u64, periods: usize) -> ControlResult {
        let line = Line { periods, ..Line::default() };
        line::touched(teleop, Duration::from_secs(seconds), line, Seed::new(1)).unwrap()
    }

    fn calm(result: &ControlResult) -> bool {
        assert_eq!(result.failure, None);
        result.touch.as_ref().unwrap().calm.unwrap()
    }

    #[test]
    fn the_arm_rattles_within_one_period_of_the_round_trip_that_the_margin_says() {
        let undamped = "{ wall = { damping = 0.0 } }";
        // Near its margin a spring needs half a minute to fade.
        for (environment, rest) in [("\"wall\"", 20), (undamped, 20), ("\"spring\"", 120)] {
            let teleop = teleop(&format!("environment = {environment}\nrest = \"{rest}s\"\ntremor = false"));
            let near = touched(&teleop, 2 * rest, 1);
            let critical = near.touch.as_ref().unwrap().critical_rtt_ms.unwrap().round() as usize;
            let [below, above] = [critical - 1, critical + 1].map(|ms| touched(&teleop, rest + 20, ms));
            assert!(calm(&near) && calm(&below) && !calm(&above), "{critical} ms: {below:?} {above:?}");
        }
    }

    #[test]
    fn with_the_tremor_of_a_hand_walls_and_springs_rattle_far_away_and_foam_never() {
        let of = |environment: &str, ms| {
            touched(&teleop(&format!("environment = \"{environment}\"\nrest = \"2s\"")), 40, ms)
        };
        let drawdown = |result: &ControlResult| result.touch.as_ref().unwrap().drawdown_mj;
        let [near, far] = [8, 11].map(|ms| of("wall", ms));
        assert!(calm(&near) && !calm(&far), "{near:?} {far:?}");
        assert!(drawdown(&near) < 30.0 && drawdown(&far) > 1_000.0, "{near:?} {far:?}");
        // Contacts that become few because the arm is away for long are no calm.
        assert!([80, 160, 400].into_iter().all(|ms| !calm(&of("wall", ms))));
        let springs = [40, 70].map(|ms| calm(&of("spring", ms)));
        assert_eq!(springs, [true, false]);
        assert!([10, 80, 160].into_iter().all(|ms| calm(&of("foam", ms))));
    }

    #[test]
    fn waves_keep_a_wall_calm_over_any_round_trip() {
        // Over 300 ms it takes seconds until what came before has faded.
        for (ms, rest) in [(1, 2), (40, 2), (100, 2), (300, 15)] {
            let keys = format!("environment = \"wall\"\nrest = \"{rest}s\"\nlaw = {{ wave = {{}} }}");
            let result = touched(&teleop(&keys), 40, ms);
            assert!(calm(&result), "{ms} ms: {result:?}");
        }
    }

    #[test]
    fn a_margin_that_no_linear_model_has_is_not_known_rather_than_endless() {
        let of = |hysteresis: &str| {
            let keys = format!("environment = {{ wall = {{ hysteresis = {hysteresis} }} }}\nrest = \"2s\"");
            let touch = touched(&teleop(&keys), 20, 1).touch.unwrap();
            (touch.margin_unknown, touch.critical_rtt_ms.is_some())
        };
        assert_eq!(["0.0", "0.05", "0.2"].map(of), [(false, true), (true, false), (false, true)]);
    }

    #[test]
    fn force_that_does_not_come_back_makes_nothing_calm() {
        let teleop = teleop("environment = \"wall\"\nrest = \"2s\"");
        let mute = touched(&teleop, 20, 40_000).touch.unwrap();
        assert!(mute.calm.is_none() && mute.rest_felt_n < Some(0.1), "{mute:?}");
    }

    #[test]
    fn a_period_of_12_ms_makes_a_wall_rattle_and_computes_all_the_same() {
        let result = touched(&teleop("environment = \"wall\"\nperiod = \"12ms\""), 40, 1);
        assert!(!calm(&result) && result.tracking_max_mm < 100.0, "{result:?}");
        let result = touched(&teleop("environment = \"foam\"\nperiod = \"12ms\""), 40, 1);
        assert!(calm(&result) && result.tracking_max_mm < 20.0, "{result:?}");
    }

    #[test]
    fn a_value_that_is_no_number_is_a_failure_with_its_name() {
        let watch = Watch::all_of(Duration::from_secs(1));
        let teleop = teleop("environment = \"wall\"");
        let mut control = Control::new(&teleop, Seed::new(1), watch);
        control.moves(true);
        let now = Time::ZERO + Duration::from_millis(250);
        control.arm(now, [0.0; 3], [0.0, f64::NAN, 0.0]);
        control.device(now, [f64::INFINITY; 3], [0.0; 3], [0.0; 3]);
        let result = control.to_result(&teleop).unwrap();
        assert_eq!(result.failure.as_deref(), Some("the force of the arm is no finite number at 0.250 s"));
        assert!(result.tracking_rms_mm.is_finite() && result.touch.unwrap().calm.is_none());
    }

    #[test]
    fn a_led_hand_feels_a_wall_as_stiff_as_it_is_behind_the_arm_and_less_of_it_by_waves_from_afar() {
        let led = |law: &str, periods| {
            let teleop = teleop(&format!("environment = \"wall\"\nled = true\nlaw = {law}"));
            let felt = touched(&teleop, 30, periods).felt.expect("it was led for long enough");
            (felt.slow_n_m, felt.error_percent.unwrap())
        };
        let (near, error) = led("\"position_force\"", 1);
        assert!((near / 1_500.0 - 1.0).abs() < 0.01 && error < 10.0, "{near} N/m, {error} %");
        // k/(1 + kT/(2b)) of 1500 N/m over 41 ms.
        let (far, _) = led("{ wave = {} }", 41);
        assert!((far / 740.0 - 1.0).abs() < 0.03, "{far} N/m");
        let of = |keys: &str| {
            let teleop = teleop(&format!("environment = \"wall\"\nled = true\n{keys}"));
            touched(&teleop, 30, 1).felt.unwrap().error_percent.unwrap()
        };
        // A force every 10 ms is 4.5 ms older on average.
        let [all, few] = ["", "feedback = 100"].map(of);
        assert!(few > all + 8.0, "{all} {few} %");
        let short = touched(&teleop("environment = \"wall\"\nled = true"), 15, 1);
        assert!(short.felt.is_none() && short.touch.unwrap().calm.is_none());
    }

    #[test]
    fn what_turns_neither_slides_nor_fits_the_old_samples() {
        for (keys, why) in [("", "friction = 0.0"), ("codec = \"omni71\"\n", "no place for a torque")] {
            let error = parsed(&format!("{keys}turns = true\nenvironment = \"wall\"")).unwrap_err();
            assert!(error.contains("teleop.turns") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_turns_rattles_and_is_calm_and_as_stiff_as_what_moves() {
        let turning = |keys: &str| {
            teleop(&format!("turns = true\nenvironment = {{ wall = {{ friction = 0.0 }} }}\n{keys}"))
        };
        let by = |law: &str, ms| touched(&turning(&format!("rest = \"2s\"\nlaw = {law}")), 40, ms);
        let [near, far] = [8, 11].map(|ms| calm(&by("\"position_force\"", ms)));
        assert!(near && !far, "10.06 ms is where the loop of hand, arm and stop has no margin left");
        for law in ["{ wave = {} }", "{ tdpa = {} }"] {
            assert!([1, 40, 100].into_iter().all(|ms| calm(&by(law, ms))), "{law}");
        }
        let led = |law: &str, ms| {
            let felt = touched(&turning(&format!("led = true\nlaw = {law}")), 30, ms).felt;
            felt.expect("it was led for long enough").slow_n_m
        };
        // 15 N·m/rad of servo and stop, k/(1 + kT/(2b)) of it over 41 ms with 0.3 N·m·s/rad; at the end of the lever a hundred times that in N/m.
        let [direct, waves] = [led("\"position_force\"", 1), led("{ wave = {} }", 41)];
        assert!((direct / 1_500.0 - 1.0).abs() < 0.01, "{direct} N/m");
        assert!((waves / 740.0 - 1.0).abs() < 0.02, "{waves} N/m");
    }
}
