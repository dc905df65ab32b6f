//! Hashes of types, `RIHS01_…`: SHA-256 of a type's description with those it refers to, as canonical JSON (REP-2011, REP-2016).

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// What distributions before Iron say instead.
pub(crate) const UNSUPPORTED: &str = "TypeHashNotSupported";

/// Types that robots are commonly moved and observed by, and what they are made of. The hash of any other is learned from peers.
const TYPES: [(&str, &str); 22] = [
    ("builtin_interfaces/msg/Time", "int32 sec, uint32 nanosec"),
    ("builtin_interfaces/msg/Duration", "int32 sec, uint32 nanosec"),
    ("std_msgs/msg/Header", "builtin_interfaces/msg/Time stamp, string frame_id"),
    ("std_msgs/msg/MultiArrayDimension", "string label, uint32 size, uint32 stride"),
    ("std_msgs/msg/MultiArrayLayout", "std_msgs/msg/MultiArrayDimension[] dim, uint32 data_offset"),
    ("std_msgs/msg/Float64MultiArray", "std_msgs/msg/MultiArrayLayout layout, float64[] data"),
    ("std_msgs/msg/String", "string data"),
    ("geometry_msgs/msg/Vector3", "float64 x, float64 y, float64 z"),
    ("geometry_msgs/msg/Point", "float64 x, float64 y, float64 z"),
    ("geometry_msgs/msg/Quaternion", "float64 x, float64 y, float64 z, float64 w"),
    ("geometry_msgs/msg/Pose", "geometry_msgs/msg/Point position, geometry_msgs/msg/Quaternion orientation"),
    ("geometry_msgs/msg/PoseStamped", "std_msgs/msg/Header header, geometry_msgs/msg/Pose pose"),
    ("geometry_msgs/msg/Twist", "geometry_msgs/msg/Vector3 linear, geometry_msgs/msg/Vector3 angular"),
    ("geometry_msgs/msg/TwistStamped", "std_msgs/msg/Header header, geometry_msgs/msg/Twist twist"),
    ("geometry_msgs/msg/Wrench", "geometry_msgs/msg/Vector3 force, geometry_msgs/msg/Vector3 torque"),
    ("geometry_msgs/msg/WrenchStamped", "std_msgs/msg/Header header, geometry_msgs/msg/Wrench wrench"),
    (
        "sensor_msgs/msg/JointState",
        "std_msgs/msg/Header header, string[] name, float64[] position, float64[] velocity, float64[] effort",
    ),
    ("sensor_msgs/msg/Joy", "std_msgs/msg/Header header, float32[] axes, int32[] buttons"),
    ("sensor_msgs/msg/CompressedImage", "std_msgs/msg/Header header, string format, uint8[] data"),
    (
        "trajectory_msgs/msg/JointTrajectoryPoint",
        "float64[] positions, float64[] velocities, float64[] accelerations, float64[] effort, \
         builtin_interfaces/msg/Duration time_from_start",
    ),
    (
        "trajectory_msgs/msg/JointTrajectory",
        "std_msgs/msg/Header header, string[] joint_names, trajectory_msgs/msg/JointTrajectoryPoint[] points",
    ),
    (
        "control_msgs/msg/JointJog",
        "std_msgs/msg/Header header, string[] joint_names, float64[] displacements, float64[] velocities, \
         float64 duration",
    ),
];

/// Numbers of `type_description_interfaces/msg/FieldType`.
const PRIMITIVES: [(&str, u8); 6] =
    [("uint8", 3), ("int32", 6), ("uint32", 7), ("float32", 10), ("float64", 11), ("string", 17)];
const NESTED: u8 = 1;
const UNBOUNDED_SEQUENCE: u8 = 144;

/// A type's own description; those that it refers to are added by their names.
fn describe(kind: &'static str, others: &mut BTreeMap<&'static str, String>) -> Option<String> {
    let (_, fields) = TYPES.iter().find(|(known, _)| *known == kind)?;
    let mut text = format!("{{\"type_name\": \"{kind}\", \"fields\": [");
    for (at, field) in fields.split(", ").enumerate() {
        let (element, name) = field.split_once(' ')?;
        let (element, sequence) =
            element.strip_suffix("[]").map_or((element, 0), |element| (element, UNBOUNDED_SEQUENCE));
        let primitive = PRIMITIVES.iter().find(|(known, _)| *known == element);
        let nested = if primitive.is_some() { "" } else { element };
        if !nested.is_empty() && !others.contains_key(nested) {
            let described = describe(nested, others)?;
            others.insert(nested, described);
        }
        let number = primitive.map_or(NESTED, |(_, number)| *number) + sequence;
        let comma = if at == 0 { "" } else { ", " };
        let _ = write!(
            text,
            "{comma}{{\"name\": \"{name}\", \"type\": {{\"type_id\": {number}, \"capacity\": 0, \
             \"string_capacity\": 0, \"nested_type_name\": \"{nested}\"}}}}"
        );
    }
    Some(text + "]}")
}

/// Of a type such as `sensor_msgs/msg/Joy`; `None`: it is not known here.
pub(crate) fn of(kind: &str) -> Option<String> {
    let (kind, _) = TYPES.iter().find(|(known, _)| *known == kind)?;
    let mut others = BTreeMap::new();
    let own = describe(kind, &mut others)?;
    let others: Vec<String> = others.into_values().collect();
    let text =
        format!("{{\"type_description\": {own}, \"referenced_type_descriptions\": [{}]}}", others.join(", "));
    let digest = Sha256::digest(text.as_bytes());
    Some(digest.iter().fold("RIHS01_".to_owned(), |hash, byte| format!("{hash}{byte:02x}")))
}

/// Does a message of this type begin with a `std_msgs/msg/Header`? `None`: it is not known here.
pub(crate) fn has_header(kind: &str) -> Option<bool> {
    match TYPES.iter().find(|(known, _)| *known == kind) {
        Some((_, fields)) => Some(fields.starts_with("std_msgs/msg/Header ")),
        // None of these does.
        None => (kind.starts_with("std_msgs/") || kind == "tf2_msgs/msg/TFMessage").then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_described() {
        for (kind, _) in TYPES {
            assert_eq!(of(kind).map(|hash| hash.len()), Some("RIHS01_".len() + 64), "{kind}");
        }
        assert_eq!(of("sensor_msgs/msg/Image"), None);
        // As others compute it.
        let expected = "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e";
        assert_eq!(of("sensor_msgs/msg/JointState").as_deref(), Some(expected));
    }
}
