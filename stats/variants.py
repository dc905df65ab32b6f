"""Recordings of the same kind as the measured ones, to see whether a scheduler is tuned to the sample: a folder of recordings and a scenario.

    python3 stats/variants.py ../shared/data/multipath-5g-measured target/variants
    taut run target/variants/scenario.toml --seeds 1..5 --json -q > variants.json
    python3 stats/commands.py variants.json

Rows of a recording stay whole (what both paths made of one command) except where a variant says otherwise. The draws are the same on every call.
"""

import csv
import pathlib
import random
import sys

LATE_MS = 15
BLOCK, REACH = 50, 200
COLUMNS = ("command", "a_one_way_ms", "a_acknowledged_after", "b_one_way_ms", "b_acknowledged_after")
DELAYS = ("a_one_way_ms", "b_one_way_ms")
PROTOCOLS = {
    "deadline": '{ policy = "deadline", clocks = "synchronised" }',
    "MTIP-B published": '{ mode = "compatible", policy = "adaptive" }',
    "MTIP-B published for d": '{ mode = "compatible", policy = "adaptive", deadline = "14ms", late_threshold = "5%", window = 10 }',
}


def swapped(rows, _draw):
    other = {"a": "b", "b": "a"}
    return [{(other[key[0]] + key[1:] if key[1] == "_" else key): value for key, value in row.items()} for row in rows]


def resampled(rows, draw):
    """Block bootstrap from the neighbourhood, so that a trend and the moment of a failure stay about where they are."""
    found = []
    for start in range(0, len(rows), BLOCK):
        first = min(max(start + draw.randint(-REACH, REACH), 0), len(rows) - BLOCK)
        found += rows[first : first + BLOCK]
    return found[: len(rows)]


def bad(delay):
    return not delay or float(delay) > LATE_MS


def scaled(share):
    """A share of the lost and late samples of each path becomes good (below 1), or befalls the next good one as well (above 1)."""

    def change(rows, draw):
        rows = [dict(row) for row in rows]
        for key in DELAYS:
            answer = key[0] + "_acknowledged_after"
            was_bad = [bad(row[key]) for row in rows]
            for at in range(1, len(rows)):
                if share < 1 and was_bad[at] and not bad(rows[at - 1][key]) and draw.random() < 1 - share:
                    rows[at][key], rows[at][answer] = rows[at - 1][key], rows[at - 1][answer]
                elif share > 1 and was_bad[at - 1] and not was_bad[at] and draw.random() < share - 1:
                    rows[at][key], rows[at][answer] = rows[at - 1][key], rows[at - 1][answer]
        return rows

    return change


def unanswered(share):
    """A share of the answers of both paths is lost."""

    def change(rows, draw):
        return [{key: "" if key.endswith("after") and draw.random() < share else value for key, value in row.items()} for row in rows]

    return change


VARIANTS = {
    "recorded": lambda rows, _draw: rows,
    "second half first": lambda rows, _draw: rows[len(rows) // 2 :] + rows[: len(rows) // 2],
    "reversed": lambda rows, _draw: rows[::-1],
    "swapped": swapped,
    "resampled": resampled,
    "bad x 0.7": scaled(0.7),
    "bad x 1.3": scaled(1.3),
    "answers lost 50 %": unanswered(0.5),
    "answers lost 80 %": unanswered(0.8),
}


def main():
    source, target = (pathlib.Path(argument) for argument in sys.argv[1:3])
    target.mkdir(parents=True, exist_ok=True)
    scenario = ['title = "Variants of the measured links"', 'duration = "63s"\nwarmup = "300ms"\ndrain = "5s"']
    scenario += [f'[links.{path}]\nbetween = ["controller", "robot"]\nchain = []' for path in "ab"]
    scenario += ['[commands]\nfrom = "controller"\nto = "robot"\nsize = "74B"\nperiod = "30ms"\ndeadline = "15ms"\nbare = true']
    scenario += ['[[axis]]\nname = "protocol"']
    scenario += [f'[[axis.value]]\nname = "{name}"\nset = {{ "commands.transport" = {{ mtip = {mtip} }} }}' for name, mtip in PROTOCOLS.items()]
    scenario += ['[[axis]]\nname = "links"']
    for name, change in VARIANTS.items():
        for file in sorted(source.glob("*-0?.csv")):
            condition, number = file.stem.split("-")
            rows = change(list(csv.DictReader(file.open(encoding="utf-8"))), random.Random(f"{name} {file.stem}"))
            made = target / f"{name.replace(' ', '_').replace('%', 'percent')}-{file.name}"
            with made.open("w", encoding="utf-8", newline="") as out:
                writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows({**row, "command": at} for at, row in enumerate(rows, 1))
            chains = "\n".join(f'"links.{p}.chain" = [{{ recorded = {{ file = "{made.name}", path = "{p}" }} }}]' for p in "ab")
            scenario.append(f'[[axis.value]]\nname = "{condition} {name} {int(number)}"\n[axis.value.set]\n{chains}')
    (target / "scenario.toml").write_text("\n\n".join(scenario) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
