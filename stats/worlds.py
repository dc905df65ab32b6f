"""Five sessions in three worlds, as a page of tables: simulated, over real sockets, and in a kernel of its own in virtual time.

    stats/worlds.py TAUT [NAME …] > docs/experiments/tables/real.md      (`make real` does it; needs root, and `make oracle`'s kernel)

All three run the same file. A median passes where it is within 10 % or 0.2 ms of the simulated one, and the packets of both runs add up. Where a world leaves a variant out, it
says why on standard error, and its cell is `–`.
"""

import json
import subprocess
import sys

from markdown import table
from twins import near

# Name, scenario, what is set for all worlds, variants.
FIVE = [
    ("Shared link", "scenarios/shared-link.toml", ["duration=40s", "drain=1s"], None),
    ("Deadband", "scenarios/telehaptic-qos/adaptive-sampling.toml", ["duration=20s", "drain=1s"], None),
    ("Multiplexers", "scenarios/telehaptic-qos/multiplexers.toml", ["duration=30s", "drain=1s"], None),
    (
        "Commands over two paths",
        "scenarios/two-5g-links.toml",
        ["duration=11s", "drain=1s", "commands.bare=false"],
        "condition=a stable,protocol=every path,protocol=MTIP-A,protocol=MTIP-B,protocol=deadline,protocol=MPTCP minRTT,"
        "protocol=MPQUIC, fail-over,protocol=MPQUIC, copies",
    ),
    (
        "Haptics with video",
        "scenarios/haptic-video.toml",
        ["duration=20s", "drain=1s"],
        "bandwidth=1 Mbit/s,gate=no gate",
    ),
]
# The simulated twin is the real run's.
WORLDS = {"real": ["--real", "--fifo", "50"], "kernel": ["--kernel", "--alone"]}
HEAD = ["", "stream", "p50, ms", "real", "kernel", "p99, ms", "lost, %", "Mbit/s"]
ABSENT = "–"

PAGE = """# Tables: sessions in three worlds

After this page you have every figure behind [five sessions side by side](../real.md#five-sessions-side-by-side).

    make real

One seed; simulated → over real sockets → in a kernel of its own. `p50` passes where it is within 10 % or 0.2 ms of the simulated one, and the packets of
both runs add up. What is lost is of samples, frames or commands that were made and not held back; of cross traffic, of its packets. How late a device was asked, and the
turns that passed without it, are what this host was to blame for. A TCP's packets have no delay in the kernel, where nobody sees them.
"""


def run(taut, scenario, settings, only, world):
    command = [taut, "run", scenario, *WORLDS[world], "--json", "-q"]
    command += [word for setting in settings for word in ("--set", setting)]
    command += ["--only", only] if only else []
    print(" ".join(command), file=sys.stderr)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    # What it found is whole even where something in it was not as it must be, which it says on standard error.
    return json.loads(done.stdout)["runs"] if done.stdout else []


def streams(summary):
    """{name: (latency, lost in per cent, bit/s)} of all that a run carried."""
    found = {}
    for medium in summary.get("media", []):
        found[medium["name"]] = (medium["one_way_ms"], lost(medium["delivered_percent"]), None)
    if not found and summary["made"]:
        found["commands"] = (summary["one_way_ms"], lost(summary["delivered_percent"]), None)
    for flow in summary.get("cross", []):
        if flow["loss_percent"] is None:
            continue  # It sent nothing.
        found[flow["name"]] = (flow["delay_ms"], flow["loss_percent"], flow["delivered_bps"] / 1e6)
    return found


def lost(arrived):
    return None if arrived is None else 100 - arrived


def number(value):
    return ABSENT if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def quantile(stream, name):
    return stream[0][name] if stream and stream[0] else None


def verdict(simulated, ran, adds_up=True):
    """Is the median near enough?"""
    if not adds_up:
        return "**does not add up**"
    if simulated is None or ran is None:
        return ABSENT
    return "PASS" if near(simulated, ran) else "**differs**"


def adds_up(run):
    """Where there is such a run at all."""
    return not (run and run["violations"])


def row(variant, name, worlds, add_up=(True, True, True)):
    """`worlds` are simulated, real and kernel: each what it says of the stream, or nothing; `add_up`: do the packets of its run?"""
    medians, tails = ([quantile(stream, which) for stream in worlds] for which in ("p50", "p99"))
    losses, rates = ([stream and stream[which] for stream in worlds] for which in (1, 2))
    arrows = lambda values: " → ".join(map(number, values)) if any(value is not None for value in values) else ABSENT
    verdicts = [verdict(medians[0], median, add_up[0] and own) for median, own in zip(medians[1:], add_up[1:])]
    return [variant, name, arrows(medians), *verdicts, arrows(tails), arrows(losses), arrows(rates)]


def punctuality(variant, real):
    counters = real["counters"]
    if "device_late_p99_us" not in counters:
        return None
    late, emulator = (counters.get(f"{who}_late_p99_us", 0) for who in ("device", "emulator"))
    return f"{variant + ': ' if variant else ''}{late} µs late, {counters['device_missed']} turns missed, emulator {emulator} µs late"


def compare(taut, title, scenario, settings, only):
    # One after the other: the kernel's time is its own, but it would keep the real run's devices waiting.
    ran = {world: {one["variant"]: one for one in run(taut, scenario, settings, only, world)} for world in WORLDS}
    variants = list(dict.fromkeys(variant for runs in ran.values() for variant in runs))
    rows, punctual = [], []
    for variant in variants:
        both = [ran[world].get(variant) for world in WORLDS]
        simulated = next((one["simulated"] for one in both if one and one["simulated"]), None)
        three = [simulated, *(one and one["real"] for one in both)]
        worlds = [streams(one) if one else {} for one in three]
        names = dict.fromkeys(name for found in worlds for name in found)
        rows += [row(variant, name, [found.get(name) for found in worlds], [adds_up(one) for one in three]) for name in names]
        punctual += [punctuality(variant, both[0]["real"])] if both[0] else []
    told = [f"    taut run {scenario} {' '.join(f'--set {one}' for one in settings)}" + (f" --only '{only}'" if only else "")]
    print(f"\n## {title}\n\n{told[0]}\n")
    print(table(HEAD, rows))
    if punctual := [one for one in punctual if one]:
        print(f"\nThe device of the real runs, at p99: {'; '.join(punctual)}.")
    return rows


def main():
    taut, names = sys.argv[1], sys.argv[2:]
    print(PAGE, end="")
    rows = [row for title, *rest in FIVE if not names or title in names for row in compare(taut, title, *rest)]
    judged = {world: [row[at] for row in rows if row[at] != ABSENT] for world, at in (("real", 3), ("kernel", 4))}
    for world, verdicts in judged.items():
        print(f"\n{verdicts.count('PASS')} of {len(verdicts)} medians pass in the world `{world}`.")
    if empty := [world for world, verdicts in judged.items() if not verdicts]:
        sys.exit(f"nothing was run in the world `{'` and `'.join(empty)}`")


if __name__ == "__main__":
    main()
