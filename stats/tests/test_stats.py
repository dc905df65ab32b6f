"""The numbers against published ones, and what must not be made up."""

import io
import json
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

try:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import analyse
    import compare
    import describe
except ImportError as missing:
    print(f"skipped: {missing}; `make stats` installs what the statistics need")
    raise unittest.SkipTest(str(missing)) from None

# NIST StRD, one-way ANOVA, SiRstv: silicon resistivity by instrument, and the certified values.
SIRSTV = [
    [196.3052, 196.1240, 196.1890, 196.2569, 196.3403],
    [196.3042, 196.3825, 196.1669, 196.3257, 196.0422],
    [196.1303, 196.2005, 196.2889, 196.0343, 196.1811],
    [196.2795, 196.1748, 196.1494, 196.1485, 195.9885],
    [196.2119, 196.1051, 196.1850, 196.0052, 196.2090],
]
SIRSTV_F, SIRSTV_R2 = 1.18046237440255, 1.90999039051129e-1
# NIST/SEMATECH e-Handbook of Statistical Methods, 7.4.3.3: three levels, F = 9.59.
LEVELS = {"1": [6.9, 5.4, 5.8, 4.6, 4.0], "2": [8.3, 6.8, 7.8, 9.2, 6.5], "3": [8.0, 10.5, 8.1, 6.9, 9.3]}


class Numbers(unittest.TestCase):
    def test_anova_gives_the_certified_values_of_nist(self):
        result = compare.compare({str(i): group for i, group in enumerate(SIRSTV)})
        self.assertAlmostEqual(result["anova"]["f"], SIRSTV_F, places=9)
        self.assertEqual(result["anova"]["df"], [4, 20])
        self.assertAlmostEqual(result["eta2"], SIRSTV_R2, places=9)
        self.assertLess(result["omega2"], result["eta2"])

    def test_the_handbooks_levels_differ_as_it_says(self):
        result = compare.compare(LEVELS)
        self.assertAlmostEqual(result["anova"]["f"], 9.59, places=2)
        tukey = {(p["a"], p["b"]): p["tukey_p"] for p in result["pairs"]}
        # 7.4.7.1: level 1 differs from 2 and 3; 2 and 3 do not differ.
        self.assertTrue(tukey["1", "2"] < 0.05 and tukey["1", "3"] < 0.05 < tukey["2", "3"])

    def test_hedges_g_is_cohens_d_made_smaller(self):
        # d = 1 by construction; J = 1 - 3/(4·8 - 1) to three digits (Hedges 1981).
        a = [1.0, 2.0, 3.0, 4.0, 5.0]
        b = [x - 2.5**0.5 for x in a]
        d, g = compare.hedges_g(a, b)
        self.assertAlmostEqual(d, 1.0, places=12)
        self.assertAlmostEqual(g, 1 - 3 / 31, delta=1e-3)

    def test_the_slope_is_that_of_the_line_and_its_interval_holds_it(self):
        trend = lambda slope: {"start_s": 0.0, "bucket_s": 1.0, "mean_ms": [5 + slope * (t + 0.5) for t in range(20)]}
        found = describe.trend([trend(0.9), trend(1.0), trend(1.1)])
        self.assertAlmostEqual(found["slope"], 1.0, places=9)
        self.assertTrue(found["ci95"][0] < 0.9 and found["ci95"][1] > 1.1 and found["tau"] > 0.999)


