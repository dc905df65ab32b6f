//! Two ends on loopback, and devices that remember.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use taut::{
    Failure, Identity, Operator, OperatorBuilder, OperatorDevice, RobotBuilder, RobotDevice, State,
    StateLimits, StopCause,
};

/// Longer than a busy machine takes for anything here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than a busy machine lets a thread wait.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(2);

pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// What a device does besides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mood {
    Obeys,
    Refuses,
    Panics,
    Blocks,
}

/// An arm that is at once where it is told to be, and remembers.
pub(crate) struct Arm {
    pub(crate) mood: Mutex<Mood>,
    let_go: (Mutex<bool>, Condvar),
    pub(crate) blocked: AtomicBool,
    state: Mutex<State>,
    pub(crate) applied: AtomicU64,
    /// In the order in which they came.
    stops: Mutex<Vec<StopCause>>,
    pub(crate) stop_panics: AtomicBool,
    pub(crate) stop_blocks: AtomicBool,
    pub(crate) leases: bool,
}

impl Arm {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_lease(false)
    }

    pub(crate) fn with_lease(leases: bool) -> Arc<Self> {
        Arc::new(Self {
            mood: Mutex::new(Mood::Obeys),
            let_go: (Mutex::new(false), Condvar::new()),
            blocked: AtomicBool::new(false),
            state: Mutex::new(State::at([0.0, 0.0, 0.2])),
            applied: AtomicU64::new(0),
            stops: Mutex::new(Vec::new()),
            stop_panics: AtomicBool::new(false),
            stop_blocks: AtomicBool::new(false),
            leases,
        })
    }

    pub(crate) fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub(crate) fn stops(&self) -> Vec<StopCause> {
        self.stops.lock().unwrap().clone()
    }

    pub(crate) fn was_stopped(&self, cause: StopCause) -> bool {
        self.stops().contains(&cause)
    }

    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::SeqCst)
    }

    pub(crate) fn position(&self) -> [f32; 3] {
        self.state.lock().unwrap().position
    }

    pub(crate) fn wait(&self) {
        self.blocked.store(true, Ordering::SeqCst);
        let free = self.let_go.0.lock().unwrap();
        drop(self.let_go.1.wait_while(free, |free| !*free).unwrap());
        self.blocked.store(false, Ordering::SeqCst);
    }

    pub(crate) fn let_go(&self) {
        *self.let_go.0.lock().unwrap() = true;
        self.let_go.1.notify_all();
    }
}

/// What the session has of an [`Arm`].
pub(crate) struct Handed(pub(crate) Arc<Arm>);

impl Handed {
    fn act(&self) -> Result<(), Failure> {
        let mood = *self.0.mood.lock().unwrap();
        match mood {
            Mood::Obeys => {}
            Mood::Refuses => return Err("the drive is too hot".into()),
            Mood::Panics => panic!("a bug of the driver's"),
            Mood::Blocks => self.0.wait(),
        }
        self.0.applied.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn halt(&self, cause: StopCause) {
        if self.0.stop_blocks.load(Ordering::SeqCst) {
            self.0.wait();
        }
        self.0.stops.lock().unwrap().push(cause);
        assert!(!self.0.stop_panics.load(Ordering::SeqCst), "a bug in stop");
    }
}

impl RobotDevice for Handed {
    fn apply(&self, target: &State, lease: Duration) -> Result<(), Failure> {
        assert!(!lease.is_zero() && lease <= Duration::from_secs(5));
        self.act()?;
        *self.0.state.lock().unwrap() = *target;
        Ok(())
    }
    fn measure(&self) -> Option<State> {
        Some(*self.0.state.lock().unwrap())
    }
    fn stop(&self, cause: StopCause) {
        self.halt(cause);
    }
    fn keeps_lease(&self) -> bool {
        self.0.leases
    }
}

/// The same as one that goes where it is driven.
pub(crate) struct Base(pub(crate) Arc<Arm>);

impl RobotDevice<taut::Twist> for Base {
    fn apply(&self, _: &taut::Twist, _: Duration) -> Result<(), Failure> {
        Handed(Arc::clone(&self.0)).act()
    }
    fn measure(&self) -> Option<taut::Twist> {
        None
    }
    fn stop(&self, cause: StopCause) {
        Handed(Arc::clone(&self.0)).halt(cause);
    }
}

/// A hand that stays at one place, and reads it anew each time.
pub(crate) struct Still(pub(crate) [f32; 3]);

impl OperatorDevice for Still {
    fn sample(&mut self) -> Option<State> {
        Some(State::at(self.0))
    }
    fn feel(&mut self, _: &State) {}
    fn lost(&mut self) {}
}

pub(crate) fn limits() -> StateLimits {
    StateLimits::new()
        .position([-0.3; 3], [0.3; 3])
        .velocity(0.5)
        .angular_velocity(0.5)
        .force(20.0)
        .stiffness(500.0)
}

/// Two identities, and a robot's builder that trusts the operator's.
pub(crate) fn robot() -> (RobotBuilder, Identity, Identity) {
    let (own, operator) = (Identity::generate(), Identity::generate());
    let robot = RobotBuilder::new()
        .listen("127.0.0.1:0")
        .identity(own.clone())
        .trust(operator.fingerprint())
        .watchdog(WATCHDOG)
        .forgets_stops();
    (robot, own, operator)
}

pub(crate) fn operator(robot: &taut::Robot, identity: Identity) -> OperatorBuilder {
    Operator::builder()
        .connect(robot.address().to_string())
        .identity(identity)
        .trust(robot.fingerprint())
        .deadline(WATCHDOG)
        .rate(200)
}

/// An arm that a hand moves.
pub(crate) fn moving(arm: &Arc<Arm>) -> (taut::Robot, Operator) {
    let (builder, _, identity) = robot();
    let robot = builder.device(limits(), Handed(Arc::clone(arm))).start().unwrap();
    let operator = operator(&robot, identity).device(Still([0.1, 0.0, 0.2])).resumes_at_start();
    let operator = operator.start().unwrap();
    until("the arm moves", || arm.applied() > 20);
    (robot, operator)
}
