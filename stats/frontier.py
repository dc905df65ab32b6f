"""What a scheduler could have on recorded paths that knows their law and not the future, as Markdown: share in time by copies a command.

    python3 stats/frontier.py ../shared/data/multipath-5g-measured

The law of a path at a command is the share of the 201 commands around it that were lost or late there. A command takes one path, the other or both
at once, independently of what becomes of it; of all ways to do so each row has the best with so many copies (a price of a copy, Lagrange). The last two
columns have the better single path of each recording, which only the future tells: the mean over recordings, and the least.
"""

import csv
import pathlib
import sys

from markdown import table

DEADLINE_MS = 15.0
AROUND = 100
COPIES = [1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 1.8, 1.9, 2.0]


def fails(file, path):
    with open(file, encoding="utf-8") as text:
        cells = [row[f"{path}_one_way_ms"] for row in csv.DictReader(text)]
    return [not cell or float(cell) > DEADLINE_MS for cell in cells]


def law(failed):
    sums = [0]
    for one in failed:
        sums.append(sums[-1] + one)
    spans = [(max(0, at - AROUND), min(len(failed), at + AROUND + 1)) for at in range(len(failed))]
    return [(sums[end] - sums[start]) / (end - start) for start, end in spans]


def frontier(files):
    """By how much each command gains from its second copy, the largest gain first: the best use of any number of them."""
    lost, gains = 0.0, []
    for file in files:
        for a, b in zip(*(law(fails(file, path)) for path in "ab")):
            lost += min(a, b)
            gains.append(min(a, b) - a * b)
    gains.sort(reverse=True)
    count = len(gains)
    return [100 * (1 - (lost - sum(gains[: round((copies - 1) * count)])) / count) for copies in COPIES]


def better_path(file):
    return max(100 * (1 - sum(failed) / len(failed)) for failed in (fails(file, path) for path in "ab"))


def main():
    folder = pathlib.Path(sys.argv[1])
    heads = [*(f"{copies:.2f}" for copies in COPIES), "better path", "least"]
    rows = []
    for condition in ("stable", "failure", "jitter", "congestion"):
        files = sorted(folder.glob(f"{condition}-*.csv"))
        better = [better_path(file) for file in files]
        shares = [*frontier(files), sum(better) / len(better), min(better)]
        rows.append([condition, *(f"{share:.3f}" for share in shares)])
    print(table(["copies", *heads], rows))


if __name__ == "__main__":
    main()
