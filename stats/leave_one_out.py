#!/usr/bin/env python3
"""Are the constants of the deadline scheduler fitted to the recordings? As Markdown.

    python3 stats/leave_one_out.py ../shared/data/multipath-5g-measured

Each constant is halved and doubled, or moved as far as its meaning allows, in a copy of the sources, and the recordings are run again (about a
minute each; what was run is kept in target/leave-one-out). Then, for each recording in turn, the best choice on the other four recordings of every condition
is taken, among all that keep the goals there, and judged on the one that was left out. Where what is chosen without a recording is as good on it as
what is shipped, nothing was fitted to it.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

from markdown import table

HERE = pathlib.Path(__file__).resolve().parent.parent
MTIP = "crates/transport/src/mtip"
CONSTANTS = [
    ("deadline.rs", "STILL", ["0.98", "0.995"]),
    ("deadline.rs", "LEAST_AFTER_SILENCE", ["0.9", "0.98"]),
    ("deadline.rs", "RARE", ["0.1", "0.4"]),
    ("deadline.rs", "SAME", ["0.05", "0.2"]),
    ("deadline.rs", "UNKNOWN", ["0.015", "0.06"]),
    ("deadline.rs", "TRIED_EVERY", ["Duration::from_millis(50)", "Duration::from_millis(200)"]),
    ("deadline.rs", "FEW", ["0.01", "0.04"]),
    ("deadline.rs", "LEAST_CHANCE", ["0.025", "0.1"]),
    ("estimate.rs", "SAMPLES", ["128", "512"]),
    ("estimate.rs", "ONCE", ["0.5", "0.8"]),
    ("estimate.rs", "ANSWER_WEIGHT", ["1.0 / 64.0", "1.0 / 16.0"]),
    ("estimate.rs", "WEIGHT", ["1.0 / 512.0", "1.0 / 128.0"]),
    ("estimate.rs", "DEATH", ["5e-5", "2e-4"]),
    ("path.rs", "SURE", ["0.7", "0.9"]),
    ("path.rs", "LEAST_SILENCE", ["0.005", "0.02"]),
    ("path.rs", "SAME_FATE", ["0.125", "0.5"]),
    ("path.rs", "SILENT", ["16", "64"]),
    ("path.rs", "MEMORY", ["Duration::from_secs(1)", "Duration::from_secs(4)"]),
]
CONDITIONS = ["stable", "failure", "jitter", "congestion"]
SHIPPED = "as shipped"


def goals(condition):
    """Least share in time, least of one run, most copies."""
    return (99.3, 98.0, 1.9) if condition == "congestion" else (99.9, 99.9, 1.05)


def changed(text, name, value):
    lines = text.splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if f"const {name}: " in line]
    if len(at) != 1:
        sys.exit(f"there are {len(at)} constants {name}")
    head = lines[at[0]].split(" = ")[0]
    lines[at[0]] = f"{head} = {value};\n"
    return "".join(lines)


def measure(folder, data):
    command = ["cargo", "test", "--quiet", "--offline", "--locked", "-p", "taut-transport", "--test", "transport", "each_recording", "--", "--ignored", "--nocapture"]
    env = {**os.environ, "TAUT_DATA": str(data.parent.resolve()), "CARGO_TARGET_DIR": str(HERE / "target" / "leave-one-out" / "build")}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    runs = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("run ")]
    if done.returncode or not runs:
        sys.exit(done.stderr or f"no recordings in {data}")
    found = {}
    for condition, recording, in_time, copies in runs:
        found.setdefault(f"{condition} {recording}", []).append([float(in_time), float(copies)])
    return found


def digest(*paths):
    """Of all files that are there or below, and of their names."""
    found = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                found.update(str(file.relative_to(path.parent)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def all_of(data):
    """What each choice of constants makes of each recording."""
    kept = HERE / "target" / "leave-one-out"
    copy = kept / "sources"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("target", ".git", "out"), symlinks=True)
    choices = [(SHIPPED, None)] + [(f"{name} = {value}", (file, name, value)) for file, name, values in CONSTANTS for value in values]
    results, others = {}, digest(HERE / "crates", HERE / "Cargo.lock", data)
    for number, (choice, change) in enumerate(choices):
        saved = kept / f"{number}.json"
        print(f"{number + 1}/{len(choices)} {choice}", file=sys.stderr, flush=True)
        sources = {path.name: path.read_text() for path in (HERE / MTIP).glob("*.rs")}
        if change:
            file, name, value = change
            sources[file] = changed(sources[file], name, value)
        made_of = json.dumps([sources, others])
        if saved.exists() and (before := json.loads(saved.read_text()))["of"] == made_of:
            results[choice] = before["runs"]
            continue
        for name, text in sources.items():
            target = copy / MTIP / name
            if target.read_text() != text:
                target.write_text(text)
        results[choice] = measure(copy, data)
        saved.write_text(json.dumps({"of": made_of, "runs": results[choice]}))
    return results


def judged(runs, recordings):
    """Mean share in time, the least, copies."""
    all_runs = [run for recording in recordings for run in runs[recording]]
    in_time = [run[0] for run in all_runs]
    return sum(in_time) / len(in_time), min(in_time), sum(run[1] for run in all_runs) / len(all_runs)


def badness(runs, left_out):
    """How far what is left falls short of the goals, then what is missing and what it costs."""
    short, missing = 0.0, 0.0
    for condition in CONDITIONS:
        of = [recording for recording in runs if recording.split()[0] == condition and not recording.endswith(left_out)]
        in_time, worst, copies = judged(runs, of)
        least, least_run, most = goals(condition)
        short += max(0, least - in_time) + max(0, least_run - worst) + max(0, copies - most)
        missing += (100 - in_time) + copies / 10
    return round(short, 9), missing


def cell(found):
    return f"{found[0]:.3f} ({found[1]:.3f}) {found[2]:.3f}"


def main():
    data = pathlib.Path(sys.argv[1])
    results = all_of(data)
    rows = []
    for left_out in "12345":
        best = min(results, key=lambda choice: badness(results[choice], left_out))
        cells = []
        for condition in CONDITIONS:
            cells += [cell(judged(results[choice], [f"{condition} {left_out}"])) for choice in (SHIPPED, best)]
        rows.append([left_out, best, *cells])
    heads = [head for condition in CONDITIONS for head in (f"{condition}: shipped", "chosen")]
    print(table(["left out", "chosen on the others", *heads], rows) + "\n")
    rows = []
    for condition in CONDITIONS:
        of = [judged(runs, [f"{condition} {i}" for i in "12345"]) for runs in results.values()]
        rows.append([condition, *(f"{most:.3f}" for most in (min(o[0] for o in of), min(o[1] for o in of), max(o[2] for o in of)))])
    print(table(["", "least mean", "least run", "most copies"], rows))
    keep = sum(all(meets(runs, condition) for condition in CONDITIONS) for runs in results.values())
    print(f"\nOf {len(results)} choices of constants {keep} keep every goal on all recordings.")
    for choice, runs in results.items():
        failing = [condition for condition in CONDITIONS if not meets(runs, condition)]
        for condition in failing:
            print(f"- `{choice}`: {condition} {cell(judged(runs, [f'{condition} {i}' for i in '12345']))}")


def meets(runs, condition):
    in_time, worst, copies = judged(runs, [f"{condition} {i}" for i in "12345"])
    least, least_run, most = goals(condition)
    return in_time >= least and worst >= least_run and copies <= most


if __name__ == "__main__":
    main()
