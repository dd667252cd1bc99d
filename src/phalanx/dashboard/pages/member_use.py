"""Charts of the usage over time of running members of a job."""

from __future__ import annotations

import msgspec

from phalanx.dashboard.pages.metrics import ROOM, Chart, Line
from phalanx.model.jobs import states as st
from phalanx.model.member_use import MemberUse, Pieces
from phalanx.model.rows.work import JobDescription, MemberInfo

MOST_MEMBERS = 4
"""The most members of a job whose usage is drawn. The number is small because each member costs a
question to a node.
"""


class DrawnMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member and the charts of its usage."""

    name: str
    charts: list[Chart]


def drawn_members(job: JobDescription) -> list[MemberInfo]:
    """Return the members whose usage a page shows: the first running members."""
    return [one for one in job.members if one.state == st.RUNNING][:MOST_MEMBERS]


def drawn(member: MemberInfo, use: MemberUse, now: float) -> DrawnMember | None:
    """Return the charts of a member's usage up to `now`, in seconds since the epoch; None before
    the first sample.
    """
    gpus = len(member.devices.get("GPU", ()))
    busy = [(length_s, part * gpus) for length_s, part in use.gpus]
    numbers = {
        "CPU": ("CPU", use.cpus),
        "memory": ("memory", use.memory),
        "GPU": ("GPU", busy),
        "GPU memory": ("memory", use.gpu_memory),
    }
    charts = [_chart(name, unit, pieces, now) for name, (unit, pieces) in numbers.items() if pieces]
    return DrawnMember(name=member.name, charts=charts) if charts else None


def _chart(name: str, unit: str, pieces: Pieces, now: float) -> Chart:
    span_s = sum(length_s for length_s, _ in pieces)
    digits = 0 if unit == "memory" else 2
    pieces = [(length_s, round(value, digits)) for length_s, value in pieces]
    points = [(span_s, pieces[0][1])]
    passed_s = 0.0
    for length_s, value in pieces:
        points.append((span_s - passed_s - length_s / 2, value))
        passed_s += length_s
    points.append((0.0, pieces[-1][1]))
    top = max(value for _, value in points)
    line = Line(name="used", kind="used", points=points)
    return Chart(name=name, unit=unit, lines=[line], top=top * ROOM or 1.0, at=now, span_s=span_s)
