//! `taut map`: what stays calm, as text, JSON and a picture.

use serde_json::Value;

use crate::world::World;

#[test]
fn a_map_tells_the_same_in_text_json_and_picture() {
    let world = World::new("map");
    let asked = "map --law position_force,wave --rtt 40ms --loss 0%,5% --quiet";
    let found: Value = serde_json::from_str(&world.good(&format!("{asked} --json --svg map.svg"))).unwrap();
    let of = |law: &str, loss: f64| {
        let is = |point: &&Value| point["law"] == law && point["loss_percent"] == loss;
        found["points"].as_array().unwrap().iter().find(is).unwrap()
    };
    // A light grip rattles at the softest wall, and waves keep the stiffest one calm.
    assert_eq!(of("position_force", 0.0)["calm_to_n_m"], Value::Null);
    assert_eq!(of("wave", 0.0)["calm_to_n_m"], found["range_n_m"][1]);
    assert_eq!(of("wave", 5.0)["grips"].as_array().unwrap().len(), 3);
    let (text, picture) = (world.good(asked), String::from_utf8(world.read("map.svg")).unwrap());
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{picture}");
    for told in [&text, &picture] {
        assert!(told.contains("position_force") && told.contains("wave") && told.contains("40"), "{told}");
    }
}

#[test]
fn what_cannot_be_mapped_is_told_with_what_can() {
    let world = World::new("map-refused");
    for (asked, told) in [
        ("map --law springs", "`springs` is no control law; there are position_force"),
        ("map --rtt 2s", "--rtt 2s is longer than 1s"),
        ("map --law wave --rtt 1ms --quiet --svg nowhere/map.svg", "name a file in a folder that is there"),
    ] {
        let ended = world.taut(asked);
        assert!(ended.status != 0 && ended.err.contains(told), "{asked}: {}", ended.err);
    }
}
