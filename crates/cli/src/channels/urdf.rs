//! Limits of joints from a URDF (<https://wiki.ros.org/urdf/XML/joint>).

use roxmltree::{Document, Node};
use taut_session::motion::{JointLimits, JointsLimits};

/// Of the joints of these names in that order, or of all that move by themselves in the order of the file; with their
/// names.
pub(super) fn limits(text: &str, names: Option<&[String]>) -> Result<(JointsLimits, Vec<String>), String> {
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let joints = joints(&document)?;
    let chosen: Vec<Node<'_, '_>> = match names {
        None => joints.iter().copied().filter(|joint| moves(*joint)).collect(),
        Some(names) => {
            let named = |name: &String| {
                let found = joints.iter().copied().find(|joint| name_of(*joint) == name);
                found.ok_or_else(|| {
                    let all: Vec<&str> =
                        joints.iter().filter(|joint| moves(**joint)).map(|joint| name_of(*joint)).collect();
                    format!("there is no joint {name:?}; those that move are {}", all.join(", "))
                })
            };
            names.iter().map(named).collect::<Result<_, _>>()?
        }
    };
    let names = chosen.iter().map(|joint| name_of(*joint).to_owned()).collect();
    let limits: Vec<JointLimits> = chosen.into_iter().map(joint).collect::<Result<_, _>>()?;
    let limits = JointsLimits::each(limits).map_err(|error| error.to_string())?;
    Ok((limits, names))
}

/// All of them, in the order of the file.
fn joints<'a>(document: &'a Document<'_>) -> Result<Vec<Node<'a, 'a>>, String> {
    let robot = document.root_element();
    if !robot.has_tag_name("robot") {
        return Err("it is no URDF: its first element is not `robot`".to_owned());
    }
    Ok(robot.children().filter(|node| node.has_tag_name("joint")).collect())
}

/// The most links that a page draws.
#[cfg(feature = "console")]
const LINKS: usize = 256;

/// The names of the joints that move by themselves of a model that a page draws, in the order of the file.
#[cfg(feature = "console")]
pub(super) fn shown(text: &str) -> Result<Vec<String>, String> {
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let joints = joints(&document)?;
    let with_tag = |tag: &'static str| document.descendants().filter(move |node| node.has_tag_name(tag));
    if let Some(mesh) = with_tag("mesh").next() {
        let line = document.text_pos_at(mesh.range().start).row;
        return Err(format!("line {line}: a mesh is not shown; box, cylinder and sphere are"));
    }
    if with_tag("visual").count() > LINKS || joints.len() > LINKS {
        return Err(format!("it has more than {LINKS} joints or visuals"));
    }
    let moving: Vec<String> =
        joints.iter().filter(|joint| moves(**joint)).map(|joint| name_of(*joint).to_owned()).collect();
    if moving.is_empty() {
        return Err("none of its joints moves".to_owned());
    }
    Ok(moving)
}

fn name_of<'a>(joint: Node<'a, '_>) -> &'a str {
    joint.attribute("name").unwrap_or("?")
}

/// Is it told where to be? One that mimics another, and one that is fixed, is not.
fn moves(joint: Node<'_, '_>) -> bool {
    joint.attribute("type") != Some("fixed") && !joint.children().any(|child| child.has_tag_name("mimic"))
}

fn joint(joint: Node<'_, '_>) -> Result<JointLimits, String> {
    let (units, has_range) = match joint.attribute("type") {
        Some("revolute") => ("rad, rad/s, N·m", true),
        Some("prismatic") => ("m, m/s, N", true),
        Some("continuous") => ("rad/s, N·m", false),
        other => {
            let kind = other.unwrap_or("none");
            return Err(wrong(
                joint,
                &format!("its type is {kind}, and revolute, prismatic and continuous joints can be moved"),
            ));
        }
    };
    let needed = if has_range {
        "lower=\"…\" upper=\"…\" velocity=\"…\" effort=\"…\""
    } else {
        "velocity=\"…\" effort=\"…\""
    };
    let limit = joint.children().find(|child| child.has_tag_name("limit"));
    let limit = limit.ok_or_else(|| {
        wrong(
            joint,
            &format!("it has no limits, and is not moved without: add <limit {needed}/> to it ({units})"),
        )
    })?;
    let number = |name: &str| match limit.attribute(name).map(str::trim) {
        None => Err(wrong(joint, &format!("its <limit> has no {name}; needed are {needed} ({units})"))),
        Some(text) => match text.parse::<f32>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(wrong(joint, &format!("{name}={text:?} is no limit"))),
        },
    };
    let (velocity, effort) = (number("velocity")?, number("effort")?);
    if velocity <= 0.0 || effort <= 0.0 {
        return Err(wrong(
            joint,
            "velocity and effort of its <limit> are to be more than 0: with 0 it does not move",
        ));
    }
    let limits = JointLimits::new().velocity(velocity).effort(effort);
    if !has_range {
        return Ok(limits);
    }
    // Both are 0 where they are left out, by the URDF's rules: a joint that cannot move is a mistake here.
    let (lower, upper) = (number("lower")?, number("upper")?);
    if lower >= upper {
        return Err(wrong(joint, &format!("lower={lower} is not less than upper={upper}")));
    }
    Ok(limits.position(lower, upper))
}

