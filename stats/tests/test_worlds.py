"""What stands side by side of three worlds."""

import io
import sys
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds


def stream(p50, lost=0.0):
    return {"p50": p50, "p99": p50}, lost, None


class Worlds(unittest.TestCase):
    def test_each_world_is_judged_by_itself_and_one_that_is_missing_is_not(self):
        row = worlds.row("v", "haptic", [stream(20.0), stream(21.9), stream(22.1)])
        self.assertEqual(row[2:5], ["20 → 21.9 → 22.1", "PASS", "**differs**"])
        self.assertEqual(worlds.row("v", "haptic", [stream(20.0), None, stream(20.0)])[2:5], ["20 → – → 20", "–", "PASS"])

    def test_a_run_whose_packets_do_not_add_up_does_not_pass(self):
        def summary(*violations):
            return {"cross": [{"name": "bulk", "delay_ms": {"p50": 9.0, "p99": 9.0}, "loss_percent": 0.0, "delivered_bps": 1e6}],
                    "made": 0, "counters": {}, "violations": list(violations)}

        lost = "**does not add up**"
        for violations, verdicts in ((((), (), ()), ["PASS", "PASS"]), (((), ("5",), ()), [lost, "PASS"]), ((("5",), (), ()), [lost, lost])):
            simulated, real, kernel = (summary(*one) for one in violations)
            runs = [[{"variant": "v", "simulated": simulated, "real": real}], [{"variant": "v", "simulated": None, "real": kernel}]]
            with mock.patch("worlds.run", side_effect=runs), redirect_stdout(io.StringIO()):
                (row,) = worlds.compare("taut", "Title", "s.toml", [], None)
            self.assertEqual(row[3:5], verdicts)

    def test_a_session_of_media_has_a_row_a_medium_and_cross_traffic_its_rate(self):
        flow = {"name": "bulk", "delay_ms": None, "loss_percent": 1.0, "delivered_bps": 2e6}
        medium = {"name": "backward video", "one_way_ms": {"p50": 9.0}, "delivered_percent": 99.0}
        found = worlds.streams({"media": [medium], "cross": [flow], "made": 5})
        self.assertEqual(list(found), ["backward video", "bulk"])
        self.assertEqual((found["backward video"][1], found["bulk"][2]), (1.0, 2.0))

    def test_what_a_failed_run_found_is_shown_and_a_world_without_runs_fails(self):
        world = lambda said, status: mock.Mock(stdout=said, returncode=status)
        with mock.patch("subprocess.run", return_value=world('{"runs": [1]}', 1)), redirect_stderr(io.StringIO()):
            self.assertEqual(worlds.run("taut", "s.toml", [], None, "real"), [1])
        for verdicts in ([worlds.ABSENT, "PASS"], ["PASS", worlds.ABSENT]):
            rows = [["v", "haptic", "", *verdicts]]
            with mock.patch("worlds.compare", return_value=rows), mock.patch("sys.argv", ["worlds", "taut"]), redirect_stdout(io.StringIO()):
                self.assertRaises(SystemExit, worlds.main)


if __name__ == "__main__":
    unittest.main()
