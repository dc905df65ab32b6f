//! Random faults, and an independent checker that knows nothing of how the session works.
//!
//! An episode is one session of some ten thousand states over a network that loses (alone and in bursts), reorders,
//! duplicates, corrupts and is cut, with clocks that are off, drift and are set, and with buttons pressed at random. A
//! connection that breaks is followed by another. One transport and one seed, one episode.
//!
//! ```text
//! cargo test -p taut-session --test faults                            # a slice: 200 000 states, and 20 000 over each
//! make faults                                                         # ten million over all transports
//! TAUT_FAULTS_OVER=sctp TAUT_FAULTS_SEED=17 cargo test -p taut-session --test faults    # one episode again
//! ```

// What a failure prints is how to replay it.
#![allow(clippy::print_stdout)]

mod arm;
mod camera;
mod carriers;
mod channels;
mod checker;
mod controllers;
#[path = "../harness/mod.rs"]
mod harness;
mod steady;

use arm::Hand;
use carriers::{Carrier, Over};
use checker::{Checker, Totals};
use harness::{Clock, MS, OPERATOR, ROBOT, World};
use taut_core::{Duration, Probability, Rng, Seed, Time};
use taut_link::{Chain, Corrupt, Cut, Duplicate, Element, GilbertElliott, Jitter, JitterConfig, Loss};
use taut_session::{
    LimitPolicy, MotionLimits, OperatorConfig, Order, Priority, Processing, RobotConfig, RobotState, State,
};

const STATES_PER_EPISODE: u64 = 10_000;
pub(crate) const DEADLINE: Duration = Duration::from_millis(80);
pub(crate) const WATCHDOG: Duration = Duration::from_millis(100);
/// How far the robot reaches along each axis, m, how hard its controller may pull, N, how stiff that is, N/m, and how fast it may
/// be told to move, m/s.
pub(crate) const REACH: f32 = 0.5;
pub(crate) const FORCE: f32 = 5.0;
pub(crate) const STIFFNESS: f32 = 500.0;
pub(crate) const SPEED: f32 = 0.4;

/// An episode ends after this time, however few states a broken connection let through.
const LONGEST_EPISODE: Duration = Duration::from_secs(60);

type Episode = World<Carrier, Checker>;

#[test]
fn random_faults_break_no_promise() {
    run(200_000, &[Over::Plain]);
}

#[test]
fn random_faults_break_no_promise_over_any_transport() {
    run(20_000, &Over::ALL[1..]);
}

#[test]
#[ignore = "ten million states: run it with --release"]
fn random_faults_break_no_promise_in_ten_million_states() {
    run(10_000_000 / Over::ALL.len() as u64, &Over::ALL);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// So many states over each.
fn run(states: u64, transports: &[Over]) {
    let only = std::env::var("TAUT_FAULTS_OVER").ok();
    for over in transports.iter().filter(|over| only.as_ref().is_none_or(|only| only == over.name())) {
        let mut totals = Totals::default();
        if let Some(seed) = number("TAUT_FAULTS_SEED") {
            totals.add(&episode(seed, *over));
        } else {
            let episodes = number("TAUT_FAULTS_STATES").unwrap_or(states).div_ceil(STATES_PER_EPISODE);
            (0..episodes).for_each(|seed| totals.add(&episode(seed, *over)));
            totals.assert_that_faults_happened(*over);
        }
        println!("{}: {totals:?}", over.name());
    }
}

/// Prints how to run the episode again when it fails, however it fails.
struct Replay(u64, Over);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "replay: TAUT_FAULTS_OVER={} TAUT_FAULTS_SEED={} cargo test -p taut-session --test faults -- --nocapture",
                self.1.name(),
                self.0
            );
        }
    }
}

fn episode(seed: u64, over: Over) -> Totals {
    let _replay = Replay(seed, over);
    let mut rng = Seed::new(seed).stream("episode");
    let mut world = set_up(seed, over, &mut rng);
    let mut lives = Lives { seed, over, next: 1 };
    world.run_until(world.now + MS * 100);
    world.resume_now();
    world.sampling = Some(MS);
    world.measuring = (rng.below(2) == 0).then_some(MS);
    let end = world.now + LONGEST_EPISODE;
    while world.observer.made() < STATES_PER_EPISODE && world.now < end {
        world.run_until(world.now + Duration::from_micros(200 + rng.below(60_000)));
        act(&mut world, &mut rng);
        lives.go_on(&mut world);
    }
    recover(&mut world, &mut lives);
    let (operator, robot) =
        (world.operator.status(world.local(OPERATOR)), world.robot.status(world.local(ROBOT)));
    world.observer.settle(&operator, &robot)
}

