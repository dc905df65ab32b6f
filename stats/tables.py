"""What the book prints, and what the same commands give today: each table that stands below a `taut run` command, cell by cell.

    python3 stats/tables.py docs/experiments/etp.md [PAGE …] [--taut target/release/taut] [--keep out/tables] [--write]

A row is the variant whose name its first cells, the head of the column and the headings since the command hold; a column is the measure that is nearest to most of its
cells, and what is printed once in two cells is one measure each (`35 / 114`). A figure is *the same* where it is today's mean to the last digit, *by
chance* where they are no farther apart than two intervals of their mean, *other* beyond. Columns that are near no measure are derived, of others, or have moved by more than that:
they are named with the nearest. So are tables below a `taut run` that is no campaign of simulations, rows that name no variant, and commands that failed, which are an error.
With `--write` each figure that is not the same becomes today's, and so does an interval behind `±`, in columns whose head names their measure and of which half, and three at
least, are the same: those whose measure is beyond doubt. Runs are kept by command, by the program's time and by the scenario's
text, so that a second look is quick; what a scenario reads beside it is not looked at. Needs nothing but Python.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys

NEAR = 0.1
"""Median relative distance of the cells of a column from the measure that it is taken for."""
SURE = 3
"""So many cells that are the same, and half of all, tell the measure."""
SCALES = (1, 1e3, 1e-3)
"""Seconds for milliseconds, and the like."""
OTHERS = re.compile(r"source|linux|model|kernel|equation|ns-3|\breal\b", re.I)
"""Heads of columns, and of rows, that no simulation fills."""
UNIT = re.compile(r"\d (s|kB|MB)\b")
"""A cell with a unit of its own is no figure of its column."""
UNITS = {"=", "r", "mbit/s", "kbit/s", "ms", "s", "%", "n", "and", "of"}
NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?")


def words(text):
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text.replace("`", " ").replace("*", " "))
    return {word for word in re.split(r"[\s,;:()/|]+", text.lower()) if word} - UNITS


def tables(page):
    """(line, command, heads, rows, section) of each table, with the last command above it in its section or those that this is part of;
    `section`: what the headings between the two say up to a colon."""
    command, lines, at = None, page.read_text(encoding="utf-8").splitlines(), 0
    level, of, sections = 0, 0, {}
    while at < len(lines):
        line = lines[at]
        if heading := re.match(r"(#+) ([^:]*)", line):
            level = len(heading[1])
            sections = {depth: text for depth, text in sections.items() if depth < level} | {level: heading[2]}
            command = command if of < level else None
        elif re.match(r" {4}taut run ", line) and not lines[at - 1].startswith("    "):
            command = line.strip()
            while command.endswith("\\"):
                at += 1
                command = command.removesuffix("\\") + lines[at].strip()
            of = level
        elif line.lstrip().startswith("|") and command:
            first = at
            while at < len(lines) and lines[at].lstrip().startswith("|"):
                at += 1
            cells = [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in lines[first:at]]
            if len(cells) > 2:
                yield first + 1, command, cells[0], cells[2:], " ".join(text for depth, text in sections.items() if depth > of)
            continue
        at += 1


class Unseen(Exception):
    """Why a table is not looked at."""


class Broken(Unseen):
    """The command above it does not run any more."""


def campaign(taut, command, keep):
    """The variants of a command's result."""
    arguments, given = [], shlex.split(command.split(" > ")[0])[2:]
    if "--real" in given or "--kernel" in given or "--seeds" not in given:
        raise Unseen("no campaign of simulations")
    skip = False
    for word in given:
        if skip:
            skip = False
        elif word == "--out":
            skip = True
        elif word not in ("--json", "-q", "--events", "--verbose", "--strict"):
            arguments.append(word)
    made = str(os.stat(taut).st_mtime_ns)
    texts = [pathlib.Path(word).read_bytes() for word in arguments if word.endswith(".toml") and os.path.exists(word)]
    kept = keep / hashlib.sha256(b"\0".join([made.encode(), " ".join(arguments).encode(), *texts])).hexdigest()[:16]
    if not kept.exists():
        print(f"{command} …", file=sys.stderr, flush=True)
        done = subprocess.run([taut, "run", *arguments, "--json", "-q"], stdout=subprocess.PIPE)
        if done.returncode not in (0, 1) or not done.stdout:
            raise Broken(f"exit status {done.returncode}")
        keep.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(".part")
        part.write_bytes(done.stdout)
        os.replace(part, kept)
    return json.loads(kept.read_bytes()).get("variants") or []


