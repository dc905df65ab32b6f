//! Any calls in any order, any bytes: nothing panics, nothing moves that should not, nothing grows.

use proptest::prelude::*;
use taut_core::{Duration, PathId, Time};
use taut_link::{Chain, Delay};
use taut_session::{OperatorConfig, Priority, Processing, RobotConfig, RobotEvent, RobotState, State};

use crate::harness::{Log, MS, OPERATOR, ROBOT, World, udp};

#[derive(Clone, Debug)]
enum Step {
    Run(u64),
    Send(u8, u64, f32),
    Emergency,
    Resume,
    Button(bool),
    Feedback(f32),
    Jump(usize, u64),
    Cut(bool),
    Noise(usize, Vec<u8>),
    Repeat(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..60).prop_map(Step::Run),
        6 => (0u8..3, 0u64..300, prop::num::f32::ANY).prop_map(|(p, age, x)| Step::Send(p, age, x)),
        1 => Just(Step::Emergency),
        3 => Just(Step::Resume),
        1 => any::<bool>().prop_map(Step::Button),
        2 => prop::num::f32::ANY.prop_map(Step::Feedback),
        1 => (0usize..2, 0u64..400).prop_map(|(end, ms)| Step::Jump(end, ms)),
        1 => any::<bool>().prop_map(Step::Cut),
        1 => (0usize..2, prop::collection::vec(any::<u8>(), 0..100)).prop_map(|(end, bytes)| Step::Noise(end, bytes)),
        2 => (0usize..2, 0usize..40).prop_map(|(end, back)| Step::Repeat(end, back)),
    ]
}

fn take(world: &mut World<taut_transport::udp::Udp, Log>, step: Step) {
    match step {
        Step::Run(ms) => world.run_until(world.now + MS * ms),
        Step::Send(priority, age, x) => {
            let created = Time::ZERO + world.local(OPERATOR).saturating_since(Time::ZERO + MS * age);
            let priority = Priority::from_code(priority).expect("one of three");
            world.send(State { priority, position: [x; 3], ..State::at(created) });
        }
        Step::Emergency => world.emergency_stop(),
        Step::Resume => {
            world.resume();
        }
        Step::Button(true) => world.robot.emergency_stop(world.local(ROBOT)),
        Step::Button(false) => world.robot.release(world.local(ROBOT)),
        Step::Feedback(x) => {
            let now = world.local(ROBOT);
            let _ = world.robot.send_feedback(now, State { force: [x; 3], ..State::at(now) });
        }
        Step::Jump(end, ms) => world.jump(end, MS * ms),
        Step::Cut(cut) => {
            let delay = if cut { Duration::from_secs(1_000) } else { MS * 3 };
            world.links[OPERATOR] = Chain::from(Delay::new(delay).limit(100));
        }
        Step::Noise(end, bytes) => world.input(end, PathId(9), &bytes),
        Step::Repeat(end, back) => {
            // A datagram that had been sent to this end before, byte for byte.
            let sent = &world.observer.sent[1 - end];
            if let Some(bytes) = sent.len().checked_sub(1 + back).map(|i| sent[i].clone()) {
                world.input(end, PathId(0), &bytes);
            }
        }
    }
    world.drain();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_sequence_of_calls_keeps_the_promises(
        steps in prop::collection::vec(step(), 1..120),
        slow in any::<bool>(),
    ) {
        let processing = if slow { Processing::Fixed(MS * 7) } else { Processing::Immediate };
        let robot = RobotConfig::new().processing(processing).queue(16);
        let links = [Delay::new(MS * 3).into(), Delay::new(MS * 3).into()];
        let mut world = World::new(udp, OperatorConfig::new().queue(16), robot, links, Log::default());
        world.run_until(world.now + MS * 50);
        for step in steps {
            take(&mut world, step);
            prop_assert!(world.operator.waiting() <= 32 && world.robot.waiting() <= 17);
        }
        let (mut enabled, mut last) = (false, 0);
        for (_, event) in &world.observer.robot {
            match event {
                RobotEvent::Enabled { .. } => enabled = true,
                RobotEvent::Stop { .. } => enabled = false,
                RobotEvent::Apply { sequence, state, .. } => {
                    prop_assert!(enabled && *sequence > last && state.is_finite());
                    last = *sequence;
                }
                _ => {}
            }
        }
        prop_assert_eq!(enabled, world.robot.state() == RobotState::Enabled);
    }
}
