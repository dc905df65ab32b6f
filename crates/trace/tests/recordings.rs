//! Recordings of real devices and networks give the rows and rates that their README tells.

use std::path::PathBuf;

use taut_core::{Duration, Probability};
use taut_trace::{Data, Recording, info, read, read_bytes, write, write_csv, write_mcap};

/// The folder of recordings: `TAUT_DATA`, else beside the repository. `None`, said aloud, when it is not there.
#[expect(clippy::print_stdout, reason = "a test that does nothing says so")]
fn data(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("TAUT_DATA").map(PathBuf::from);
    let root = root.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    let path = root.join(folder);
    if !path.is_dir() {
        println!("skipped: no recordings in {}; set TAUT_DATA to where they are", path.display());
        return None;
    }
    Some(path)
}

fn haptic_recordings() -> Vec<(String, Recording)> {
    let Some(folder) = data("haptics-1dof") else { return Vec::new() };
    let files = std::fs::read_dir(folder).expect("a readable folder").flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "csv")).collect();
    files.sort();
    let name = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), read(path).expect("a recording"))).collect()
}

#[test]
fn haptic_recordings_have_their_rows_and_two_kilohertz() {
    let recordings = haptic_recordings();
    let mut table = String::new();
    for (name, recording) in &recordings {
        let info = info(recording);
        let interval = info.interval.unwrap();
        let row = format!(
            "{name} {} {:.4} {:.0} {}\n",
            info.rows, info.duration_s, info.rate_hz, interval.gaps.count
        );
        table.push_str(&row);
        let names: Vec<_> =
            info.channels.iter().map(|channel| (channel.name.as_str(), channel.unit)).collect();
        let expected = [
            ("leader_position", "rad"),
            ("follower_position", "rad"),
            ("leader_torque", "N·m"),
            ("follower_torque", "N·m"),
        ];
        assert_eq!(names, expected, "{name}");
    }
    if !recordings.is_empty() {
        assert_eq!(table, HAPTIC_ROWS);
    }
}

/// Name, rows, seconds, hertz, gaps.
const HAPTIC_ROWS: &str = "\
ab_free_motion 8816 4.4075 2000 0
ab_rigid 9015 4.5070 2000 0
ab_spring 8614 4.3065 2000 0
ac_foam 9215 4.6070 2000 0
ba_foam 9415 4.7070 2000 0
ba_free_motion 8614 4.3065 2000 0
ba_rigid 10000 4.9995 2000 0
ba_spring 9816 4.9075 2000 0
bb_free_motion 9216 4.6075 2000 0
bb_rigid 9820 4.9095 2000 0
bb_spring 10000 4.9995 2000 0
bc_foam 9620 4.8095 2000 0
bc_foam2 9415 4.7070 2000 0
";

#[test]
fn haptic_recordings_are_played_at_one_kilohertz_with_every_second_value() {
    for (name, recording) in haptic_recordings() {
        let Data::Signals(signals) = recording.into_data() else { panic!("{name} is a table of signals") };
        let kilohertz = signals.resample(Duration::from_millis(1)).unwrap();
        assert_eq!(kilohertz.len(), signals.len().div_ceil(2), "{name}");
        let (all, half) =
            (signals.channel("leader_torque").unwrap(), kilohertz.channel("leader_torque_nm").unwrap());
        let every_second: Vec<f64> = all.values().iter().step_by(2).copied().collect();
        assert_eq!(half.values(), every_second, "{name}");
    }
}

#[test]
fn haptic_recordings_survive_mcap_bit_by_bit() {
    for (name, recording) in haptic_recordings().into_iter().take(3) {
        let mcap = write_mcap(&recording).unwrap();
        assert_eq!(mcap, write_mcap(&recording).unwrap(), "{name}: the same bytes");
        let back = read_bytes("back.mcap", &mcap).unwrap();
        assert_eq!(back.data(), recording.data(), "{name}");
        assert_eq!(write_csv(&back), write_csv(&recording), "{name}");
    }
}

#[test]
fn impairment_tables_are_played_at_one_row_a_second() {
    let Some(folder) = data("multipath-5g") else { return };
    let rows = |file: &str| match read(&folder.join(file)).unwrap().into_data() {
        Data::Impairments(impairments) => impairments,
        other => panic!("{file} is {}", other.kind()),
    };
    let path_a = rows("PathA_impairments.csv");
    assert_eq!(path_a.rows().len(), 69);
    let first = path_a.rows()[0];
    // 1825026.535242290 and 1859887.973273940 nanoseconds in the file.
    assert_eq!(first.delay, Some(Duration::from_nanos(1_825_027)));
    assert_eq!(first.jitter, Some(Duration::from_nanos(1_859_888)));
    assert_eq!(first.loss, None);
    assert_eq!(rows("PathB_impairments.csv").rows().len(), 69);
    let losses = rows("Path_losses_for_congestion.csv");
    assert_eq!(losses.rows().len(), 69);
    assert_eq!(losses.rows()[0].loss, Some(Probability::from_fraction(0.001).unwrap()));
    assert_eq!(losses.rows()[0].delay, None);
}

#[test]
fn files_are_written_by_their_extension() {
    let folder = std::env::temp_dir().join(format!("taut-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let recording = read_bytes("a.csv", b"time_s,x_m\n0,1\n0.5,2\n").unwrap();
    for name in ["out.csv", "out.MCAP"] {
        let path = folder.join(name);
        write(&path, &recording).unwrap();
        assert_eq!(read(&path).unwrap().data(), recording.data(), "{name}");
    }
    let error = write(&folder.join("out.txt"), &recording).unwrap_err().to_string();
    assert!(error.ends_with("out.txt: cannot write this kind of file; name it .csv or .mcap"), "{error}");
    let error = read(&folder.join("none.csv")).unwrap_err().to_string();
    assert!(error.contains("none.csv: No such file"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
