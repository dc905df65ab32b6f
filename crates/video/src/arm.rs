//! The arm that a [`Drawing`](crate::Drawing) shows, of which a robot says no more than where its hand is: a column that turns, and two links as long as each other.

/// A point or a direction: x forth, y left, z up, in m.
type Vector = [f32; 3];

/// On which it stands.
pub(crate) const FLOOR: f32 = -0.12;
/// It stands to the left.
pub(crate) const SHOULDER: Vector = [-0.1, 0.3, 0.02];
/// Of each link.
const REACH: f32 = 0.3;

/// It as a URDF, with three joints that move: the column, the shoulder and the elbow, in this order.
pub const ARM_URDF: &str = include_str!("arm.urdf");

/// The angles of its joints, rad, with its hand there; it points there, stretched, where that is out of reach.
///
/// ```
/// let stretched = taut_video::arm_joints([0.5, 0.3, 0.02]);
/// assert!(stretched.iter().all(|angle| angle.abs() < 1e-3));
/// ```
pub fn arm_joints(hand: [f32; 3]) -> [f32; 3] {
    let [x, y, z]: Vector = std::array::from_fn(|part| hand[part] - SHOULDER[part]);
    let half = (x * x + y * y + z * z).sqrt() / 2.0;
    let bends = (REACH * REACH - half * half).max(0.0).sqrt().atan2(half);
    // About y what turns forth turns down.
    [y.atan2(x), -z.atan2(x.hypot(y)) - bends, 2.0 * bends]
}

/// Where its elbow is then: bent upwards.
pub(crate) fn elbow(hand: Vector) -> Vector {
    let [turned, lifted, _] = arm_joints(hand);
    let across = REACH * lifted.cos();
    [
        SHOULDER[0] + across * turned.cos(),
        SHOULDER[1] + across * turned.sin(),
        SHOULDER[2] - REACH * lifted.sin(),
    ]
}

#[cfg(test)]
mod tests {
    use roxmltree::{Document, Node};

    use super::*;

    fn vector(node: Node<'_, '_>, tag: &str, attribute: &str) -> Option<Vector> {
        let text = node.children().find(|child| child.has_tag_name(tag))?.attribute(attribute)?;
        let numbers: Vec<f32> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        numbers.try_into().ok()
    }

    /// Rodrigues' formula.
    fn rotated(vector: Vector, axis: Vector, angle: f32) -> Vector {
        let dot: f32 = (0..3).map(|part| axis[part] * vector[part]).sum();
        std::array::from_fn(|part| {
            let (next, last) = ((part + 1) % 3, (part + 2) % 3);
            let across = axis[next] * vector[last] - axis[last] * vector[next];
            vector[part] * angle.cos() + across * angle.sin() + axis[part] * dot * (1.0 - angle.cos())
        })
    }

    /// Where the links of the model are, the last one first, at these angles of the joints that move.
    fn links(angles: [f32; 3]) -> Vec<Vector> {
        let document = Document::parse(ARM_URDF).unwrap();
        let joints = document.root_element().children().filter(|node| node.has_tag_name("joint"));
        let mut angles = angles.into_iter();
        let chain: Vec<_> = joints
            .map(|joint| {
                let moves = joint.attribute("type") != Some("fixed");
                let angle = if moves { angles.next().unwrap() } else { 0.0 };
                let axis = vector(joint, "axis", "xyz").unwrap_or([1.0, 0.0, 0.0]);
                (vector(joint, "origin", "xyz").unwrap(), axis, angle)
            })
            .collect();
        assert_eq!(angles.next(), None, "as many as move");
        let place = |joints: &[(Vector, Vector, f32)]| {
            joints.iter().rev().fold([0.0; 3], |inner, (origin, axis, angle)| {
                let turned = rotated(inner, *axis, *angle);
                std::array::from_fn(|part| origin[part] + turned[part])
            })
        };
        (1..=chain.len()).rev().map(|count| place(&chain[..count])).collect()
    }

    #[test]
    fn the_hand_of_the_model_is_where_the_robot_says_and_its_elbow_where_it_is_drawn() {
        let steps = || (-4..=4).map(|step| step as f32 * 0.05);
        let places = steps().flat_map(|x| steps().flat_map(move |y| steps().map(move |z| [x, y, z])));
        let distance = |one: Vector, other: Vector| {
            (0..3).map(|part| (one[part] - other[part]).powi(2)).sum::<f32>().sqrt()
        };
        let mut reached = 0;
        for hand in places {
            let links = links(arm_joints(hand));
            assert!(distance(links[1], elbow(hand)) < 1e-5, "{hand:?}: {links:?}");
            if distance(hand, SHOULDER) < 2.0 * REACH {
                reached += 1;
                assert!(distance(links[0], hand) < 1e-5, "{hand:?}: {links:?}");
            }
        }
        assert!(reached > 600, "{reached}");
    }

    #[test]
    fn whatever_a_robot_says_has_angles() {
        for hand in [SHOULDER, [1e9; 3], [-1e9, 0.0, 0.0], [-0.1, 0.3, 0.5]] {
            assert!(arm_joints(hand).iter().all(|angle| angle.is_finite()), "{hand:?}");
        }
    }
}