fn wrong(joint: Node<'_, '_>, what: &str) -> String {
    let line = joint.document().text_pos_at(joint.range().start).row;
    format!("line {line}: joint {:?}: {what}", name_of(joint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM: &str = r#"<?xml version="1.0"?>
<robot name="arm">
  <link name="base"/>
  <joint name="mount" type="fixed"/>
  <joint name="shoulder" type="revolute">
    <limit lower="-2.9" upper="2.9" velocity="2.1" effort="87"/>
  </joint>
  <joint name="slide" type="prismatic"><limit lower="0" upper="0.04" velocity="0.1" effort="20"/></joint>
  <joint name="finger" type="prismatic"><mimic joint="slide"/></joint>
  <joint name="wheel" type="continuous"><limit velocity="10" effort="5"/></joint>
</robot>"#;

    fn bounds(text: &str, names: Option<&[&str]>) -> Result<Vec<[f32; 4]>, String> {
        let names: Option<Vec<String>> =
            names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let (limits, _) = limits(text, names.as_deref())?;
        Ok(limits.joints().iter().map(JointLimits::bounds).collect())
    }

    #[cfg(feature = "console")]
    #[test]
    fn a_page_is_given_the_joints_that_move_of_a_model_of_primitives() {
        assert_eq!(shown(ARM).unwrap(), ["shoulder", "slide", "wheel"]);
        assert_eq!(shown(taut_video::ARM_URDF).unwrap(), ["column", "shoulder", "elbow"]);
        let with = |link: &str| ARM.replace("<link name=\"base\"/>", &format!("<link>{link}</link>"));
        let mesh = "<visual><geometry><mesh filename=\"package://arm/base.stl\"/></geometry></visual>";
        assert_eq!(
            shown(&with(mesh)).unwrap_err(),
            "line 3: a mesh is not shown; box, cylinder and sphere are"
        );
        let many = "<visual/>".repeat(LINKS + 1);
        assert!(shown(&with(&many)).unwrap_err().contains("more than 256"));
        let grows = "<!DOCTYPE robot [<!ENTITY a \"aaaa\">]><robot name=\"&a;\"/>";
        for wrong in ["<robot/>", "<mujoco/>", "<robot>", grows] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn joints_that_move_have_the_limits_of_the_file_in_its_order_or_in_another() {
        let (shoulder, slide) = ([-2.9, 2.9, 2.1, 87.0], [0.0, 0.04, 0.1, 20.0]);
        let wheel = [f32::NEG_INFINITY, f32::INFINITY, 10.0, 5.0];
        assert_eq!(bounds(ARM, None), Ok(vec![shoulder, slide, wheel]));
        assert_eq!(bounds(ARM, Some(&["slide", "shoulder"])), Ok(vec![slide, shoulder]));
    }

    #[test]
    fn a_joint_without_limits_is_refused_with_its_line_and_what_to_add() {
        let with = |from: &str, to: &str| bounds(&ARM.replace(from, to), None).unwrap_err();
        let all = r#"<limit lower="-2.9" upper="2.9" velocity="2.1" effort="87"/>"#;
        let error = with(all, "");
        assert!(error.starts_with("line 5: joint \"shoulder\": it has no limits"), "{error}");
        assert!(
            error.contains("add <limit lower=\"…\" upper=\"…\" velocity=\"…\" effort=\"…\"/>"),
            "{error}"
        );
        for (from, to, what) in [
            (" effort=\"87\"", "", "its <limit> has no effort"),
            ("lower=\"-2.9\" ", "", "its <limit> has no lower"),
            ("upper=\"2.9\"", "upper=\"-3\"", "lower=-2.9 is not less than upper=-3"),
            ("velocity=\"2.1\"", "velocity=\"inf\"", "velocity=\"inf\" is no limit"),
            ("effort=\"87\"", "effort=\"0\"", "more than 0"),
            ("continuous", "floating", "its type is floating"),
            ("<robot", "<model", "expected"),
        ] {
            let error = with(from, to);
            assert!(error.contains(what), "{error}");
        }
        let error = bounds(ARM, Some(&["elbow"])).unwrap_err();
        assert_eq!(error, "there is no joint \"elbow\"; those that move are shoulder, slide, wheel");
        assert!(bounds("<sdf/>", None).unwrap_err().contains("no URDF"));
        assert!(bounds("<robot/>", None).unwrap_err().contains("0 joints"));
    }
}