PARTS = re.compile(r" / | \(")


def number(found):
    text = found[0].replace("−", "-")
    return float(text), len(text.partition(".")[2])


def figures(cell):
    """The first number of each part of a cell: (value, its digits after the point)."""
    for part in PARTS.split(cell):
        # Ranges and intervals belong to the number before them.
        found = NUMBER.search(part)
        yield number(found) if found else None


def written(cell, part, measure, scale, intervals=False):
    """The cell with today's figures in that part; as it is where a range or another number would be left of the run before. `intervals`: the column
    has them where they show."""
    ends = [0, *(mark.end() for mark in PARTS.finditer(cell))]
    starts = [*(mark.start() for mark in PARTS.finditer(cell)), len(cell)]
    before, text, after = cell[: ends[part]], cell[ends[part] : starts[part]], cell[starts[part] :]
    numbers = list(NUMBER.finditer(text))
    if len(numbers) > 1 + ("±" in text):
        return cell
    first, last = numbers[0], numbers[-1]
    digits = number(first)[1]
    today, interval = f"{measure['mean'] * scale:.{digits}f}", f"{(measure['ci95'] or 0) * scale:.{digits}f}"
    if "−" in first[0]:
        today = today.replace("-", "−")
    if (intervals or "±" in text) and float(interval):
        today += f" ± {interval}"
    return before + text[: first.start()] + today + text[last.end() :] + after


def variant_of(label, variants):
    """The one whose name says most of what the label says, and nothing else."""
    fitting = [(len(parts), variant) for variant in variants if (parts := words(variant["name"])) and parts <= label]
    most = max((count for count, _ in fitting), default=0)
    best = [variant for count, variant in fitting if count == most]
    return best[0] if len(best) == 1 else None


def columns(heads, rows, variants, section=""):
    """{(column, part): [(row, variant, value, digits)]}"""
    found = collections.defaultdict(list)
    for place, row in enumerate(rows):
        if OTHERS.search(row[0]):
            continue
        for column, (head, cell) in enumerate(zip(heads, row)):
            if column == 0 or OTHERS.search(head):
                continue
            variant = variant_of(words(" ".join([section, *row[:column][:3], head])), variants)
            for part, figure in enumerate(figures(cell) if variant and not UNIT.search(cell) else []):
                # A digit alone fits many a measure.
                if figure and (figure[1] or abs(figure[0]) >= 100):
                    found[column, part].append((place, variant, *figure))
    return found


def distance(value, measure, scale, digits):
    if measure is None or measure["mean"] is None:
        return None
    off = abs(value - measure["mean"] * scale)
    return 0 if off <= 0.5001 * 10**-digits else off / max(abs(value), 10**-digits)


def nearest(cells, head):
    """(name, scale, how far) of the measure that a column's cells are nearest to; one that the head names, if such a one is near."""
    measured = [{measure["name"]: measure for measure in variant["measures"]} for _, variant, _, _ in cells]
    names = {name for measures in measured for name in measures}
    named = nearest_of(cells, measured, {name for name in names if is_named(name, head)})
    return named if named and named[2] <= NEAR else nearest_of(cells, measured, names)


def is_named(measure, head):
    return bool(words(measure) & words(head))


