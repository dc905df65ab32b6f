"""Recordings of `taut robot` and `taut operator`, as the reader of another project finds them."""

import base64
import json
import os
import signal
import socket
import struct
import subprocess
from collections import Counter

import pytest
import taut
from conftest import Arm, until as eventually

mcap_reader = pytest.importorskip("mcap.reader")
mcap_ros2 = pytest.importorskip("mcap_ros2.decoder")
TAUT = os.environ.get("TAUT")
with_command = pytest.mark.skipif(not TAUT, reason="no command `taut` was built (TAUT)")

CHANNELS = """
[[channel]]
name = "lamp"
kind = "command"
encoding = "json"
schema = "Lamp"
definition = '{"type":"object","properties":{"on":{"type":"boolean"}}}'

[[channel]]
name = "say"
kind = "command"
encoding = "cdr"
schema = "std_msgs/msg/String"
definition = "string data"

[[channel]]
name = "camera"
kind = "command"
encoding = "raw"
schema = "picture"
delivery = "newest"
largest = "1MB"
"""
OPEN = {"boolean": bool, "string": str, "number": (int, float)}


@pytest.fixture
def site(tmp_path):
    (tmp_path / "channels.toml").write_text(CHANNELS)
    running = []

    def start(*arguments):
        process = subprocess.Popen(
            [TAUT, *arguments, "--json", "--channels", "channels.toml"],
            cwd=tmp_path,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    identity = lambda name: subprocess.run(
        [TAUT, "identity", "--path", name], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.strip()
    robot_id, own = identity("robot"), identity("own")
    robot = start(
        "robot", "--listen", "127.0.0.1:0", "--identity", "robot", "--trust", own, "--state", "kept", "--watchdog", "3s",
        "--robot", "sim:wall", "--record", "robot.mcap",
    )
    address = until(robot, "listening")["address"]

    def operator(*more):
        return start("operator", "--connect", address, "--robot-id", robot_id, "--identity", "own", "--resume", "start", *more)

    yield tmp_path, robot, operator
    for process in running:
        process.kill()
        process.wait()


def until(process, event, is_so=lambda line: True):
    for line in map(json.loads, process.stdout):
        if line["event"] == event and is_so(line):
            return line
    raise AssertionError(f"it ended without {event}")


def ended(process):
    lines = process.stdout.readlines()
    assert process.wait(60) == 0
    return json.loads(lines[-1])


def read(path):
    """Every message of a file, decoded and held against its schema; how many there are of each topic, and the events."""
    counts, events = Counter(), []
    with open(path, "rb") as file:
        reader = mcap_reader.make_reader(file)
        for schema, channel, message in reader.iter_messages():
            counts[channel.topic] += 1
            if channel.message_encoding == "cdr":
                assert (schema.name, schema.encoding) == ("std_msgs/msg/String", "ros2msg")
                continue
            assert channel.message_encoding == "json" and schema.encoding == "jsonschema"
            described, content = json.loads(schema.data), json.loads(message.data)
            assert set(described.get("required", ())) <= set(content)
            for name, is_so in described["properties"].items():
                assert name not in content or isinstance(content[name], OPEN[is_so["type"]]), (channel.topic, name)
            assert message.publish_time <= message.log_time
            if channel.topic == "taut/events":
                events.append(content)
        summary = reader.get_summary()
        if summary is not None and summary.statistics is not None:
            of = {channel.topic: summary.statistics.channel_message_counts[channel.id] for channel in summary.channels.values()}
            assert of == dict(counts)
    return counts, events


@with_command
def test_every_message_is_there_with_its_schema(site):
    folder, robot, operator = site
    with_lines = operator("--input", "lines", "--record", "operator.mcap")
    until(with_lines, "channel")
    for number in range(20):
        with_lines.stdin.write(json.dumps({"message": {"channel": "lamp", "payload": {"on": number % 2 == 0}}}) + "\n")
    # CDR, little-endian: the length with the final zero, the text.
    payload = base64.b64encode(b"\0\1\0\0" + struct.pack("<I", 6) + b"hello\0").decode()
    with_lines.stdin.write(json.dumps({"message": {"channel": "say", "base64": payload}}) + "\n")
    with_lines.stdin.flush()
    until(with_lines, "status", lambda line: [it["delivered"] for it in line["status"]["channels"]] == [20, 1, 0])
    with_lines.stdin.write("q\n")
    with_lines.stdin.flush()
    said = ended(with_lines)
    robot.send_signal(signal.SIGTERM)
    robots = ended(robot)

    (sent, *_), (came, *_) = said["status"]["channels"], robots["status"]["channels"]
    counts, events = read(folder / "operator.mcap")
    assert counts["to_robot/lamp"] == sent["made"] == 20, (counts, sent)
    assert events[-1] == said
    counts, events = read(folder / "robot.mcap")
    assert counts["to_robot/lamp"] == came["delivered"] == 20, (counts, came)
    assert events[-1] == robots
    for end in ["operator", "robot"]:
        with open(folder / f"{end}.mcap", "rb") as file:
            decoded = mcap_reader.make_reader(file, decoder_factories=[mcap_ros2.DecoderFactory()])
            said = [message.decoded_message.data for message in decoded.iter_decoded_messages(topics=["to_robot/say"])]
        assert said == ["hello"]


@with_command
def test_states_and_forces_are_as_many_as_the_session_says(site):
    folder, robot, operator = site
    said = ended(operator("--messages", "800", "--record", "operator.mcap"))
    robot.send_signal(signal.SIGTERM)
    robots = ended(robot)
    counts, events = read(folder / "operator.mcap")
    refused = sum(event["event"] == "dropped" and event["sequence"] is None for event in events)
    assert counts["operator/state"] == said["made"] - refused == 800 - refused
    assert counts["operator/round_trip"] == said["status"]["rtt"]["count"]
    robots_counts, robots_events = read(folder / "robot.mcap")
    assert robots_counts["operator/state"] == robots["status"]["delivered"]
    assert robots_counts["robot/state"] >= counts["robot/state"] > 0
    stops = [event for event in robots_events if event["event"] == "stopped"]
    assert len(stops) == 1 and stops[0]["why"]


@with_command
def test_a_file_whose_writer_was_killed_is_read_after_the_next_start(site):
    folder, _, operator = site
    killed = operator("--record", "operator.mcap")
    until(killed, "status")
    before = until(killed, "status")
    killed.kill()
    killed.wait()
    ended(operator("--messages", "50", "--record", "operator.mcap"))
    counts, _ = read(folder / "operator.1.mcap")
    assert counts["operator/state"] >= before["status"]["messages"] - 1000, counts
    assert read(folder / "operator.mcap")[0]["operator/state"] == 50


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Viewer:
    """A client of `foxglove.sdk.v1` (https://github.com/foxglove/ws-protocol) over a web socket (RFC 6455), as little as there can be."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        lines = ["GET / HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Protocol: foxglove.sdk.v1", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self.bytes = b""
        while b"\r\n\r\n" not in self.bytes:
            self.bytes += self.socket.recv(4096)
        answer, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        assert answer.startswith(b"HTTP/1.1 101") and b"foxglove.sdk.v1" in answer, answer

    def take(self, count):
        while len(self.bytes) < count:
            more = self.socket.recv(65536)
            assert more, "it was closed"
            self.bytes += more
        taken, self.bytes = self.bytes[:count], self.bytes[count:]
        return taken

    def say(self, message):
        self.send(1, json.dumps(message).encode())

    def send(self, kind, payload):
        length = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack(">H", len(payload))
        self.socket.sendall(bytes([0x80 | kind]) + length + b"\0\0\0\0" + payload)  # A mask of zeros changes nothing.

    def next(self):
        """A message: of text the JSON, else its bytes. Pings are answered."""
        while True:
            kind, length = self.take(2)
            if length >= 126:
                (length,) = struct.unpack(">H", self.take(2)) if length == 126 else struct.unpack(">Q", self.take(8))
            payload = self.take(length)
            if kind & 15 < 8:
                return json.loads(payload) if kind & 15 == 1 else payload
            if kind & 15 == 9:
                self.send(10, payload)

    def until(self, op):
        while True:
            message = self.next()
            if isinstance(message, dict) and message["op"] == op:
                return message


@with_command
def test_a_session_is_seen_live_and_nobody_can_publish(site):
    folder, _, operator = site
    port = free_port()
    seen = operator("--view", f"127.0.0.1:{port}", "--record", "operator.mcap")
    until(seen, "connected")
    viewer = Viewer(port)
    assert viewer.until("serverInfo")["capabilities"] == []
    channels = {}
    while len(channels) < 7:
        channels.update({channel["topic"]: channel for channel in viewer.until("advertise")["channels"]})
    assert set(channels) == {
        "operator/state", "robot/state", "operator/round_trip", "taut/events", "to_robot/lamp", "to_robot/say", "to_robot/camera",
    }
    assert channels["operator/state"]["schemaName"] == "taut.State" and channels["operator/state"]["encoding"] == "json"
    assert "position_x_m" in json.loads(channels["operator/state"]["schema"])["properties"]
    ids = {number: topic for number, topic in enumerate(channels, 1)}
    viewer.say({"op": "subscribe", "subscriptions": [{"id": i, "channelId": channels[t]["id"]} for i, t in ids.items()]})
    live = Counter()
    states = []
    while live["operator/state"] < 300 or not live["taut/events"] or not live["robot/state"]:
        message = viewer.next()
        if isinstance(message, bytes) and message[0] == 1:
            number, at = struct.unpack("<IQ", message[1:13])
            live[ids[number]] += 1
            if ids[number] == "operator/state":
                states.append((at, message[13:]))
    assert live["operator/round_trip"] > 0
    viewer.say({"op": "advertise", "channels": [{"id": 1, "topic": "to_robot/lamp", "encoding": "json", "schemaName": ""}]})
    assert "level" in viewer.until("status")
    # Whoever looks on and goes disturbs nobody.
    viewer.socket.close()
    seen.stdin.close()
    seen.send_signal(signal.SIGTERM)
    ended(seen)
    with open(folder / "operator.mcap", "rb") as file:
        messages = mcap_reader.make_reader(file).iter_messages(topics=["operator/state"])
        written = {(message.log_time, message.data) for _, _, message in messages}
    assert set(states) <= written


@with_command
def test_who_looks_on_and_reads_nothing_costs_neither_memory_nor_others_their_pictures(site):
    folder, robot, operator = site
    pictures, size = 48, 1_000_000
    port, metrics = free_port(), free_port()
    seen = operator("--view", f"127.0.0.1:{port}", "--metrics", f"127.0.0.1:{metrics}", "--input", "lines")
    until(seen, "channel")
    viewers = [Viewer(port) for _ in range(2)]
    idle, reader = viewers
    for viewer in viewers:
        channels = {channel["topic"]: channel["id"] for channel in viewer.until("advertise")["channels"]}
        wanted = {9: "taut/events", 7: "to_robot/camera"} if viewer is reader else {7: "to_robot/camera"}
        viewer.say({"op": "subscribe", "subscriptions": [{"id": i, "channelId": channels[topic]} for i, topic in wanted.items()]})
    events = set()

    def read_to(subscription):
        while True:
            message = reader.next()
            if isinstance(message, bytes) and message[1] == 9:
                events.add(json.loads(message[13:])["event"])
            if isinstance(message, bytes) and message[1] == subscription:
                return message

    # Events come after the subscription was heard.
    read_to(9)

    def resident():
        with open(f"/proc/{seen.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def show(number):
        payload = base64.b64encode(number.to_bytes(4, "little") + bytes(size - 4)).decode()
        seen.stdin.write(json.dumps({"message": {"channel": "camera", "base64": payload}}) + "\n")
        seen.stdin.flush()
        message = read_to(7)
        assert len(message) == 13 + size and message[13:17] == number.to_bytes(4, "little")

    [show(number) for number in range(8)]
    before = resident()
    [show(number) for number in range(8, pictures)]
    assert resident() - before < 12 * size, (before, resident())

    def dropped():
        with socket.create_connection(("127.0.0.1", metrics), timeout=30) as asked:
            asked.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            answer = b"".join(iter(lambda: asked.recv(65536), b"")).decode()
        lines = [line for line in answer.splitlines() if line.startswith("taut_recording_view_dropped")]
        return {line.split('"')[1]: float(line.split()[-1]) for line in lines}

    # What the kernel keeps for the idle one differs.
    eventually("it is counted", lambda: dropped().get("superseded", 0) >= pictures - 16)
    assert dropped()["behind"] == 0
    while "not_shown" not in events:
        read_to(9)
    seen.send_signal(signal.SIGTERM)
    seen.stdin.close()
    ended(seen)


@with_command
def test_a_view_is_of_this_host_alone(site):
    _, _, operator = site
    wide = operator("--view", "0.0.0.0:8765")
    assert wide.wait(30) == 2


def test_ends_of_python_record_what_the_command_records(ends, tmp_path):
    arm = Arm()
    says, hears = taut.Sender("lamp", kind="telemetry"), taut.Receiver("lamp", kind="telemetry")
    robot = ends.robot(arm, record=tmp_path / "robot.mcap", channels=[says])
    operator = ends.operator(robot.address, record=tmp_path / "operator.mcap", channels=[hears])
    feeder = ends.feed(operator, taut.State((0.1, 0, 0.2)))
    operator.resume()
    eventually("it moves", lambda: arm.applied > 50)
    says.send(b"on")
    assert hears.recv(30) == b"on"
    robot.stop()
    eventually("it stops", lambda: arm.stops)
    feeder.stop()
    operator.close()
    robot.close()
    topics = {"robot": Counter(), "operator": Counter()}
    events = {"robot": [], "operator": []}
    for end in topics:
        with open(tmp_path / f"{end}.mcap", "rb") as file:
            for _, channel, message in mcap_reader.make_reader(file).iter_messages():
                topics[end][channel.topic] += 1
                if channel.topic == "taut/events":
                    events[end].append(json.loads(message.data))
    assert topics["operator"]["to_operator/lamp"] == topics["robot"]["to_operator/lamp"] == 1
    assert topics["robot"]["operator/state"] > 50 and topics["operator"]["robot/state"] > 0 and topics["operator"]["operator/round_trip"] > 50
    assert [event["why"] for event in events["robot"] if event["event"] == "stopped"][0] == "local_emergency", events["robot"]
    for end, number in (("robot", "watchdog_ms"), ("operator", "deadline_ms")):
        begun = events[end][0]
        assert (begun["event"], begun["end"], begun["transport"], begun["secure"]) == ("recording", end, "quic", True)
        assert begun[number] > 0
        lamp, = begun["channels"]
        assert (lamp["name"], lamp["kind"], lamp["direction"], lamp["delivery"]) == ("lamp", "telemetry", "to_operator", "newest")
    assert {"connected", "resumed", "robot", "summary"} <= {event["event"] for event in events["operator"]}
    assert events["robot"][-1]["event"] == events["operator"][-1]["event"] == "summary"


def test_a_recording_that_cannot_be_written_is_refused_before_anything_moves(ends, tmp_path):
    with pytest.raises(taut.SystemError, match="nowhere"):
        ends.robot(Arm(), record=tmp_path / "nowhere" / "robot.mcap")
