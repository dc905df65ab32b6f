//! Real recordings as what a haptic device feels.

use crate::world::{done, medium, recordings, short};

#[test]
fn real_recordings_drive_a_session() {
    let Some(folder) = recordings("haptics-1dof") else { return };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "csv"));
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let haptic = |sampler: &str| {
            format!(
                "haptic = {{ source = {{ recording = {{ file = \"{}\", channels = [\"follower_torque_nm\"] }} }}, \
                 sampler = {sampler} }}",
                file.display()
            )
        };
        let what = file.display().to_string();
        let run = |sampler| done(&what, &short(r#"{ delay = "5ms" }"#, "", &haptic(sampler)));
        let (every, deadband) = (run("\"every\""), run("{ deadband = { k = 0.1, floor = 0.002 } }"));
        let (every, deadband) = (medium(&every, "backward haptic"), medium(&deadband, "backward haptic"));
        // What is made before there is a session is not counted.
        assert!(every.made > 950 && every.withheld == 0 && every.lost == 0, "{what}");
        assert_eq!((deadband.made, deadband.lost), (every.made, 0), "{what}");
        assert!(deadband.withheld > 100, "{what}: {}", deadband.withheld);
        // The keep-alive, every 100 ms.
        assert!(deadband.delivered >= 10, "{what}: {}", deadband.delivered);
    }
}

#[test]
fn a_recording_is_named_with_its_hash() {
    let Some(folder) = recordings("haptics-1dof") else { return };
    let file = folder.join("ab_rigid.csv").display().to_string();
    let source = format!("{{ recording = {{ file = \"{file}\", channels = [\"leader_torque_nm\"] }} }}");
    let result = done("hash", &short("", "", &format!("haptic = {{ source = {source} }}")));
    assert_eq!(result.inputs.len(), 1);
    assert_eq!((result.inputs[0].path.as_str(), result.inputs[0].sha256.len()), (file.as_str(), 64));
}
