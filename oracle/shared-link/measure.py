"""What a run on the shared link shows: the delay of the telehaptic stream, and TCP's cycles."""

import dataclasses
import statistics

import lab

LATENESS_OF_TIMEOUT = 150_000_000
"""ns without progress before a retransmission: it was the timer. A round trip is 44 ms at most, the timer 200 ms at least."""


@dataclasses.dataclass
class Cycle:
    """From the beginning of one fast recovery to the beginning of the next; ns since boot."""
    begun: int
    losses: int
    timeout: bool
    recovered: int | None = None
    floor: int | None = None


def haptic(arrived, begin, end):
    """(arrival, delay) of every sample made in the window, in ns, and how many of the samples never arrived."""
    of_stream = [packet for packet in arrived if packet.protocol == lab.UDP and not packet.outgoing]
    numbers = {packet.sequence for packet in of_stream if begin <= packet.sent < end}
    delays = [(packet.time, packet.time - packet.sent) for packet in of_stream if begin <= packet.sent < end]
    made = max(numbers) - min(numbers) + 1
    return delays, made - len(delays), made


def cycles(sent, arrived):
    """TCP's cycles, from what the robot sent and got back and from what reached the operator; and the losses in all."""
    tcp = [packet for packet in sent if packet.protocol == lab.TCP]
    data = [packet for packet in tcp if packet.outgoing and packet.payload]
    reached = [packet for packet in arrived if packet.protocol == lab.TCP and packet.payload and not packet.outgoing]
    missing = {id(data[position]) for position in lab.lost(data, reached)}
    origin = data[0].sequence

    found, pending, highest, una, recover, heard = [], 0, 0, 0, None, data[0].time
    for packet in tcp:
        if not packet.outgoing:
            acknowledged = (packet.acknowledged - origin) % 2**32
            if una < acknowledged <= highest:
                una, heard = acknowledged, packet.time
                if recover is not None and una >= recover:
                    found[-1].recovered, recover = packet.time, None
        elif packet.payload:
            first = (packet.sequence - origin) % 2**32
            timeout = packet.time - heard > LATENESS_OF_TIMEOUT
            if first < highest and recover is None:
                found.append(Cycle(packet.time, pending, timeout))
                recover, pending = highest, 0
            elif first < highest and timeout:
                found[-1].timeout = True
            highest = max(highest, first + packet.payload)
            if id(packet) in missing and recover is not None:
                found[-1].losses += 1
            elif id(packet) in missing:
                pending += 1
    return found, len(missing), len(data)


def floors(found, delays):
    """Gives each cycle the smallest delay of the samples that arrived in it."""
    place = 0
    for cycle, following in zip(found, found[1:]):
        while place < len(delays) and delays[place][0] < cycle.begun:
            place += 1
        while place < len(delays) and delays[place][0] < following.begun:
            delay = delays[place][1]
            cycle.floor = delay if cycle.floor is None else min(cycle.floor, delay)
            place += 1


def measure(sent, arrived, begin, end):
    """All measures of a run between `begin` and `end` (ns since boot): ms, %, Mbit/s, timeouts in 100 s.

    `jitter` leaves out the cycles that contain a retransmission timeout, `jitter_timeout` does not."""
    delays, lost, made = haptic(arrived, begin, end)
    found, tcp_lost, tcp_sent = cycles(sent, arrived)
    floors(found, delays)
    counted = [cycle for cycle in found if begin <= cycle.begun and cycle.floor and cycle.recovered]
    by_losses = {}
    for cycle in counted:
        by_losses.setdefault(min(cycle.losses, 10), []).append(cycle)
    values = [delay for _, delay in delays]
    steps = [(at, delay - before) for (_, before), (at, delay) in zip(delays, delays[1:])]
    ends = [following.begun for following in found[1:]] + [end]
    timed_out = [(cycle.begun, over) for cycle, over in zip(found, ends) if cycle.timeout]
    quiet = [step for at, step in steps if not any(begun <= at < over for begun, over in timed_out)]
    reached = sum(packet.bytes for packet in arrived
                  if packet.protocol == lab.TCP and not packet.outgoing and begin <= packet.time < end)
    return {
        "d_min": statistics.mean(cycle.floor for cycle in counted) / 1e6,
        "smallest": min(values) / 1e6,
        "mean": statistics.mean(values) / 1e6,
        "d_max": max(values) / 1e6,
        "jitter": max(quiet) / 1e6,
        "jitter_timeout": max(step for _, step in steps) / 1e6,
        "loss": 100 * lost / made,
        "tcp": reached * 8e3 / (end - begin),
        "timeouts": sum(cycle.timeout for cycle in counted) * 100e9 / (end - begin),
        "cycles": {
            losses: {
                "cycles": len(group),
                "recovery": statistics.mean(cycle.recovered - cycle.begun for cycle in group) / 1e6,
                "floor": statistics.mean(cycle.floor for cycle in group) / 1e6,
            } for losses, group in sorted(by_losses.items())
        },
    }
