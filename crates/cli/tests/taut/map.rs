//! `taut map`: what stays calm, as text, JSON and a picture.

use serde_json::Value;

use crate::world::World;

#[test]
fn a_map_is_told_as_text_as_json_and_as_a_picture() {
    let world = World::new("map");
    let found: Value =
        serde_json::from_str(&world.good("map --law wave --rtt 4ms,40ms --json --quiet --svg map.svg"))
            .unwrap();
    // Waves keep the stiffest wall calm.
    let points = found["points"].as_array().unwrap();
    assert_eq!(
        points.iter().map(|point| point["rtt_ms"].as_f64()).collect::<Vec<_>>(),
        [Some(4.0), Some(40.0)]
    );
    for point in points {
        assert_eq!((&point["law"], &point["calm_to_n_m"]), (&Value::from("wave"), &found["range_n_m"][1]));
        assert_eq!(point["grips"].as_array().unwrap().len(), 3);
    }
    let picture = String::from_utf8(world.read("map.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{picture}");
    let text = world.good("map --law oracle --rtt 4ms --quiet");
    assert!(text.contains("oracle") && picture.contains("wave"), "{text} {picture}");
}

#[test]
fn what_cannot_be_mapped_is_told_with_what_can() {
    let world = World::new("map-refused");
    for (asked, told) in [
        ("map --law springs", "`springs` is no control law; there are position_force"),
        ("map --rtt 2s", "--rtt 2s is longer than 1s"),
        ("map saving --loss 1%", "saving draws no picture and has losses of its own"),
        ("map parts --svg map.svg", "parts draws no picture"),
        ("map saving --law position_force --quiet", "saving is of laws of energy"),
        ("map --law wave --rtt 1ms --quiet --svg nowhere/map.svg", "name a file in a folder that is there"),
    ] {
        let ended = world.taut(asked);
        assert!(ended.status != 0 && ended.err.contains(told), "{asked}: {}", ended.err);
    }
}

#[test]
fn what_is_felt_is_told_beside_the_truth() {
    let world = World::new("map-transparency");
    let arguments =
        "map transparency --law oracle,position_force --rtt 40ms --loss 5% --quiet --svg felt.svg";
    let found: Value = serde_json::from_str(&world.good(&format!("{arguments} --json"))).unwrap();
    let points = found["points"].as_array().unwrap();
    let wall =
        |law: &str| points.iter().find(|point| point["law"] == law && point["thing"] == "wall").unwrap();
    let error = |law: &str| wall(law)["felt"]["error_percent"].as_f64().unwrap();
    assert!(error("oracle") < 1.0 && error("position_force") > 50.0, "{found}");
    assert!(wall("oracle")["clairvoyant_error_percent"].is_f64());
    let text = world.good(&arguments.replace("oracle,", ""));
    assert!(text.contains("**wall**, 1500 N/m behind the arm") && text.contains("lossless"), "{text}");
    assert!(world.read("felt.svg").starts_with(b"<svg"));
}