/// Connections, one after the other.
struct Lives {
    seed: u64,
    over: Over,
    next: u32,
}

impl Lives {
    /// After a connection that ended by itself comes another.
    fn go_on(&mut self, world: &mut Episode) {
        if world.observer.take_closed() {
            self.begin_anew(world);
        }
    }

    fn begin_anew(&mut self, world: &mut Episode) {
        let [operator, robot] = [OPERATOR, ROBOT].map(|end| self.over.end(end, self.seed, self.next));
        self.next += 1;
        world.operator.reconnect(world.local(OPERATOR), operator);
        world.robot.reconnect(world.local(ROBOT), robot);
        world.drain();
        // What both said as they let go of the connection before.
        world.observer.take_closed();
    }
}

fn set_up(seed: u64, over: Over, rng: &mut Rng) -> Episode {
    let operator = OperatorConfig::new()
        .deadline(DEADLINE)
        .reliable(over.reliable())
        .queue(1 + rng.below(100) as usize)
        .order(if rng.below(2) == 0 { Order::Newest } else { Order::Fifo });
    let processing = match rng.below(4) {
        0 => Processing::Fixed(Duration::from_micros(rng.below(3_000))),
        1 => Processing::Uniform {
            least: Duration::ZERO,
            largest: Duration::from_micros(1 + rng.below(5_000)),
        },
        _ => Processing::Immediate,
    };
    let limits = MotionLimits::new().position([-REACH; 3], [REACH; 3]).force(FORCE);
    // What is refused leaves the arm where it is: a hand that moves would be out of its reach for good.
    let (limits, hand) = if rng.below(2) == 0 {
        let limits = limits.velocity(SPEED).stiffness(STIFFNESS);
        (if rng.below(2) == 0 { limits.acceleration(4.0) } else { limits }, Hand::Moves)
    } else {
        (limits.policy(LimitPolicy::Refuse), Hand::Rests)
    };
    let robot = RobotConfig::new()
        .watchdog(WATCHDOG)
        .max_age(DEADLINE * 2)
        .keeps_latch(rng.below(2) == 0)
        .limits(limits)
        .processing(processing)
        .queue(1 + rng.below(50) as usize)
        .order(if rng.below(2) == 0 { Order::Newest } else { Order::Fifo });
    let checker = Checker::new(processing == Processing::Immediate, over, hand);
    let links = [link(seed, "up", rng), link(seed, "down", rng)];
    let mut world = World::new(|end| over.end(end, seed, 0), operator, robot, links, checker);
    for clock in &mut world.clocks {
        let offset = Duration::from_millis(rng.below(100_000_000));
        *clock = Clock { offset, drift_ppb: rng.below(200_000) as i64 - 100_000 };
    }
    world
}

fn link(seed: u64, name: &str, rng: &mut Rng) -> Chain {
    let stream = |what: &str| Seed::new(seed).stream(&format!("{name}/{what}"));
    let parts_per =
        |rng: &mut Rng, most: f64| Probability::from_fraction(rng.fraction() * most).expect("a fraction");
    let mut elements: Vec<Element> = Vec::new();
    for _ in 0..rng.below(4) {
        let from = Time::from_nanos(10_000_000_000) + Duration::from_millis(500 + rng.below(11_000));
        elements.push(Cut::at(from).lasting(Duration::from_millis(20 + rng.below(1_500))).into());
    }
    let rate = parts_per(rng, 0.1);
    elements.push(match rng.below(3) {
        0 => Loss::bernoulli(rate, stream("loss")).into(),
        1 => {
            let (rate, r) = (rate.as_fraction(), 1.0 / (2.0 + rng.fraction() * 20.0));
            let [p, r] =
                [r * rate / (1.0 - rate), r].map(|one| Probability::from_fraction(one).expect("a fraction"));
            Loss::gilbert_elliott(GilbertElliott::simple(p, r), stream("loss")).into()
        }
        _ => Loss::bernoulli(Probability::NEVER, stream("loss")).into(),
    });
    elements.push(Duplicate::new(parts_per(rng, 0.1), stream("duplicate")).into());
    elements.push(Corrupt::new(parts_per(rng, 0.02), stream("corrupt")).into());
    let spread = Duration::from_micros(rng.below(8_000));
    let base = Duration::from_micros(500 + rng.below(25_000));
    let jitter = JitterConfig::new(spread).mean(base + spread).reorder(rng.below(3) > 0);
    elements.push(Jitter::new(jitter, stream("jitter")).expect("possible jitter").into());
    Chain::new(elements)
}

