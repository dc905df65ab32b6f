"""What stands beside a simulated run: what passes, what differs, and what is chance."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import twins


def run(p50, p99):
    return {"one_way_ms": {"p50": p50, "p90": p50, "p99": p99, "p999": p99}, "delivered_percent": 100.0}


class Twins(unittest.TestCase):
    def test_a_median_passes_within_a_tenth_or_a_fifth_of_a_millisecond(self):
        self.assertTrue(twins.near(0.3, 0.49) and twins.near(50.0, 54.9))
        self.assertFalse(twins.near(0.3, 0.51) or twins.near(50.0, 55.1))

    def test_a_percentile_is_apart_where_the_ranges_do_not_meet(self):
        self.assertTrue(twins.meet([100.0, 200.0], [210.0, 300.0]))
        self.assertTrue(twins.meet([100.0, 200.0], [50.0, 91.0]))
        self.assertFalse(twins.meet([100.0, 200.0], [221.0, 300.0]))
        self.assertFalse(twins.meet([100.0, 200.0], [50.0, 89.0]))

    def test_a_row_takes_the_median_seed_and_names_the_ranges(self):
        runs = [{"variant": "TCP, low", "simulated": run(7.5, s), "real": run(7.6, r)} for s, r in ((8.0, 20.0), (9.0, 30.0), (8.5, 25.0))]
        (variant, (simulated, ran)), = twins.read(runs).items()
        row = twins.row(variant, simulated, ran)
        self.assertEqual(row[:3], ["TCP", "low", "7.5 → 7.6"])
        self.assertEqual(row[4], "8.5 → 25")
        self.assertEqual(row[-2:], ["PASS", "apart: 8 to 9, 20 to 30"])

    def test_a_variant_that_is_not_what_its_name_says_is_no_value_of_an_axis(self):
        one = {"variant": "TCP, low", "overridden": ["wire.delay"], "simulated": run(7.5, 8.0), "real": run(7.6, 8.0)}
        (variant,) = twins.read([one])
        self.assertEqual(variant, ("TCP, low (but for wire.delay)", ""))

    def test_commands_have_their_share_in_time_and_the_longest_gap(self):
        one = lambda gap, copies: run(4.0, 5.0) | {"in_time_percent": 99.9, "gap_ms": gap} | copies
        one_way = lambda run: run["one_way_ms"].update(max=6.0) or run
        simulated, ran = [one_way(one(gap, {"copies": 1.0})) for gap in (10.0, 30.0, 20.0)], [one_way(one(21.5, {}))]
        row = twins.row_of_commands(("UDP, one path", "dies"), simulated, ran)
        self.assertEqual(row[:4], ["UDP, one path", "dies", "99.9 → 99.9", "20 → 21.5"])
        self.assertEqual(row[-1], "1 → –")


if __name__ == "__main__":
    unittest.main()
