//! Files of a run, read back by other code than wrote them.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row, RowAccessor};
use taut_core::Seed;
use taut_lab::job::{compare, lay, many, single};
use taut_lab::run::{Extras, Output, RunError, run};
use taut_lab::scenario::Variant;

use crate::world::{medium, short};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn samples_read_back_as_they_were_delivered() {
    let folder = folder("samples");
    let chain = r#"{ server = { rate = "6Mbit" } }, { delay = "8ms" }, { loss = { bernoulli = "2%" } }"#;
    let scenario = short(chain, "", "haptic = {}\naudio = {}\nvideo = { source = \"vp8\" }");
    let extras = Extras { samples: true, ..Extras::default() };
    let (result, written) = single(&scenario, Seed::new(3), extras, Some(&folder), &mut |_| ()).unwrap();
    assert!(written.files.contains(&folder.join("samples.parquet")), "{written:?}");
    let reader = SerializedFileReader::new(File::open(folder.join("samples.parquet")).unwrap()).unwrap();
    let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let end = scenario.duration.as_nanos() as i64;
    for stream in ["forward haptic", "backward haptic", "backward audio", "backward video"] {
        let named =
            |row: &&Row| format!("{} {}", row.get_string(0).unwrap(), row.get_string(1).unwrap()) == stream;
        // Devices go on while the last samples that count are under way.
        let of: Vec<&Row> = rows.iter().filter(named).filter(|row| row.get_long(3).unwrap() < end).collect();
        let medium = medium(&result, stream);
        assert_eq!(of.len() as u64, medium.delivered, "{stream}");
        let delay = |row: &&Row| (row.get_long(4).unwrap() - row.get_long(3).unwrap()) as f64 / 1e6;
        let mean = of.iter().map(delay).sum::<f64>() / of.len() as f64;
        let told = medium.delay_ms.as_ref().unwrap().mean;
        assert!((mean - told).abs() < 1e-6, "{stream}: {mean} {told}");
        let mut sequences: Vec<i64> = of.iter().map(|row| row.get_long(2).unwrap()).collect();
        sequences.sort_unstable();
        sequences.dedup();
        assert_eq!(sequences.len(), of.len(), "{stream}: a sample is delivered once");
    }
}

