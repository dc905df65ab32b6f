"""A recording as a LeRobot dataset of version 3 (https://huggingface.co/docs/lerobot/lerobot-dataset-v3), without images."""

from __future__ import annotations

import json
import os
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Iterator

from taut._progress import Progress

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from mcap.reader import make_reader
except ImportError as why:
    raise ImportError(f"{why}: pip install mcap numpy pyarrow") from why

__all__ = ["convert"]

#: An episode ends where nothing was told to move for so long, and begins with what was seen within it, s.
GAP = 0.5
#: The flag of motion by which the hand moves, and the robot does not.
LOCKED = 1
QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)
DATA, EPISODES = "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"
INDICES = ("frame_index", "episode_index", "index", "task_index")
STATE_NAMES = ("x", "y", "z", "qw", "qx", "qy", "qz", "gripper")
STATE_FIELDS = ("position_x_m", "position_y_m", "position_z_m", "orientation_w", "orientation_x", "orientation_y", "orientation_z", "gripper")
FORCE_FIELDS = ("force_x_n", "force_y_n", "force_z_n")


@dataclass
class _Signal:
    """Numbers that a recording has again and again: their names, and the newest."""

    names: list[str] = field(default_factory=list)
    newest: list[float] | None = None
    at: float = 0.0


def convert(recordings: Iterable[str | os.PathLike], folder: str | os.PathLike, *, fps: int = 30, task: str = "teleoperation") -> dict[str, Any]:
    """Writes the dataset into ``folder``, which must not be there yet, and gives its ``info``.

    Actions are the joints of a channel of motion ``to_robot/joints``, and ``observation.state`` what ``to_operator/observation`` says of them;
    in a recording without such a channel, the operator's states, and the robot's with their forces. ``fps`` times a second the newest of
    both is a frame. What the hand does while it is locked is no action. An episode ends where no action came for half a second, and begins where the robot said
    within as long where it was. Raises ``ValueError`` when nothing moved in it.
    """
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"{folder} is there already: name a new folder")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    action, seen = _Signal(), _Signal()
    episodes = []
    for recording in recordings:
        episodes += _episodes(recording, action, seen, 1 / fps)
    if not episodes:
        raise ValueError("nothing was told to move in this recording, or nobody said where the robot was: record a session that moves")
    info = _write(partial, episodes, action.names, seen.names, fps, task)
    partial.rename(folder)
    return info


def _episodes(recording: str | os.PathLike, action: _Signal, seen: _Signal, period: float) -> list[dict[str, np.ndarray]]:
    """Frames of each stretch in which something was told to move."""
    episodes, frames, begun, due = [], None, 0.0, 0.0
    action.newest = seen.newest = None

    def end() -> None:
        # What was told last lasts until it stopped, and the pause by which that is seen is none of it.
        while frames and len(frames) > 1 and begun + (len(frames) - 1) * period > action.at:
            frames.pop()
        if frames:
            actions, states = zip(*frames)
            episodes.append({"action": np.array(actions, np.float32), "observation.state": np.array(states, np.float32)})

    for signal, at, numbers in _messages(recording, action, seen):
        while frames is not None and due <= at:
            if due - action.at > GAP:
                end()
                frames = None
                break
            frames.append((action.newest, seen.newest))
            due += period
        signal.newest, signal.at = numbers, at
        if signal is action and frames is None and seen.newest is not None and at - seen.at <= GAP:
            frames, begun, due = [], at, at
    end()
    return episodes


def _messages(recording: str | os.PathLike, action: _Signal, seen: _Signal) -> Iterator[tuple[_Signal, float, list[float]]]:
    """What is of either, in the order in which it was seen, s."""
    with open(recording, "rb") as file, Progress(f"reading {recording}") as progress:
        reader = make_reader(file)
        summary = reader.get_summary()
        if summary is None or summary.statistics is None:
            raise ValueError(f"{recording} was not finished: `taut trace repair {recording}` does that")
        topics = {channel.topic: channel for channel in summary.channels.values()}
        joints = topics.get("to_robot/joints")
        of = (("to_robot/joints", "to_operator/observation") if joints else ("operator/state", "robot/state"))
        begin, end = summary.statistics.message_start_time, summary.statistics.message_end_time
        named = json.loads(joints.metadata.get("definition", "[]")) if joints else []
        for _, channel, message in reader.iter_messages(topics=of):
            progress((message.log_time - begin) / max(1, end - begin))
            signal = action if channel.topic == of[0] else seen
            if channel.topic == "to_robot/joints":
                names, numbers, locked = named, _joints(message.data), message.data[0] & LOCKED
            elif joints:
                names, numbers = zip(*json.loads(message.data).items())
            else:
                told = json.loads(message.data)
                locked = told["locked"]
                fields = STATE_FIELDS if signal is action else STATE_FIELDS + FORCE_FIELDS
                names = STATE_NAMES if signal is action else STATE_NAMES + ("fx", "fy", "fz")
                numbers = [told[name] for name in fields]
            names = list(names) or [f"joint_{number}" for number in range(len(numbers))]
            if signal is action and locked:
                continue  # The hand moves, and the robot does not.
            signal.names = signal.names or names
            if names != signal.names or len(numbers) != len(names):
                raise ValueError(f"{recording}: {channel.topic} has {names}, and had {signal.names} before: convert each by itself")
            yield signal, message.log_time / 1e9, list(numbers)