/// Somebody does something.
fn act(world: &mut Episode, rng: &mut Rng) {
    let moves = world.robot.state() == RobotState::Enabled;
    match rng.below(100) {
        0..3 => world.emergency_stop(),
        3..33 if !moves => world.resume_now(),
        // Somebody presses it although the robot moves: that feeds nothing.
        3..6 => _ = world.resume(),
        33..35 => {
            world.robot.emergency_stop(world.local(ROBOT));
            world.drain();
        }
        35..60 if !moves => {
            world.release();
        }
        60..62 => {
            let end = rng.below(2) as usize;
            let now = world.now;
            world.observer.clock_set(now);
            world.jump(end, Duration::from_millis(300 + rng.below(600)));
        }
        62..70 => (0..rng.below(60)).for_each(|_| {
            let priority = [Priority::Normal, Priority::High, Priority::Emergency][rng.below(3) as usize];
            world.send(State { priority, ..State::at(world.local(OPERATOR)) });
        }),
        70..75 => {
            // Some of these are older than their deadline, or will be before they arrive.
            let created = world.local(OPERATOR) - Duration::from_millis(rng.below(120));
            world.send_made_at(world.now - (world.local(OPERATOR) - created), State::at(created));
        }
        75..77 => {
            let broken = State { force: [f32::NAN, 0.0, 0.0], ..State::at(world.local(OPERATOR)) };
            assert_eq!(world.send(broken), None, "not a number");
        }
        77..80 => {
            // Finite, and out of reach.
            let far = [f32::MAX, f32::MIN, 1.0, -1.0][rng.below(4) as usize];
            let wild =
                State { position: [far; 3], force: [0.0, far, 0.0], ..State::at(world.local(OPERATOR)) };
            world.send(wild);
        }
        _ => {}
    }
}

/// The network is well again, the buttons are released: then the robot must move.
fn recover(world: &mut Episode, lives: &mut Lives) {
    let well = || Chain::from(taut_link::Delay::new(MS * 2));
    for from in [OPERATOR, ROBOT] {
        // What was under way arrives first.
        world.sampling = None;
        world.measuring = None;
        world.run_until(world.now + MS * 200);
        world.links[from] = well();
    }
    world.sampling = Some(MS);
    world.release();
    // A transport that was taught caution by the faults takes its time to forget it; plain UDP was taught none.
    let (patience, least) = if lives.over == Over::Plain { (6, 100) } else { (60, 10) };
    let recovered = (0..patience).any(|attempt| {
        // TFRC may be down to a packet in 64 s (RFC 5348 section 4.4). Nobody waits for it: connect anew.
        if attempt == 20 {
            lives.begin_anew(world);
        }
        for _ in 0..20 {
            world.run_until(world.now + MS * 50);
            lives.go_on(world);
            if world.robot.state() == RobotState::Enabled {
                break;
            }
            world.resume_now();
        }
        let before = world.observer.applied();
        world.run_until(world.now + MS * 1_000);
        world.robot.state() == RobotState::Enabled && world.observer.applied() >= before + least
    });
    assert!(recovered, "a robot that nothing stops any more moves: it is {:?}", world.robot.state());
    world.sampling = None;
    world.run_until(world.now + MS * 500);
    let error = world.robot_clock_error().expect("the clocks were compared");
    assert!(error[0] <= error[1], "the clock is {} off, said at most {}", error[0], error[1]);
}

impl Episode {
    /// Resets what is latched, or else resumes: two acts, one after the other.
    fn resume_now(&mut self) {
        if self.operator.robot().0 == RobotState::Fault {
            self.reset();
            return;
        }
        let now = self.now;
        self.observer.resume_pressed(now);
        self.resume();
    }

    /// The button at the robot is let go.
    fn release(&mut self) {
        self.robot.release(self.local(ROBOT));
        self.drain();
    }
}