class NothingMadeUp(unittest.TestCase):
    def test_groups_that_say_the_same_in_all_seeds_are_not_tested(self):
        result = compare.compare({"UDP": [20.0] * 5, "QUIC": [20.0] * 5})
        self.assertEqual(result["note"], "identical in all seeds and all groups")
        self.assertNotIn("welch", result)
        result = compare.compare({"UDP": [20.0] * 5, "QUIC": [21.0] * 5})
        self.assertIn("differences are exact", result["note"])
        self.assertNotIn("pairs", result)

    def test_one_constant_group_among_varying_ones_is_compared_by_rank_only(self):
        result = compare.compare({"still": [0.0] * 5, "a": [1.0, 1.1, 1.2, 1.0, 1.3], "b": [5.0, 5.2, 5.1, 5.4, 5.2]})
        self.assertEqual({p["a"] for p in result["pairs"]} | {p["b"] for p in result["pairs"]}, {"a", "b"})
        self.assertIn("still", result["note"])
        self.assertLess(result["kruskal"]["p"], 0.05)

    def test_many_comparisons_are_corrected_together(self):
        noise = [compare.compare(LEVELS)] + [compare.compare({str(i): g for i, g in enumerate(SIRSTV)}) for _ in range(9)]
        compare.holm(noise)
        self.assertAlmostEqual(noise[0]["welch"]["p_holm"], min(1, 10 * noise[0]["welch"]["p"]), places=12)

    def test_friedman_holds_the_values_of_one_seed_against_each_other(self):
        level = {seed: float(seed) for seed in range(1, 9)}
        groups = {"a": level, "b": {s: v + 0.1 for s, v in level.items()}, "c": {s: v + 0.2 for s, v in level.items()}}
        whole = compare.compare({g: list(v.values()) for g, v in groups.items()}, {g: list(v) for g, v in groups.items()})["friedman"]
        self.assertEqual((whole["seeds"], round(whole["chi2"], 9), "note" in whole), (8, 16.0, False))
        # In each group another run has nothing: in the others' order each value would be held against that of another seed.
        for group, absent in zip(groups.values(), (1, 4, 8)):
            del group[absent]
        found = compare.compare({g: list(v.values()) for g, v in groups.items()}, {g: list(v) for g, v in groups.items()})["friedman"]
        self.assertEqual((found["seeds"], round(found["chi2"], 9)), (5, 10.0))
        self.assertIn("5 seeds of 7", found["note"])

    def test_a_measure_that_does_not_vary_has_no_correlation(self):
        rows = [("a", {"x": float(i), "y": 2.0 * i, "still": 1.0}) for i in range(5)]
        found = describe.correlations(rows)
        self.assertEqual(found["measures"], ["x", "y"])
        self.assertEqual(found["pearson"][0][1], 1.0)


class Command(unittest.TestCase):
    def run_it(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = analyse.main([str(a) for a in arguments])
        return status, out.getvalue(), err.getvalue()

    def campaign(self, folder):
        measure = lambda name, values: {"name": name, "unit": "ms", "values": values}
        variant = lambda name, values: {
            "name": name, "seeds": [1, 2, 3], "measures": [measure("delay", values)],
            "trends": [{"stream": "forward haptic", "seed": s, "start_s": 0, "bucket_s": 1, "mean_ms": [1, 2 + s / 10, None, 4]} for s in (1, 2, 3)],
        }
        variants = [variant("UDP, far", [1.0, 1.1, 0.9]), variant("TCP, far", [5.0, 6.0, None]), variant("UDP, near", [1, 1, 1]), variant("TCP, near", [1, 1, 1])]
        (folder / "campaign.json").write_text(json.dumps({"taut": "0", "title": "t", "variants": variants}))

    def test_a_page_and_json_come_of_a_campaign(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.campaign(folder)
            status, out, _ = self.run_it(folder, "--measure", "delay", "--json")
            result = json.loads(out)
            self.assertEqual(status, 0)
            far, near = result["comparisons"]
            self.assertEqual((far["condition"], far["absent"]), ("far", ["TCP"]))
            self.assertEqual(near["note"], "identical in all seeds and all groups")
            self.assertEqual(self.run_it(folder, "--measure", "delay")[0], 0)
            self.assertIn("identical in all seeds", (folder / "statistics.md").read_text())
            first = (folder / "statistics.html").read_bytes()
            self.run_it(folder, "--measure", "delay")
            self.assertEqual(first, (folder / "statistics.html").read_bytes(), "the same bytes each time")

    def test_who_was_not_measured_in_all_seeds_is_named(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.campaign(folder)
            self.run_it(folder, "--measure", "delay")
            self.assertIn("not measured in all seeds: TCP", (folder / "statistics.md").read_text())

    def test_a_curve_is_of_the_variants_own_runs_alone(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run = lambda delay: {"media": [{"stream": "forward haptic", "delay_ms": {"cdf": [[delay, 1.0]]}}]}
            for path, delay in [("01-udp-2-ms/seed-1", 1), ("01-udp-2-ms/seed-9", 9), ("01-earlier/seed-1", 7)]:
                file = folder / "runs" / f"{path}.json"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(run(delay)))
            found = analyse.curves(folder, {"index": 1, "name": "UDP, 2 ms", "seeds": [1, 2]})
            self.assertEqual(found, [[[1, 1.0]]])

    def test_what_is_no_campaign_is_one_line(self):
        with tempfile.TemporaryDirectory() as name:
            status, _, err = self.run_it(name)
            self.assertEqual((status, err.count("\n")), (2, 1))
            self.assertIn("taut run", err)


if __name__ == "__main__":
    unittest.main()