def _joints(payload: bytes) -> tuple[float, ...]:
    """Positions of ``taut/Joints`` (docs/protocols/session.md)."""
    count = payload[1]
    return struct.unpack_from(f">{count}f", payload, 4)


def _statistics(column: np.ndarray) -> dict[str, list]:
    """As LeRobot has them of each feature."""
    column = column.reshape(len(column), -1).astype(np.float64)
    found = {"min": column.min(0), "max": column.max(0), "mean": column.mean(0), "std": column.std(0), "count": np.array([len(column)])}
    found |= {f"q{int(100 * share):02d}": np.quantile(column, share, axis=0) for share in QUANTILES}
    return {name: value.tolist() for name, value in found.items()}


def _arrow(column: np.ndarray) -> pa.Array:
    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(pa.array(column.reshape(-1)), column.shape[1])


def _write(root: Path, episodes: list[dict[str, np.ndarray]], actions: list[str], states: list[str], fps: int, task: str) -> dict[str, Any]:
    for path in (DATA, EPISODES):
        (root / path).parent.mkdir(parents=True)
    rows, first = [], 0
    for number, episode in enumerate(episodes):
        length = len(episode["action"])
        frames = np.arange(length)
        episode["timestamp"] = (frames / fps).astype(np.float32)
        episode["frame_index"], episode["index"] = frames, first + frames
        episode["episode_index"], episode["task_index"] = np.full(length, number), np.zeros(length, np.int64)
        row = {"episode_index": number, "tasks": [task], "length": length, "data/chunk_index": 0, "data/file_index": 0}
        row |= {"dataset_from_index": first, "dataset_to_index": first + length, "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
        for name, column in episode.items():
            row |= {f"stats/{name}/{what}": value for what, value in _statistics(column).items()}
        rows.append(row)
        first += length
    columns = {name: np.concatenate([episode[name] for episode in episodes]) for name in episodes[0]}
    with pq.ParquetWriter(root / DATA, pa.table({name: _arrow(column[:0]) for name, column in columns.items()}).schema) as writer:
        for episode in episodes:
            writer.write_table(pa.table({name: _arrow(episode[name]) for name in columns}))
    pq.write_table(pa.Table.from_pylist(rows), root / EPISODES)
    _write_tasks(root, task)
    features = {
        "action": {"dtype": "float32", "shape": [len(actions)], "names": actions},
        "observation.state": {"dtype": "float32", "shape": [len(states)], "names": states},
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        **{name: {"dtype": "int64", "shape": [1], "names": None} for name in INDICES},
    }
    info = {
        "codebase_version": "v3.0",
        "robot_type": "taut",
        "total_episodes": len(episodes),
        "total_frames": first,
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": fps,
        "splits": {"train": f"0:{len(episodes)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": None,
        "features": features,
    }
    (root / "meta/info.json").write_text(json.dumps(info, indent=4))
    (root / "meta/stats.json").write_text(json.dumps({name: _statistics(column) for name, column in columns.items()}, indent=4))
    return info


def _write_tasks(root: Path, task: str) -> None:
    """Its tasks are the index of a table of pandas, which a table says by its metadata."""
    of = {"pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    described = {
        "index_columns": ["task"],
        "column_indexes": [{"name": None, "field_name": None, **of}],
        "columns": [
            {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64", "metadata": None},
            {"name": "task", "field_name": "task", **of},
        ],
        "pandas_version": "2.0.0",
    }
    table = pa.table({"task_index": pa.array([0], pa.int64()), "task": pa.array([task])})
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(described)}), root / "meta/tasks.parquet")
