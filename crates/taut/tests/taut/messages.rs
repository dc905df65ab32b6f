//! Messages both ways, of one's own types and of motion, blocking and async.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use taut::{
    Channel, Encoding, JointLimits, Joints, Json, Operator, OperatorEvent, Receiver, RecvError, RobotEvent,
    RobotState, Schema, SendError, Sender, Twist, TwistLimits, robot_device,
};

use crate::world::{Arm, Base, Handed, PATIENCE, limits, operator, robot, until};

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Battery {
    percent: u8,
}
impl Json for Battery {
    const NAME: &'static str = "example.Battery";
}

#[derive(serde::Serialize, serde::Deserialize)]
struct OtherBattery {
    volts: f32,
}
impl Json for OtherBattery {
    const NAME: &'static str = "example.Volts";
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest runtime that there is.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park_timeout(PATIENCE);
    }
}

fn is_open(operator: &Operator, is: impl Fn() -> bool) {
    until("the channel opens", || is() || operator.has_ended());
}

#[test]
fn messages_go_both_ways_blocking_and_async_and_end_with_the_session() {
    let (builder, _, identity) = robot();
    let (battery, log) =
        (Sender::new(Channel::telemetry("battery")), Sender::<Vec<u8>>::new(Channel::bulk("log")));
    let lamp = Receiver::<Vec<u8>>::new(Channel::command("lamp"));
    let builder = builder.device(limits(), Handed(Arm::new())).sends(&battery).sends(&log).receives(&lamp);
    let robot = builder.start().unwrap();
    let (charge, switch) = (
        Receiver::<Battery>::new(Channel::telemetry("battery")),
        Sender::<Vec<u8>>::new(Channel::command("lamp").largest(9)),
    );
    let operator = operator(&robot, identity).receives(&charge).sends(&switch).start().unwrap();
    assert_eq!(charge.try_recv(), Err(RecvError::Empty));
    is_open(&operator, || battery.is_open() && switch.is_open());
    battery.send(&Battery { percent: 87 }).unwrap();
    assert_eq!(block_on(charge.next()), Ok(Battery { percent: 87 }));
    for number in 0..10 {
        switch.send(&vec![number]).unwrap();
    }
    let came: Vec<_> = (0..10).map(|_| lamp.recv().unwrap()[0]).collect();
    assert_eq!(came, (0..10).collect::<Vec<_>>(), "in order, each once");
    assert_eq!(
        switch.send(&vec![0; 10]),
        Err(SendError::TooLarge { channel: "lamp".to_owned(), bytes: 10, largest: 9 })
    );
    until("the operator's side of `log` is missing, and that is said", || {
        matches!(log.send(&vec![0]), Err(SendError::Refused { .. }))
    });
    until("it is counted", || {
        robot.status().channels.iter().any(|channel| channel.name == "battery" && channel.made == 1)
    });
    let waiting = std::thread::spawn(move || charge.recv());
    operator.close();
    operator.join().unwrap();
    assert_eq!(waiting.join().unwrap(), Err(RecvError::Ended));
    assert_eq!(switch.send(&vec![1]), Err(SendError::Ended));
    until("the robot waits for the next", || {
        matches!(battery.send(&Battery { percent: 1 }), Err(SendError::NotConnected(_)))
    });
}

#[test]
fn a_channel_of_another_type_stays_closed_and_both_ends_say_so() {
    let (builder, _, identity) = robot();
    let battery = Sender::<Battery>::new(Channel::telemetry("battery"));
    let robot = builder.device(limits(), Handed(Arm::new())).sends(&battery).start().unwrap();
    let charge = Receiver::<OtherBattery>::new(Channel::telemetry("battery"));
    let operator = operator(&robot, identity).receives(&charge).start().unwrap();
    let closed = block_on(async {
        loop {
            if let OperatorEvent::ChannelClosed { channel, why } = operator.events().next().await.unwrap() {
                return (channel, why);
            }
        }
    });
    assert!(closed.0 == "battery" && closed.1.contains("schema"), "{closed:?}");
    until("the robot says so too", || {
        matches!(battery.send(&Battery { percent: 1 }), Err(SendError::Refused { .. }))
    });
    let told = std::iter::from_fn(|| robot.events().recv_timeout(PATIENCE).ok());
    assert!(told.take(9).any(|event| matches!(event, RobotEvent::ChannelClosed { .. })));
}