#[test]
fn a_variant_that_is_refused_leaves_the_others_what_they_found() {
    let folder = folder("refused");
    let scenario = short(r#"{ delay = "8ms" }"#, "", "haptic = {}");
    let variants = ["first", "refused", "last"]
        .map(|name| (Variant { name: name.to_owned(), ..Variant::default() }, scenario.clone()));
    // At its second seed.
    let mut real =
        |variant: &Variant, scenario: &_, seed: Seed, progress: &mut dyn FnMut(f64)| match &*variant.name {
            "refused" if seed == Seed::new(2) => Ok(Err(RunError::Scenario("refused".to_owned()))),
            _ => run(scenario, seed, progress).map(Ok),
        };
    let (result, written) =
        compare(&scenario, &variants, &[1, 2], false, Some(&folder), &mut real, &|_| ()).unwrap();
    let ran: Vec<_> = result.runs.iter().map(|run| (&*run.variant, run.seed)).collect();
    assert_eq!(ran, [("first", 1), ("first", 2), ("last", 1), ("last", 2)]);
    assert!(written.files.contains(&folder.join("comparison.json")));
    assert!(!folder.join("runs/02-refused").exists(), "nothing of it is written");
}

#[test]
fn where_every_variant_is_refused_what_was_found_before_stays() {
    let folder = folder("all-refused");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("comparison.json"), "of before").unwrap();
    let scenario = short(r#"{ delay = "8ms" }"#, "", "haptic = {}");
    let variants = ["first", "last"]
        .map(|name| (Variant { name: name.to_owned(), ..Variant::default() }, scenario.clone()));
    let mut real = |variant: &Variant, _: &_, _, _: &mut dyn FnMut(f64)| {
        Ok(Err(RunError::Scenario(format!("{} is refused", variant.name))))
    };
    let done = compare(&scenario, &variants, &[1, 2], false, Some(&folder), &mut real, &|_| ());
    assert_eq!(done.unwrap_err().to_string(), "first is refused");
    assert_eq!(std::fs::read_to_string(folder.join("comparison.json")).unwrap(), "of before");
}

#[test]
fn an_output_that_is_not_committed_leaves_nothing() {
    let folder = folder("uncommitted");
    let inner = folder.join("a/b");
    let mut output = Output::new(&inner).unwrap();
    output.write("one.txt", b"1").unwrap();
    output.write("figures/two.txt", b"2").unwrap();
    drop(output);
    assert!(!folder.exists());
}

#[test]
fn an_output_that_is_committed_replaces_what_was_there() {
    let folder = folder("committed");
    for text in ["older", "newer"] {
        let mut output = Output::new(&folder).unwrap();
        output.write("one.txt", text.as_bytes()).unwrap();
        if text == "newer" {
            assert_eq!(std::fs::read(folder.join("one.txt")).unwrap(), b"older");
        }
        assert_eq!(output.commit().unwrap(), [folder.join("one.txt")]);
    }
    assert_eq!(std::fs::read(folder.join("one.txt")).unwrap(), b"newer");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

/// Everything in a folder, by its path in it.
fn listed(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for path in std::fs::read_dir(inner).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn what_belonged_to_an_earlier_run_in_the_folder_goes_and_nothing_else() {
    let folder = folder("earlier");
    let scenario = |backward| short(r#"{ server = { rate = "6Mbit" } }, { delay = "8ms" }"#, "", backward);
    let all = Extras { capture: true, events: true, samples: true };
    let both = scenario("haptic = {}\nvideo = { source = \"vp8\" }");
    single(&both, Seed::new(1), all, Some(&folder), &mut |_| ()).unwrap();
    assert!(folder.join("figures/delay-backward-video.svg").exists(), "{:?}", listed(&folder));
    let foreign = ["notes.txt", "figures/my-own.svg", "figures/notes.txt", "other.pcapng"];
    foreign.iter().for_each(|name| std::fs::write(folder.join(name), "<svg>mine</svg>").unwrap());
    let (_, written) =
        single(&scenario("haptic = {}"), Seed::new(1), Extras::default(), Some(&folder), &mut |_| ())
            .unwrap();
    let gone: Vec<PathBuf> =
        ["packets.pcapng", "events.jsonl", "samples.parquet", "figures/delay-backward-video.svg"]
            .map(|name| folder.join(name))
            .to_vec();
    assert!(gone.iter().all(|path| written.removed.contains(path)), "{:?}", written.removed);
    let mut expected = written.files.clone();
    expected.extend(foreign.map(|name| folder.join(name)));
    expected.sort();
    assert_eq!(listed(&folder).iter().map(|name| folder.join(name)).collect::<Vec<_>>(), expected);
    assert_eq!(written.unrelated, [] as [PathBuf; 0]);
}

#[test]
fn results_of_a_campaign_are_never_removed_but_named() {
    let folder = folder("campaign-then-run");
    let scenario = short(r#"{ delay = "8ms" }"#, "", "haptic = {}");
    let variants = scenario.expand().unwrap();
    let (_, campaign) = many(&scenario, &variants, &[1, 2], Some(&folder), &|_| ()).unwrap();
    let (_, run) = single(&scenario, Seed::new(1), Extras::default(), Some(&folder), &mut |_| ()).unwrap();
    let named = ["campaign.json", "runs/01/seed-1.json", "runs/01/seed-2.json"].map(|name| folder.join(name));
    assert_eq!(run.unrelated, named);
    assert!(named.iter().all(|path| path.exists()));
    assert!(
        campaign
            .files
            .iter()
            .filter(|path| path.starts_with(folder.join("figures")))
            .all(|path| { run.files.contains(path) || !path.exists() })
    );
    let (_, again) = many(&scenario, &variants, &[2], Some(&folder), &|_| ()).unwrap();
    assert_eq!(again.unrelated, [folder.join("run.json"), folder.join("runs/01/seed-1.json")]);
}

#[test]
fn a_report_that_is_laid_over_another_replaces_it_and_names_what_is_left_of_it() {
    let [made, folder] = ["lay-made", "lay"].map(folder);
    let write = |path: PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let result = r#"{"taut": "1"}"#;
    for (folder, seed) in [(&made, 1), (&folder, 2)] {
        write(folder.join("comparison.json"), result);
        write(folder.join(format!("runs/01/seed-{seed}-kernel.json")), result);
    }
    write(folder.join("figures/cdf-old.svg"), taut_report::FIGURE_BEGINS);
    let written = lay(&made, &folder).unwrap();
    assert_eq!(written.removed, [folder.join("figures/cdf-old.svg")]);
    assert_eq!(written.unrelated, [folder.join("runs/01/seed-2-kernel.json")]);
    assert!(folder.join("runs/01/seed-1-kernel.json").exists());
}

#[test]
fn a_recording_that_this_run_read_is_not_removed() {
    let folder = folder("own-input");
    let first = short(r#"{ delay = "8ms" }"#, "", "haptic = {}");
    let extras = Extras { capture: true, ..Extras::default() };
    single(&first, Seed::new(1), extras, Some(&folder), &mut |_| ()).unwrap();
    let capture = folder.join("packets.pcapng");
    let cross = format!(
        "{}\n[cross.again]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ replay = {{ file = {:?} }} }}\n",
        first.to_toml(),
        capture.display().to_string()
    );
    let second = taut_lab::scenario::Scenario::parse("again.toml", &cross).unwrap();
    let (_, written) = single(&second, Seed::new(1), Extras::default(), Some(&folder), &mut |_| ()).unwrap();
    assert!(capture.exists() && !written.removed.contains(&capture), "{written:?}");
}

#[test]
fn files_of_the_users_own_in_a_folder_that_is_not_tauts_are_left_and_named() {
    let scenario = short(r#"{ delay = "8ms" }"#, "", "haptic = {}");
    // A result is known by what is in it, not by its name.
    for (name, other) in
        [("no result", None), ("other json", Some("{\"mine\": 1}")), ("no json", Some("run"))]
    {
        let folder = folder(&format!("not-tauts-{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        let mine = ["packets.pcapng", "events.jsonl", "samples.parquet"].map(|name| folder.join(name));
        mine.iter().for_each(|path| std::fs::write(path, "mine").unwrap());
        other.iter().for_each(|text| std::fs::write(folder.join("campaign.json"), text).unwrap());
        let (_, written) =
            single(&scenario, Seed::new(1), Extras::default(), Some(&folder), &mut |_| ()).unwrap();
        assert_eq!(written.removed, [] as [PathBuf; 0], "{name}");
        for path in &mine {
            assert_eq!(std::fs::read(path).unwrap(), b"mine", "{name}");
            assert!(written.unrelated.contains(path), "{name}: {written:?}");
        }
    }
}

#[test]
fn when_one_file_cannot_be_moved_the_folder_is_as_it_was() {
    let folder = folder("undone");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("one.txt"), "older").unwrap();
    let mut output = Output::new(&folder).unwrap();
    for name in ["one.txt", "inner/two.txt", "three.txt", "four.txt"] {
        output.write(name, b"newer").unwrap();
    }
    // In the way since the file was begun.
    std::fs::create_dir(folder.join("three.txt")).unwrap();
    let error = output.commit().unwrap_err().to_string();
    assert!(error.contains("three.txt"), "{error}");
    assert_eq!(listed(&folder), ["one.txt"]);
    assert_eq!(std::fs::read(folder.join("one.txt")).unwrap(), b"older");
    assert!(!folder.join("inner").exists());
}

#[test]
fn a_name_is_written_once() {
    let mut output = Output::new(&folder("twice")).unwrap();
    output.write("one.txt", b"1").unwrap();
    assert!(output.write("one.txt", b"2").unwrap_err().to_string().contains("written twice"));
}

#[test]
fn a_seed_that_is_given_twice_is_refused_and_writes_nothing() {
    let folder = folder("same-seed");
    let scenario = short(r#"{ delay = "8ms" }"#, "", "haptic = {}");
    let variants = scenario.expand().unwrap();
    let error = many(&scenario, &variants, &[2, 1, 2], Some(&folder), &|_| ()).unwrap_err().to_string();
    assert_eq!(error, "seed 2 is given twice: its runs would be copies; give every seed once");
    assert!(!folder.exists());
}
