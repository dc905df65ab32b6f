"""The frame gate before a link that video fills, as a page of tables.

    stats/frame_gate.py OUT > docs/experiments/tables/frame-gate-full.md      (`make gate` does it)

OUT has what `make gate` measured: the folders of the campaigns, and `kernel-RATE.json`, the same variants in a kernel of its own.
"""

import json
import pathlib
import sys

from markdown import table

ABSENT = "–"
RATES = ["0.5", "1", "1.5", "2", "2.25", "2.5", "2.75", "3"]
POLICY_RATES = ["0.5", "1", "2", "2.5"]

PAGE = """# Tables: the frame gate, a full link

After this page you have every figure behind [what the source reports](../frame-gate.md#what-the-source-reports): video of 2.6 Mbit/s, which loses
packets at less than 2.75 Mbit/s, as the source's does.

    make gate

Latency and offset are means of the frames that arrived whole. *Within*: of how many seeds the jitter of force stays below 5 ms, and of 99 in 100
frames the latency below 400 ms and the offset below 125 ms (87 ms ahead of force).
"""


def campaign(out, name):
    """(the variant's name in parts, its measures, its verdict) one after the other."""
    for variant in json.loads((out / name / "campaign.json").read_text())["variants"]:
        measures = {measure["name"]: measure["mean"] for measure in variant["measures"]}
        yield variant["name"].split(", "), measures, f'{variant["met"]}/{len(variant["seeds"])}'


def cell(value, digits=1):
    return ABSENT if value is None else f"{value:.{digits}f}"


OF_VIDEO = [
    ("packets lost %", "video packet loss"),
    ("frames lost %", "video frame loss"),
    ("frames/s", "video frame rate"),
    ("lowest tenth", "video frame rate, lowest tenth of seconds"),
    ("latency ms", "video frame latency"),
    ("p99", "video frame latency p99"),
    ("offset ms", "haptic–video offset"),
    ("p99", "haptic–video offset p99"),
]


def queues(out):
    rows = []
    for (rate, queue, gate), measures, met in campaign(out, "queues"):
        if rate.removesuffix(" Mbit/s") in RATES:
            rows.append([rate.removesuffix(" Mbit/s"), queue, gate] + [cell(measures.get(name)) for _, name in OF_VIDEO] + [met])
    return table(["Mbit/s", "queue", "gate"] + [head for head, _ in OF_VIDEO] + ["within"], rows)


def policies(out):
    found = {}
    for name in ("aimd", "dyna"):
        for (rate, control, policy), measures, _ in campaign(out, name):
            found[rate.removesuffix(" Mbit/s"), control, policy] = measures
    rows = []
    for rate in POLICY_RATES:
        for policy in [f"{family}{index}" for family in ("aimd", "dyna") for index in range(1, 6)]:
            row = [rate, f"`{policy}`"]
            for control in ("every 100 ms", "every second", "as Algorithm 2"):
                measures = found[rate, control, policy]
                row += [cell(measures.get(name)) for name in ("video packet loss", "video frame rate", "haptic–video offset")]
            rows.append(row)
    each = ["lost %", "frames/s", "offset ms"]
    return table(["Mbit/s", "policy"] + [f"every 100 ms: {each[0]}", *each[1:], f"every second: {each[0]}", *each[1:], f"Algorithm 2: {each[0]}", *each[1:]], rows)


def fifo(out):
    names = [
        ("force: lost %", "haptic packet loss"),
        ("mean ms", "haptic packet delay"),
        ("largest", "haptic latency, largest"),
        ("jitter", "haptic jitter, largest"),
        ("video: packets lost %", "video packet loss"),
        ("frames lost %", "video frame loss"),
        ("frames/s", "video frame rate"),
        ("latency ms", "video frame latency"),
    ]
    rows = [[name[0].removesuffix(" Mbit/s")] + [cell(measures.get(key)) for _, key in names] + [met] for name, measures, met in campaign(out, "fifo")]
    return table(["Mbit/s"] + [head for head, _ in names] + ["within"], rows)


def of_run(summary):
    video = summary["videos"][0]
    mean = lambda key: (video[key] or {}).get("mean")
    return [video["packet_loss_percent"], video["frame_loss_percent"], mean("fps"), mean("frame_delay_ms"), mean("offset_ms")]


def kernel(out):
    rows = []
    for path in sorted(out.glob("kernel-*.json")):
        for run in json.loads(path.read_text())["runs"]:
            both = zip(of_run(run["simulated"]), of_run(run["real"]))
            rate, queue, gate = run["variant"].split(", ")
            rows.append([rate.removesuffix(" Mbit/s"), queue, gate] + [f"{cell(ours)} · {cell(linux)}" for ours, linux in both])
    return table(["Mbit/s", "queue", "gate", "packets lost %", "frames lost %", "frames/s", "latency ms", "offset ms"], rows)


def main():
    out = pathlib.Path(sys.argv[1])
    print(PAGE)
    print("## With classes\n\nThree seeds of 256 s, of which the first 15 do not count. In *every second* the limit is adjusted so often.\n")
    print(queues(out))
    print("## All of the source's policies\n\nBefore CoDel, two seeds. *Algorithm 2* adjusts every second, finds the largest bandwidth once, in ten seconds, and tolerates 20 drops.\n")
    print(policies(out))
    print("## One FIFO without classes\n\nThree seeds of 246 s.\n")
    print(fifo(out))
    print("## The XDP program before Linux's queues\n\nSimulated · in a kernel of its own, one seed of 65 s: there the queues are Linux's, and the gate is the XDP program\nwith the control loop of `taut gate`.\n")
    print(kernel(out).rstrip())


main()
