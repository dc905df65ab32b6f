use super::*;

fn format(kind: Type, velocity: bool) -> Format {
    let joints = if kind.has_joints() { vec!["shoulder".to_owned(), "elbow".to_owned()] } else { Vec::new() };
    let frame = if kind.has_joints() { String::new() } else { "base".to_owned() };
    Format {
        kind,
        joints,
        frame,
        velocity,
        time_from_start: Duration::from_millis(20),
        stamps: kind != Type::JointTrajectory,
    }
}

fn joints(position: [f32; 2]) -> Joints {
    Joints::new(&position).unwrap()
}

/// One of each type, as a publisher may send it.
fn each() -> Vec<(Format, Motion)> {
    let twist = Twist { linear: [0.1, 0.0, -0.2], angular: [0.0, 0.0, 0.5], ..Twist::default() };
    let pose = State::at([0.1, 0.2, 0.3]).with_orientation_wxyz([0.0, 1.0, 0.0, 0.0]);
    let moving = joints([0.0, 0.0]).with_velocity(&[0.5, -0.5]).unwrap();
    vec![
        (format(Type::Twist, true), twist.into()),
        (format(Type::TwistStamped, true), twist.into()),
        (format(Type::PoseStamped, false), pose.into()),
        (format(Type::JointState, false), joints([1.0, 2.0]).with_velocity(&[0.1, 0.2]).unwrap().into()),
        (format(Type::JointJog, true), moving.clone().into()),
        (format(Type::JointTrajectory, false), joints([1.0, 2.0]).into()),
        (format(Type::Float64MultiArray, false), joints([1.0, 2.0]).into()),
        (format(Type::Float64MultiArray, true), moving.into()),
    ]
}

#[test]
fn every_type_reads_back_and_no_bytes_lead_to_a_panic_or_a_number_that_is_none() {
    for (format, motion) in each() {
        let message = format.write(&motion, Duration::new(5, 6));
        assert_eq!(format.read(&message), Ok(motion), "{:?}", format.kind);
        for length in 0..message.len() {
            assert!(format.read(&message[..length]).is_err(), "{:?}, {length} bytes", format.kind);
        }
        for at in 0..message.len() {
            for value in [0, 1, 2, 127, 128, 240, 255] {
                let mut other = message.clone();
                other[at] = value;
                if let Ok(motion) = format.read(&other) {
                    let mut bytes = Vec::new();
                    motion.encode(&mut bytes).unwrap();
                    let finite = match &motion {
                        Motion::Twist(twist) => twist.is_finite(),
                        Motion::Joints(joints) => joints.is_finite(),
                        Motion::Pose(state) => state.position.iter().all(|part| part.is_finite()),
                    };
                    assert!(finite, "{motion:?}");
                }
                let _ = format.read_measured(&other);
            }
        }
    }
}

#[test]
fn joints_are_known_by_name_in_any_order_and_others_are_refused() {
    let own = format(Type::JointState, false);
    let named = |names: &[&str]| Format {
        joints: names.iter().map(|name| (*name).to_owned()).collect(),
        ..own.clone()
    };
    let message = |names: &[&str]| {
        let numbers: Vec<f32> = (1..=names.len()).map(|number| number as f32).collect();
        named(names).write(&Joints::new(&numbers).unwrap().into(), Duration::ZERO)
    };
    let swapped = message(&["elbow", "shoulder"]);
    assert_eq!(own.read(&swapped), Ok(joints([2.0, 1.0]).into()));
    let refusal = |names: &[&str]| own.read(&message(names)).unwrap_err();
    let unknown = refusal(&["shoulder", "elbow", "wrist"]);
    assert_eq!(unknown.name(), "unknown_joint");
    assert!(unknown.to_string().contains("wrist") && unknown.to_string().contains("shoulder, elbow"));
    assert_eq!(refusal(&["shoulder"]).name(), "missing_joint");
    assert_eq!(refusal(&["shoulder", "shoulder"]).name(), "repeated_joint");
    let mut writer = Writer::new();
    writer.i32(0);
    writer.u32(0);
    writer.text("");
    writer.texts(&own.joints);
    // A third one belongs to nobody.
    writer.f64s(&[1.0_f32, 2.0, 3.0]);
    writer.f64s(&[0.0_f32; 0]);
    writer.f64s(&[0.0_f32; 0]);
    assert_eq!(own.read(&writer.message()).unwrap_err().name(), "wrong_count");
    // What is measured may be more than what is moved.
    let measured = own.read_measured(&message(&["gripper", "elbow", "shoulder"]));
    assert_eq!(measured, Ok(joints([3.0, 2.0]).into()));
}

#[test]
fn what_no_limit_holds_is_refused() {
    let framed = format(Type::TwistStamped, true);
    let other = Format { frame: "tool".to_owned(), ..framed.clone() };
    let message = other.write(&Twist::default().into(), Duration::ZERO);
    assert_eq!(framed.read(&message).unwrap_err().name(), "wrong_frame");
    let mut message = framed.write(&Twist::default().into(), Duration::ZERO);
    let end = message.len();
    message[end - 8..].copy_from_slice(&f64::NAN.to_le_bytes());
    assert_eq!(framed.read(&message), Err(Refusal::NotFinite));
    // Finite, until it is a number of half as many bytes.
    message[end - 8..].copy_from_slice(&1e300_f64.to_le_bytes());
    assert_eq!(framed.read(&message), Err(Refusal::NotFinite));
    let pose = format(Type::PoseStamped, false);
    let nowhere = State::at([0.0; 3]).with_orientation_wxyz([0.0; 4]);
    assert_eq!(pose.read(&pose.write(&nowhere.into(), Duration::ZERO)), Err(Refusal::Orientation));
    let placed = Format { frame: "base".to_owned(), ..format(Type::JointTrajectory, false) };
    let message = format(Type::JointTrajectory, false).write(&joints([1.0, 2.0]).into(), Duration::ZERO);
    assert_eq!(placed.read(&message).unwrap_err().name(), "wrong_frame");
    let array = format(Type::Float64MultiArray, false);
    let three = array.write(&Joints::new(&[0.0; 3]).unwrap().into(), Duration::ZERO);
    assert_eq!(array.read(&three).unwrap_err().name(), "wrong_count");
}

#[test]
fn only_velocities_have_a_rest() {
    assert_eq!(format(Type::TwistStamped, true).rest(), Some(Twist::default().into()));
    assert!(
        matches!(format(Type::JointJog, true).rest(), Some(Motion::Joints(joints)) if joints.velocity() == [0.0; 2])
    );
    assert_eq!(format(Type::PoseStamped, false).rest(), None);
    assert_eq!(format(Type::JointTrajectory, false).rest(), None);
}

/// `joint_trajectory_controller` takes none that ended before it came.
#[test]
fn a_trajectory_begins_at_once_unless_it_is_stamped_and_other_messages_say_when_they_were_made() {
    let stamp = |format: Format, motion: Motion| format.write(&motion, Duration::new(5, 6))[4..12].to_vec();
    let trajectory = format(Type::JointTrajectory, false);
    let made = [5, 0, 0, 0, 6, 0, 0, 0];
    assert_eq!(stamp(trajectory.clone(), joints([1.0, 2.0]).into()), [0; 8]);
    assert_eq!(stamp(Format { stamps: true, ..trajectory }, joints([1.0, 2.0]).into()), made);
    assert_eq!(stamp(format(Type::JointState, false), joints([1.0, 2.0]).into()), made);
}