def nearest_of(cells, measured, names):
    best = None
    for name in sorted(names):
        for scale in SCALES:
            off = [distance(value, measures.get(name), scale, digits) for measures, (_, _, value, digits) in zip(measured, cells)]
            off = [far for far in off if far is not None]
            if 2 * len(off) < len(cells):
                continue
            score = statistics.median(off), -sum(far == 0 for far in off), statistics.mean(off)
            if best is None or score < best[0]:
                best = score, name, scale
    return best and (best[1], best[2], best[0][0])


def measure_of(variant, name):
    return next((measure for measure in variant["measures"] if measure["name"] == name and measure["mean"] is not None), None)


def write(page, line, rows, found):
    """Puts today's figures into the rows of a table that begins at that line: `found` is (column, part, cells, measure, scale)."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    changed = set()
    for column, part, cells, name, scale in found:
        intervals = any("±" in "".join(PARTS.split(row[column])[part : part + 1]) for row in rows)
        for place, variant, value, digits in cells:
            measure = measure_of(variant, name)
            if measure and distance(value, measure, scale, digits):
                rows[place][column] = written(rows[place][column], part, measure, scale, intervals)
                changed.add(place)
    for place in changed:
        at = line + 1 + place
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines[at] = indent + "| " + " | ".join(rows[place]) + " |\n"
    page.write_text("".join(lines), encoding="utf-8")


def judge(cells, name, scale):
    """How many are the same and by chance, and a line for each other."""
    same, chance, other = 0, 0, []
    for _, variant, value, digits in cells:
        measure = measure_of(variant, name)
        if measure is None:
            continue
        mean, interval = measure["mean"] * scale, (measure["ci95"] or 0) * scale
        off = abs(value - mean) - 0.5001 * 10**-digits
        if off <= 0:
            same += 1
        # Both are means of seeds.
        elif off <= 2 * interval:
            chance += 1
        else:
            other.append(f"{variant['name']}: {value} printed, {mean:.{digits}f} ± {interval:.{digits}f} today")
    return same, chance, other


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--taut", default="target/release/taut")
    parser.add_argument("--keep", default="out/tables", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="put today's figures into the pages")
    options = parser.parse_args()
    print("| table | column | measure | same | by chance | other |\n" + "| --- " * 6 + "|")
    sums, others, unseen, broken = collections.Counter(), [], [], False
    for page in options.pages:
        for line, command, heads, rows, section in tables(page):
            try:
                variants = campaign(options.taut, command, options.keep)
            except Unseen as why:
                unseen.append(f"{page}:{line}: {why}: {command}")
                broken |= isinstance(why, Broken)
                continue
            named = [row[0] for row in rows if not any(variant_of(words(" ".join([section, *row[:3], head])), variants) for head in heads)]
            unseen += [f"{page}:{line}: no variant is named by the row {name}" for name in named]
            sure = []
            for (column, part), cells in sorted(columns(heads, rows, variants, section).items()):
                what = heads[column] + (f", part {part + 1}" if part else "")
                found = nearest(cells, heads[column])
                if found is None or found[2] > NEAR:
                    sums["not judged"] += len(cells)
                    near = f"the nearest measure is {found[0]}, off by {found[2]:.0%}" if found else "no measure is near"
                    unseen.append(f"{page}:{line}, {what}: {near}")
                    continue
                name, scale, _ = found
                same, chance, other = judge(cells, name, scale)
                sums.update({"same": same, "by chance": chance, "other": len(other)})
                print(f"| {page}:{line} | {what} | {name} | {same} | {chance} | {len(other)} |", flush=True)
                others += [f"{page}:{line}, {what}: {text}" for text in other]
                if is_named(name, heads[column]) and same >= SURE and 2 * same >= same + chance + len(other):
                    sure.append((column, part, cells, name, scale))
            if options.write:
                write(page, line, rows, sure)
    print("\n" + ", ".join(f"{sums[what]} {what}" for what in ("same", "by chance", "other", "not judged")))
    print(*others, sep="\n")
    if unseen:
        print("\nNot judged:", *unseen, sep="\n")
    return bool(others) or broken


if __name__ == "__main__":
    sys.exit(main())
