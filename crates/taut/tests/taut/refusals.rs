//! What does not start, and what it says to do.

use std::time::Duration;

use taut::{
    Channel, Error, GripperLimits, Identity, JointLimits, Joints, OperatorBuilder, Receiver, RobotBuilder,
    SendError, Sender, StateLimits, Twist, TwistLimits, robot_device,
};

use crate::world::{Arm, Base, Handed, limits, robot};

fn refused(builder: RobotBuilder) -> String {
    builder.start().expect_err("it must not start").to_string()
}

fn arm() -> Handed {
    Handed(Arm::new())
}

#[test]
fn a_robot_without_identity_trust_address_device_or_a_place_for_stops_does_not_start() {
    let identity = Identity::generate;
    let missing = |builder: RobotBuilder, method: &str| {
        let error = builder.start().expect_err(method);
        assert!(matches!(error, Error::Missing { .. }) && error.to_string().contains(method), "{error}");
    };
    let whole = || {
        let (builder, ..) = robot();
        builder
    };
    missing(RobotBuilder::new(), "listen(");
    missing(RobotBuilder::new().listen("127.0.0.1:0"), "keeps_stops_in(");
    missing(RobotBuilder::new().listen("127.0.0.1:0").forgets_stops(), "identity(");
    let no_trust = RobotBuilder::new().listen("127.0.0.1:0").forgets_stops().identity(identity());
    missing(no_trust.device(limits(), arm()), "trust(");
    missing(whole(), "device(");
}

#[test]
fn nothing_moves_without_limits() {
    let (builder, ..) = robot();
    let why = refused(builder.device(StateLimits::new(), arm()));
    assert!(
        why.contains("position")
            && why.contains("::velocity")
            && why.contains("::angular_velocity")
            && why.contains("force"),
        "{why}"
    );
    let (builder, ..) = robot();
    let why = refused(builder.device(limits().velocity(f32::INFINITY), arm()));
    assert!(why.contains("StateLimits::velocity"), "{why}");
    let (builder, ..) = robot();
    let no_stiffness =
        StateLimits::new().position([-0.3; 3], [0.3; 3]).velocity(0.5).angular_velocity(0.5).force(20.0);
    let why = refused(builder.device(no_stiffness, arm()));
    assert!(why.contains("StateLimits::stiffness") && why.contains("limit_force"), "{why}");
    let (builder, ..) = robot();
    let why = refused(builder.motion("base", TwistLimits::new().linear(1.0), Base(Arm::new())));
    assert!(why.contains("base") && why.contains("linear_acceleration"), "{why}");
    let joints = || robot_device(|_: &Joints, _| Ok(()), || None, |_| ());
    let (builder, ..) = robot();
    let why = refused(builder.motion("arm", vec![JointLimits::new().velocity(1.0)], joints()));
    assert!(why.contains("joint 0") && why.contains("JointLimits::effort"), "{why}");
    let (builder, ..) = robot();
    let why = refused(builder.motion("arm", Vec::new(), joints()));
    assert!(why.contains("0 joints"), "{why}");
    let fingers = robot_device(|_: &taut::Gripper, _| Ok(()), || None, |_| ());
    let (builder, ..) = robot();
    assert!(refused(builder.motion("hand", GripperLimits::new(), fingers)).contains("GripperLimits::speed"));
}

#[test]
fn there_is_no_robot_without_a_watchdog() {
    for silence in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(6), Duration::MAX] {
        let (builder, ..) = robot();
        let why = refused(builder.watchdog(silence).device(limits(), arm()));
        assert!(why.starts_with("watchdog: "), "{why}");
    }
}

#[test]
fn motion_is_taken_by_a_device_with_limits_and_never_as_a_message() {
    let (builder, ..) = robot();
    let opaque = Receiver::<Twist>::new(Channel::motion("base"));
    let why = refused(builder.device(limits(), arm()).receives(&opaque));
    assert!(why.contains("`motion::Schema`") || why.contains("limits"), "{why}");
    let own = Receiver::<Vec<u8>>::new(Channel::motion("base"));
    let (builder, ..) = robot();
    assert!(refused(builder.device(limits(), arm()).receives(&own)).contains("motion"));
    let backwards = Sender::<Twist>::new(Channel::motion("base"));
    let (builder, ..) = robot();
    assert!(refused(builder.device(limits(), arm()).sends(&backwards)).contains("motion"));
}

