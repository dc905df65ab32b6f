"""Control laws."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Control:
    """By which control law the arm is led and the hand is pushed: ``"position_force"``, ``"position_position"``, ``"wave"`` or ``"tdpa"``; the last two stay
    calm over any delay. ``servo`` is what the controller of the arm's position does, stiffness and damping in N/m and N·s/m, and ``turning_servo``, with ``turns``,
    what that of how it is turned does, in N·m/rad and N·m·s/rad. Law, servos and ``impedance`` have to be the same at both ends: two that differ have no session.

    ``playout``: for so many seconds at most this end holds what its law hears, to play it in even time; 0.1 of ``"wave"``, else 0. ``impedance``, N·s/m, and
    ``filter``, s, are of ``"wave"``; ``reserve``, J, and ``correction``, s, of both calm ones: see the crate taut. What is ``None`` is as the law has it by itself.
    """

    law: str
    servo: tuple[float, float] | None = None
    turning_servo: tuple[float, float] | None = None
    playout: float | None = None
    impedance: float | None = None
    filter: float | None = None
    correction: float | None = None
    reserve: float | None = None


def of(control: Control | str | None) -> Control | None:
    """A name is a law with nothing else set."""
    return Control(control) if isinstance(control, str) else control
