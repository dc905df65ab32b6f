"""Datasets of LeRobot, of recordings that are written here."""

import json

import pytest

pytest.importorskip("pyarrow")
writer = pytest.importorskip("mcap.writer")


@pytest.fixture
def recording(tmp_path):
    """Writes a recording of states: a second of them on each line, at 100 Hz, with where the robot is or without, with the hand locked or not."""

    def write(*lines):
        path = tmp_path / "session.mcap"
        with open(path, "wb") as file:
            mcap = writer.Writer(file)
            mcap.start()
            channels = {topic: mcap.register_channel(topic, "json", 0) for topic in ("operator/state", "robot/state")}
            for number in range(100 * len(lines)):
                line, now = lines[number // 100], number * 10_000_000
                for topic, is_told in (("robot/state", line["seen"]), ("operator/state", line["told"])):
                    if is_told:
                        mcap.add_message(channels[topic], now, state(number, topic == "operator/state" and line["locked"]), now)
            mcap.finish()
        return path

    return write


def state(number, locked):
    fields = ("position_x_m", "position_y_m", "position_z_m", "orientation_w", "orientation_x", "orientation_y", "orientation_z")
    fields += ("force_x_n", "force_y_n", "force_z_n", "gripper")
    return json.dumps({**{name: float(number) for name in fields}, "locked": bool(locked)}).encode()


def line(told=True, seen=True, locked=False):
    return {"told": told, "seen": seen, "locked": locked}


def convert(path, folder):
    from pyarrow import parquet

    from taut.lerobot._dataset import convert

    info = convert([path], folder, fps=20)
    return info, parquet.read_table(folder / "data/chunk-000/file-000.parquet").to_pydict()


def test_what_a_locked_hand_does_is_no_action(recording, tmp_path):
    info, data = convert(recording(line(), line(locked=True), line(), line(told=False)), tmp_path / "dataset")
    assert info["total_episodes"] == 2
    assert not [action for action in data["action"] if 100 <= action[0] < 200], "the hand went back while it was locked"


def test_the_folder_that_one_is_in_is_said_to_be_there(recording, tmp_path, monkeypatch):
    from taut.lerobot._dataset import convert

    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="is there already"):
        convert([recording(line())], ".")


def test_an_episode_begins_where_it_is_known_where_the_robot_is(recording, tmp_path):
    silent, blind = line(told=False, seen=False), line(seen=False)
    info, data = convert(recording(line(), silent, blind, line()), tmp_path / "dataset")
    assert info["total_episodes"] == 2
    begins = data["episode_index"].index(1)
    assert data["action"][begins][0] >= 300 and data["observation.state"][begins][0] >= 300, "nothing was known of it at 2 s"