#[test]
fn a_loop_of_ones_own_takes_devices_that_keep_their_lease_and_no_others() {
    let (at, unix) = (Duration::ZERO, Duration::from_secs(1_700_000_000));
    let (builder, ..) = robot();
    let error =
        builder.device(limits(), arm()).build(at, unix).expect_err("nothing would stop it").to_string();
    assert!(error.contains("keeps_lease") && error.contains("start"), "{error}");
    let (builder, ..) = robot();
    let keeps = Handed(Arm::with_lease(true));
    assert!(builder.transport("tcp").device(limits(), keeps).build(at, unix).is_err(), "tcp is the kernel's");
    let (builder, ..) = robot();
    assert!(builder.device(limits(), Handed(Arm::with_lease(true))).build(at, unix).is_ok());
}

#[test]
fn settings_that_cannot_be_are_named() {
    let (builder, ..) = robot();
    let why = refused(builder.transport("carrier pigeon").device(limits(), arm()));
    assert!(why.contains("carrier pigeon") && why.contains("mpquic"), "{why}");
    let (builder, ..) = robot();
    assert!(refused(builder.listen("somewhere").device(limits(), arm())).starts_with("listen: "));
    let (builder, ..) = robot();
    assert!(refused(builder.rate(0).device(limits(), arm())).starts_with("rate: "));
    let (builder, ..) = robot();
    assert!(refused(builder.device(limits(), arm()).device(limits(), arm())).starts_with("device: "));
    let (builder, ..) = robot();
    assert!(refused(builder.record(None).device(limits(), arm())).contains("keeps_stops_in"));
    let operator = || OperatorBuilder::new().connect("127.0.0.1:4433").identity(Identity::generate());
    let error = operator().start().expect_err("whom?").to_string();
    assert!(error.contains("trust(") && error.contains("fingerprint"), "{error}");
    let other = || Identity::generate().fingerprint();
    let error = operator().trust(other()).trust(other()).start().expect_err("which?").to_string();
    assert!(error.contains("one robot"), "{error}");
    let error = operator().trust(other()).force_limit(f32::NAN).start().expect_err("how hard?").to_string();
    assert!(error.starts_with("force_limit"), "{error}");
}

#[test]
fn a_sender_belongs_to_one_end_and_says_when_it_belongs_to_none() {
    let log = Sender::<Vec<u8>>::new(Channel::bulk("log"));
    assert_eq!(log.send(&vec![1]), Err(SendError::NotStarted("log".to_owned())));
    let (builder, ..) = robot();
    let first = builder.device(limits(), arm()).sends(&log).start().unwrap();
    assert_eq!(log.send(&vec![1]), Err(SendError::NotConnected("log".to_owned())));
    let (builder, ..) = robot();
    assert!(refused(builder.device(limits(), arm()).sends(&log)).contains("used already"));
    drop(first);
    assert_eq!(log.send(&vec![1]), Err(SendError::Ended));
}

#[test]
fn who_connects_to_nobody_is_told_what_to_do() {
    let identity = Identity::generate();
    let operator = OperatorBuilder::new().connect("127.0.0.1:9").transport("tcp").identity(identity);
    let operator = operator.trust(Identity::generate().fingerprint()).start().unwrap();
    let error = operator.join().expect_err("nobody is there");
    assert!(
        matches!(&error, Error::NotConnected(why) if why.contains("127.0.0.1:9") && why.contains("start the robot")),
        "{error}"
    );
}

#[test]
fn handles_are_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<taut::Robot>();
    shared::<taut::Operator>();
    shared::<Sender<Twist>>();
    shared::<Receiver<Twist>>();
    shared::<taut::Events<taut::RobotEvent>>();
    fn moved<T: Send>() {}
    // A machine belongs to the thread that builds it; what builds it does not.
    moved::<RobotBuilder>();
    moved::<OperatorBuilder>();
}
