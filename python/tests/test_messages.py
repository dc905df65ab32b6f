import asyncio
import dataclasses
import os
import time

import pytest
import taut
from conftest import PATIENCE, Arm, until


@dataclasses.dataclass(frozen=True)
class Cell:
    volts: float


@dataclasses.dataclass(frozen=True)
class Battery:
    percent: int
    cells: list[Cell]
    note: str | None = None


def other_battery():
    @dataclasses.dataclass
    class Battery:
        percent: float

    return Battery


def test_a_dataclass_goes_over_a_channel_and_is_awaited(ends):
    sends = taut.Sender("battery", Battery, kind="telemetry")
    receives = taut.Receiver("battery", Battery, kind="telemetry")
    robot = ends.robot(Arm(), channels=[sends])
    message = Battery(87, [Cell(3.7), Cell(4.0)])

    async def first():
        operator = await asyncio.to_thread(ends.operator, robot.address, channels=[receives])
        await asyncio.to_thread(until, "it is open", lambda: sends.is_open)
        asyncio.get_running_loop().call_later(0.05, sends.send, message)
        async for came in receives:
            operator.close()
            return came

    assert asyncio.run(asyncio.wait_for(first(), PATIENCE)) == message
    with pytest.raises(taut.EndedError):
        receives.recv(PATIENCE)


def test_a_task_that_waits_is_woken_by_the_message_after_one_that_was_polled_beside_it(ends):
    sends, receives = taut.Sender("jobs", kind="command"), taut.Receiver("jobs", kind="command")
    robot = ends.robot(Arm(), channels=[receives])
    ends.operator(robot.address, channels=[sends])
    until("it is open", lambda: sends.is_open)

    async def second():
        waits = asyncio.ensure_future(anext(receives))
        await asyncio.sleep(0)  # It waits.
        sends.send(b"first")
        # The loop does not run meanwhile.
        assert until("it came", receives.poll) == b"first"
        sends.send(b"second")
        return await waits

    assert asyncio.run(asyncio.wait_for(second(), PATIENCE / 4)) == b"second"


def test_in_a_process_that_was_forked_off_channels_have_ended(ends):
    sends, receives = taut.Sender("jobs", kind="command"), taut.Receiver("jobs", kind="command")
    robot = ends.robot(Arm(), channels=[receives])
    ends.operator(robot.address, channels=[sends])
    until("it is open", lambda: sends.is_open)
    sends.send(b"job")
    forked = os.fork()
    if forked == 0:
        ended = 0
        for calls in (lambda: sends.send(b""), lambda: receives.recv(1), receives.poll):
            try:
                calls()
            except taut.EndedError:
                ended += 1
        os._exit(ended + 10 * sends.is_open)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 3
    assert receives.recv(PATIENCE) == b"job"


def test_arrays_share_the_memory_of_their_message(ends):
    np = pytest.importorskip("numpy")
    kind = taut.Array("<f4", (2, 3))
    sends = taut.Sender("wrench", kind, kind="command")
    receives = taut.Receiver("wrench", kind, kind="command")
    robot = ends.robot(Arm(), channels=[receives])
    ends.operator(robot.address, channels=[sends])
    until("it is open", lambda: sends.is_open)
    sends.send(np.arange(6, dtype="<f4").reshape(2, 3))
    came = receives.recv(PATIENCE)
    assert came.tolist() == [[0, 1, 2], [3, 4, 5]] and not came.flags.owndata
    with pytest.raises(taut.MessageError, match="none of"):
        sends.send(np.zeros((3, 2), "<f4"))


def test_ends_that_declare_different_messages_both_raise(ends):
    sends = taut.Sender("battery", Battery, kind="telemetry")
    receives = taut.Receiver("battery", other_battery(), kind="telemetry")
    robot = ends.robot(Arm(), channels=[sends])
    ends.operator(robot.address, channels=[receives])
    with pytest.raises(taut.SchemaError, match="battery"):
        receives.recv(PATIENCE)

    def raises():
        try:
            sends.send(Battery(1, []))
        except taut.SchemaError:
            return True
        except taut.NotConnectedError:
            return False

    until("the sender raises, too", raises)


def test_what_cannot_be_sent_says_why():
    sends = taut.Sender("log", kind="bulk")
    with pytest.raises(taut.NotConnectedError, match="belongs to nobody"):
        sends.send(b"hello")
    with pytest.raises(taut.SettingError, match="no type of a message"):
        taut.Sender("x", dataclasses.make_dataclass("X", [("when", time.struct_time)]), kind="bulk")
    with pytest.raises(taut.SettingError, match="JointNames"):
        taut.Sender("x", kind="motion")


@pytest.mark.parametrize(
    "kind, message", [(bytes, 3), (bytes, "text"), (Cell, Cell(float("nan"))), (Cell, Cell(object())), (Battery, Cell(1.0))]
)
def test_what_is_no_message_is_told_as_one_kind_of_error(kind, message):
    with pytest.raises(taut.MessageError):
        taut.Sender("x", kind, kind="bulk").send(message)


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"{}", b'{"percent":1}', b'{"percent":true,"cells":[],"note":null}', b'{"percent":1,"cells":[3],"note":null}', b'{"percent":1,"cells":[{"volts":1' + b"0" * 400 + b'}],"note":null}']
)
def test_bytes_that_are_no_message_raise(payload):
    receives = taut.Receiver("battery", Battery, kind="telemetry")
    with pytest.raises(taut.MessageError, match="battery"):
        receives._read(payload)
