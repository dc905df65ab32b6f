"""A table of runs beside their simulated twins, a variant a row: from `taut run … --real|--kernel --json` to Markdown.

    taut run scenarios/transports.toml --real --seeds 1..3 --json -q > real.json
    python3 stats/twins.py real.json

Milliseconds, simulated → ran; medians over the seeds. A median passes where it is within 10 % or 0.2 ms of the simulated one; a
99th percentile is `apart` where the ranges over the seeds, so widened, do not meet.
"""

import json
import statistics
import sys

QUANTILES = ["p50", "p90", "p99", "p999"]
HEAD = ["transport", "condition", "p50", "p90", "p99", "p99.9", "arrived, %", "median", "p99"]


def read(runs):
    """{variant: (simulated, ran)}, each a list over seeds."""
    found = {}
    for run in runs:
        ran = run.get("real") or run.get("kernel")
        simulated, others = found.setdefault(run["variant"], ([], []))
        simulated.append(run["simulated"])
        others.append(ran)
    return found


def latencies(runs, quantile):
    return [run["one_way_ms"][quantile] for run in runs]


def margin(value):
    """What a real one may differ by."""
    return max(0.1 * value, 0.2)


def near(simulated, ran):
    return abs(simulated - ran) <= margin(simulated)


def meet(simulated, ran):
    """Do the ranges over the seeds meet, that of the simulated ones widened by the margin?"""
    least, largest = min(simulated), max(simulated)
    return min(ran) <= largest + margin(largest) and max(ran) >= least - margin(least)


def span(values):
    return f"{number(min(values))} to {number(max(values))}"


def number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def row(variant, simulated, ran):
    transport, _, condition = variant.rpartition(", ")
    pairs = [(latencies(simulated, q), latencies(ran, q)) for q in QUANTILES]
    arrived = [statistics.median(run["delivered_percent"] for run in runs) for runs in (simulated, ran)]
    medians = [statistics.median(values) for values in pairs[0]]
    return [
        transport, condition, *(" → ".join(number(statistics.median(values)) for values in pair) for pair in pairs),
        " → ".join(f"{share:.1f}" for share in arrived),
        "PASS" if near(*medians) else "**differs**",
        "meet" if meet(*pairs[2]) else f"apart: {span(pairs[2][0])}, {span(pairs[2][1])}",
    ]


def main():
    runs = json.load(open(sys.argv[1], encoding="utf-8"))["runs"]
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    for variant, (simulated, ran) in read(runs).items():
        print(f"| {' | '.join(row(variant, simulated, ran))} |")


if __name__ == "__main__":
    main()
