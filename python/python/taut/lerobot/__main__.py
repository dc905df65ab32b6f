"""python -m taut.lerobot convert session.mcap FOLDER"""

import argparse
import json
import sys


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m taut.lerobot", description="What taut has for LeRobot")
    convert = parser.add_subparsers(required=True).add_parser("convert", help="make a LeRobot dataset (v3) of recordings")
    convert.add_argument("recordings", nargs="+", metavar="FILE.mcap", help="recordings of one end of a session")
    convert.add_argument("folder", help="of the dataset; it must not be there yet")
    convert.add_argument("--fps", type=int, default=30, help="frames per second (30)")
    convert.add_argument("--task", default="teleoperation", help="what is done in them, in words")
    convert.add_argument("--json", action="store_true", help="print the dataset's info as JSON")
    asked = parser.parse_args()
    try:
        from taut.lerobot._dataset import convert as make

        if asked.fps < 1:
            raise ValueError("--fps is at least 1")
        info = make(asked.recordings, asked.folder, fps=asked.fps, task=asked.task)
    except (ImportError, OSError, ValueError) as why:
        sys.exit(f"taut.lerobot: {why}")
    if asked.json:
        print(json.dumps(info))
    else:
        print(f"{info['total_episodes']} episodes, {info['total_frames']} frames in {asked.folder}")


main()
