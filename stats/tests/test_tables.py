"""What a page prints, held against a result."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import tables

PAGE = """# Page

    taut run scenarios/x.toml --seeds 1..5

| transport, gap | delay / p99 | source | loss |
| --- | --- | --- | --- |
| `UDP` | 10.04 ± 0.1 / 35.1 | 99.9 | 7.77 |
| UDP, 2 ms | 11.5 / 36.0 | 99.8 | 8.88 |
| nothing | 1.5 | 2.5 | 3.5 |

# Elsewhere

| UDP | 1.23 |
| --- | --- |
| UDP | 9.99 |
"""


def variant(name, delay, p99):
    measure = lambda name, mean: {"name": name, "mean": mean, "ci95": 0.1}
    return {"name": name, "measures": [measure("mean delay", delay), measure("p99 delay", p99), measure("loss", 1234.5)]}


class Tables(unittest.TestCase):
    def judged(self, *variants):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.md")
            page.write_text(PAGE, encoding="utf-8")
            (_, command, heads, rows, _), = tables.tables(page)
        self.assertEqual(command, "taut run scenarios/x.toml --seeds 1..5")
        found = tables.columns(heads, rows, list(variants))
        return {key: (near := tables.nearest(cells, heads[key[0]])) and (*near, *tables.judge(cells, *near[:2])) for key, cells in found.items()}

    def test_a_column_is_the_measure_that_its_cells_are_nearest_to(self):
        judged = self.judged(variant("UDP", 10.041, 35.12), variant("UDP, 2 ms", 11.52, 37.0))
        # Without what no run fills, and of rows that are a variant.
        self.assertEqual(set(judged), {(1, 0), (1, 1), (3, 0)})
        self.assertEqual(judged[1, 0], ("mean delay", 1, 0, 2, 0, []))
        name, _, _, same, chance, other = judged[1, 1]
        self.assertEqual((name, same, chance, other), ("p99 delay", 1, 0, ["UDP, 2 ms: 36.0 printed, 37.0 ± 0.1 today"]))
        # Near nothing.
        self.assertGreater(judged[3, 0][2], tables.NEAR)

    def test_what_two_intervals_explain_is_chance(self):
        judged = self.judged(variant("UDP", 10.2, 35.1), variant("UDP, 2 ms", 11.52, 36.0))
        self.assertEqual(judged[1, 0][3:], (1, 1, []))

    def test_today_s_figures_are_written_where_the_measure_is_beyond_doubt(self):
        written = tables.written
        measure = {"mean": -1234.56, "ci95": 0.25}
        self.assertEqual(written("1.2 ± 0.30 / **35.1** ms (1 to 2)", 0, measure, 1), "-1234.6 ± 0.2 / **35.1** ms (1 to 2)")
        self.assertEqual(written("1.2 ± 0.30", 0, measure, 0.001), "-1.2", "no interval shows")
        self.assertEqual(written("−1.2", 0, measure, 1, True), "−1234.6 ± 0.2", "one shows now")
        self.assertEqual(written("1.2 ± 0.30 / **35.1** ms (1 to 2)", 1, measure, 1), "1.2 ± 0.30 / **-1234.6** ms (1 to 2)")
        self.assertEqual(written("1.2 ± 0.30 / **35.1** ms (1 to 2)", 2, measure, 1), "1.2 ± 0.30 / **35.1** ms (1 to 2)", "a range")
        with tempfile.TemporaryDirectory() as folder:
            page, taut = Path(folder, "page.md"), Path(folder, "taut")
            page.write_text(PAGE, encoding="utf-8")
            today = {"variants": [variant("UDP", 10.041, 35.12), variant("UDP, 2 ms", 12.52, 36.9)]}
            taut.write_text(f"#!/bin/sh\ncat <<END\n{json.dumps(today)}\nEND\n")
            taut.chmod(0o755)
            tables.SURE, sure = 1, tables.SURE
            self.addCleanup(setattr, tables, "SURE", sure)
            arguments, sys.argv[1:] = sys.argv[1:], [str(page), "--taut", str(taut), "--keep", folder, "--write"]
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                tables.main()
            sys.argv[1:] = arguments
            self.assertEqual(page.read_text(encoding="utf-8"), PAGE.replace("11.5 / 36.0", "12.5 ± 0.1 / 36.9"))

    def test_runs_on_sockets_and_single_ones_are_not_made(self):
        for command in ["taut run x --real --seeds 1..2", "taut run x --kernel --seeds 1..2", "taut run x"]:
            self.assertRaises(tables.Unseen, tables.campaign, "no-program", command, Path("nowhere"))

    def test_a_command_goes_on_after_a_backslash(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.md")
            page.write_text(PAGE.replace("x.toml --seeds", "x.toml \\\n      --set a=1 --seeds"), encoding="utf-8")
            self.assertEqual([found[1] for found in tables.tables(page)], ["taut run scenarios/x.toml --set a=1 --seeds 1..5"])

    def test_a_command_holds_for_the_sections_of_its_own_whose_headings_name_the_variant(self):
        text = "# P\n\n    taut run x.toml --seeds 1..2\n\n## Moderate: 35 ms\n\n| t | p50 |\n| --- | --- |\n| UDP | 9.87 |\n\n"
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.md")
            page.write_text(text + "# Q\n\n| t | p50 |\n| --- | --- |\n| UDP | 9.87 |\n", encoding="utf-8")
            (_, command, heads, rows, section), = tables.tables(page)
        self.assertEqual((command, section), ("taut run x.toml --seeds 1..2", "Moderate"))
        found = tables.columns(heads, rows, [variant("UDP, moderate", 1, 2), variant("UDP, high", 3, 4)], section)
        self.assertEqual([cells[0][1]["name"] for cells in found.values()], ["UDP, moderate"])

    def test_a_run_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            taut = Path(folder, "taut")
            taut.write_text('#!/bin/sh\n[ ! -e "$0.ran" ] && echo "{\\"variants\\": [\\"$*\\"]}" && : > "$0.ran"\n')
            taut.chmod(0o755)
            for _ in range(2):
                found = tables.campaign(str(taut), "taut run x --seeds 1..2 --out y --json -q > z", Path(folder, "keep"))
                self.assertEqual(found, ["run x --seeds 1..2 --json -q"])
            self.assertEqual(len(list(Path(folder, "keep").iterdir())), 1)
            json.loads(next(Path(folder, "keep").iterdir()).read_bytes())


if __name__ == "__main__":
    unittest.main()