#[test]
fn joints_and_twists_move_devices_within_their_limits_and_a_number_that_is_none_is_refused() {
    use std::sync::Mutex;
    let (builder, _, identity) = robot();
    let told = Arc::new(Mutex::new(Vec::<f32>::new()));
    let (moved, measured) = (Arc::clone(&told), Arc::clone(&told));
    let arm = robot_device(
        move |target: &Joints, _| {
            moved.lock().unwrap().push(target.position()[0]);
            Ok(())
        },
        move || Joints::new(&[measured.lock().unwrap().last().copied().unwrap_or(0.0)]).ok(),
        |_| (),
    );
    let base = Arm::new();
    let elbow = JointLimits::new().position(-0.2, 0.2).velocity(1.0).effort(10.0);
    let drive =
        TwistLimits::new().linear(0.5).linear_acceleration(1.0).angular(1.0).angular_acceleration(2.0);
    let builder =
        builder.motion("arm/servo_jp", vec![elbow], arm).motion("base", drive, Base(Arc::clone(&base)));
    let robot = builder.start().unwrap();
    let (joints, twists) = (
        Sender::<Joints>::new(Channel::motion("arm/servo_jp")),
        Sender::<Twist>::new(Channel::motion("base")),
    );
    let operator =
        operator(&robot, identity).sends(&joints).sends(&twists).resumes_at_start().start().unwrap();
    is_open(&operator, || joints.is_open() && twists.is_open());
    assert!(matches!(joints.send(&Joints::new(&[f32::NAN]).unwrap()), Err(SendError::Unwritable(_))));
    until("both move", || {
        let _ = joints.send(&Joints::new(&[5.0]).unwrap());
        let _ = twists.send(&Twist { linear: [9.0, 0.0, 0.0], ..Twist::default() });
        std::thread::park_timeout(std::time::Duration::from_millis(3));
        base.applied() > 20 && told.lock().unwrap().len() > 20
    });
    assert!(told.lock().unwrap().iter().all(|joint| *joint <= 0.2), "never out of its range");
    robot.stop();
    until("all stand", || robot.status().state == RobotState::Fault);
    let before = (base.applied(), told.lock().unwrap().len());
    let _ = twists.send(&Twist::default());
    std::thread::park_timeout(std::time::Duration::from_millis(50));
    assert_eq!((base.applied(), told.lock().unwrap().len()), before);
}

#[test]
fn motion_with_other_joints_stays_closed_and_a_robot_that_moves_nothing_sends_messages() {
    let (builder, _, identity) = robot();
    let joint = JointLimits::new().position(-1.0, 1.0).velocity(1.0).effort(0.0);
    let arm = robot_device(|_: &Joints, _| Ok(()), || None, |_| ());
    let robot = builder.motion_defined("arm", "shoulder\nelbow", vec![joint; 2], arm).start().unwrap();
    let sender = |names| {
        let schema = Schema::new("taut/Joints", Encoding::Taut).definition(names);
        Sender::<Vec<u8>>::of_schema(Channel::motion("arm"), schema)
    };
    let (reversed, same) = (sender("elbow\nshoulder"), sender("shoulder\nelbow"));
    let other = operator(&robot, identity.clone()).sends(&reversed).start().unwrap();
    until("it is refused", || {
        matches!(reversed.send(&vec![0, 1, 0, 0, 0, 0, 0, 0]), Err(SendError::Refused { .. }))
    });
    drop(other);
    let operator_of_same = operator(&robot, identity).sends(&same).start().unwrap();
    is_open(&operator_of_same, || same.is_open());
    drop((operator_of_same, robot));

    let (builder, _, identity) = crate::world::robot();
    let log = Sender::<Vec<u8>>::new(Channel::telemetry("log"));
    let robot = builder.moves_nothing().sends(&log).start().unwrap();
    let lines = Receiver::<Vec<u8>>::new(Channel::telemetry("log"));
    let operator = operator(&robot, identity).receives(&lines).start().unwrap();
    is_open(&operator, || log.is_open());
    log.send(&vec![1]).unwrap();
    assert_eq!(lines.recv(), Ok(vec![1]));
}
