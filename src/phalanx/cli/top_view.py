"""Pure functions that draw a snapshot as lines that fit into the terminal, for `phalanx top`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from phalanx.cli.table import safe
from phalanx.cli.top_snapshot import TopSnapshot
from phalanx.model.lifecycle import ALIVE
from phalanx.model.readable import amount, duration, ranges, size
from phalanx.model.rows.cluster import NodeInfo, current_nodes
from phalanx.model.rows.devices import STRANGER, DeviceInfo
from phalanx.model.rows.work import JobInfo, QueueInfo
from phalanx.observe.device_health import BAD, SUSPECT
from phalanx.observe.job_times import current
from phalanx.observe.usage import is_silent, sums

if TYPE_CHECKING:
    from rich.text import Text

SECTIONS = ("nodes", "queues", "running", "waiting")
LEAST_ROWS = 2
"""The number of lines that each section gets before any section gets more."""
_GPU = "GPU"
_NAMES = 16
_LEAST_JOB, _JOB_PART = 24, 3
"""The number of characters that every terminal has for a job's name. A wide terminal has its width
divided by `_JOB_PART`.
"""


class Signs(NamedTuple):
    """The characters for the states of a device. States never differ by colour alone."""

    free: str
    part: str
    whole: str
    suspect: str = "?"
    bad: str = "x"
    closed: str = "-"


UNICODE = Signs("·", "▄", "█")
ASCII = Signs(".", "o", "#")


class Section(NamedTuple):
    """A table: its title, the line of its heads, and a line for each row."""

    title: str
    head: str
    lines: list[Text]


def screen(
    snapshot: TopSnapshot,
    width: int,
    height: int,
    *,
    signs: Signs = UNICODE,
    chosen: str = "",
    skipped: Mapping[str, int] | None = None,
    note: str = "",
) -> list[Text]:
    """Return at most `height` lines (0: all lines) of at most `width` columns.

    `chosen`: the section that keys scroll. `skipped`: scrolled rows of each section. `note`: the
    last line.
    """
    from rich.text import Text

    skipped = skipped or {}
    top = _summary(snapshot)
    jobs = _Columns.of((*snapshot.running, *snapshot.waiting), width)
    sections = {
        "nodes": _nodes(snapshot, signs),
        "queues": _queues(snapshot),
        "running": _running(snapshot, jobs),
        "waiting": _waiting(snapshot, jobs),
    }
    room = _shared_out(
        {name: len(one.lines) for name, one in sections.items()},
        0 if not height else max(height - len(top) - len(sections) * 2 - bool(note), 0),
    )
    lines = top
    for name, one in sections.items():
        first = min(skipped.get(name, 0), max(len(one.lines) - room[name], 0))
        shown = one.lines[first : first + room[name]]
        of = f"{first + 1}-{first + len(shown)} of {len(one.lines)}" if shown else "none"
        mark, style = (">", "bold reverse") if name == chosen else (" ", "bold")
        lines.append(Text(f"{mark}{one.title} ({of})", style=style))
        if one.lines:
            lines.append(Text(one.head, style="dim"))
            lines += shown
    if height:
        lines = lines[: height - bool(note)]
    if note:
        lines.append(Text(safe(note), style="dim"))
    for line in lines:
        line.truncate(width, overflow="ellipsis" if signs is UNICODE else "crop")
    return lines


def _shared_out(wanted: Mapping[str, int], room: int) -> dict[str, int]:
    """Divide `room` lines among sections that need these numbers of lines. If `room` is 0, each
    section gets all lines that it needs. Each section first gets up to LEAST_ROWS lines. The
    remaining lines go to the sections in order.
    """
    if not room:
        return dict(wanted)
    got = dict.fromkeys(wanted, 0)
    for least in (LEAST_ROWS, room):
        for name, count in wanted.items():
            more = min(count, least) - got[name]
            got[name] += max(min(more, room - sum(got.values())), 0)
    return got


def _summary(snapshot: TopSnapshot) -> list[Text]:
    from rich.text import Text

    status = snapshot.status
    states = Counter(row.state.lower() for row in current_nodes(snapshot.nodes))
    said = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
    used = sums(snapshot.nodes)
    amounts = [
        f"{name} {_used(name, *used[name])}" for name in (_GPU, "CPU", "memory") if name in used
    ]
    at = datetime.fromtimestamp(snapshot.at).strftime("%H:%M:%S")
    where = status.address or "this program"
    lines = [
        Text(safe(f"phalanx top  {where}  {at}"), style="bold"),
        Text(f"nodes: {said}   allocated: {', '.join(amounts) or 'nothing'}"),
    ]
    defects = [f"{row.count} defects about a {kind}" for kind, row in status.defects.items()]
    lines += [Text(safe(f"trouble: {one}"), style="red") for one in (*status.troubles, *defects)]
    return lines


# ---- nodes -----------------------------------------------------------------------------------


def _nodes(snapshot: TopSnapshot, signs: Signs) -> Section:
    head = f"{'NODE':{_NAMES}} {'STATE':8} {'CPU':>9} {'MEMORY':>19}  GPUS"
    lines = [
        _node_line(row, snapshot.devices.get(row.node_id, []), signs)
        for row in current_nodes(snapshot.nodes)
    ]
    title = (
        f"NODES  {signs.free} free {signs.part} part {signs.whole} held "
        f"{signs.suspect} suspect {signs.bad} bad {signs.closed} cordoned"
    )
    return Section(title, head, lines)


def _node_line(row: NodeInfo, devices: Sequence[DeviceInfo], signs: Signs) -> Text:
    from rich.text import Text

    name = _cut(_node_name(row), _NAMES)
    line = Text(f"{name:{_NAMES}} ")
    line.append(f"{row.state.lower():8} ", style="" if row.state == ALIVE else "yellow")
    used_of_total = sums([row])
    for resource, width in (("CPU", 9), ("memory", 19)):
        text = "?" if is_silent(row) else _used(resource, *used_of_total.get(resource, (0, 0)))
        line.append(f"{text:>{width}} ")
    line.append(" ")
    for device in devices:
        line.append(*_sign(device, signs))
    line.append(f"  {_measured(devices)}" if devices else "-")
    if strangers := sum(device.strangers for device in devices):
        line.append(f"  {strangers} on GPUs {STRANGER}", style="yellow")
    if row.reason:
        line.append(f"  {safe(row.reason)}", style="yellow")
    return line


def _node_name(row: NodeInfo) -> str:
    return row.hostname or row.host or row.node_id


def _sign(device: DeviceInfo, signs: Signs) -> tuple[str, str]:
    if device.state == BAD:
        return signs.bad, "bold red"
    if device.is_closed:
        return signs.closed, "yellow"
    if device.state == SUSPECT:
        return signs.suspect, "yellow"
    if device.left >= 1:
        return signs.free, "dim"
    return (signs.whole if device.left <= 0 else signs.part), "green"


def _measured(devices: Sequence[DeviceInfo]) -> str:
    """Return the sums of the measured use of these devices."""
    busy = [one.busy for one in devices if one.busy is not None]
    heat = [one.temperature_c for one in devices if one.temperature_c is not None]
    power = [one.power_w for one in devices if one.power_w is not None]
    memory = [
        (one.memory_used, one.memory_total)
        for one in devices
        if one.memory_used is not None and one.memory_total is not None
    ]
    parts = []
    if busy:
        parts.append(f"busy {100 * sum(busy) / len(busy):.0f}%")
    if memory:
        used, total = map(sum, zip(*memory, strict=True))
        parts.append(f"mem {100 * used / max(total, 1):.0f}%")
    if heat:
        parts.append(f"{max(heat):.0f}C")
    if power:
        parts.append(f"{sum(power):.0f}W")
    return " ".join(parts)


# ---- queues and jobs -------------------------------------------------------------------------


def _queues(snapshot: TopSnapshot) -> Section:
    head = (
        f"{'QUEUE':{_NAMES}} {'STATE':8} {'WEIGHT':>6} {'RUN':>5} {'WAIT':>5} "
        f"{'GPU':>6} {'ASKED':>6} {'CPU':>7} {'ASKED':>6}"
    )
    return Section("QUEUES", head, [_queue_line(row) for row in snapshot.queues])


def _queue_line(row: QueueInfo) -> Text:
    from rich.text import Text

    def of(amounts: Mapping[str, float], name: str) -> str:
        return amount(amounts.get(name, 0.0))

    return Text(
        f"{_cut(row.name, _NAMES):{_NAMES}} {row.state.lower():8} {row.weight:>6} "
        f"{row.running:>5} {row.pending + row.inqueue:>5} "
        f"{of(row.allocated, _GPU):>6} {of(row.requested, _GPU):>6} "
        f"{of(row.allocated, 'CPU'):>7} {of(row.requested, 'CPU'):>6}"
    )


class _Columns(NamedTuple):
    """The widths of the columns with names of jobs, queues and users."""

    job: int
    queue: int
    user: int

    @classmethod
    def of(cls, jobs: Sequence[JobInfo], width: int) -> _Columns:
        """Return the widths that these rows need, within a terminal of this width."""

        def needed(names: Iterable[str], least: int, most: int) -> int:
            return min(max((least, *(len(safe(name)) for name in names))), most)

        return cls(
            job=needed(map(_name, jobs), 3, max(_LEAST_JOB, width // _JOB_PART)),
            queue=needed((job.queue for job in jobs), 5, _NAMES),
            user=needed((job.user for job in jobs), 4, 10),
        )

    def head(self) -> str:
        return f"{'JOB':{self.job}} {'QUEUE':{self.queue}} {'USER':{self.user}}"

    def line(self, job: JobInfo) -> str:
        name, queue = _cut(_name(job), self.job), _cut(job.queue, self.queue)
        user = _cut(job.user or "-", self.user)
        return f"{name:{self.job}} {queue:{self.queue}} {user:{self.user}}"


def _running(snapshot: TopSnapshot, columns: _Columns) -> Section:
    head = f"{columns.head()} {'RUN':>5} {'TIME':>6} {'GPUS':>5}  DEVICES"
    rows = current(snapshot.running, snapshot.at)
    return Section("RUNNING", head, [_running_line(job, snapshot, columns) for job in rows])


def _running_line(job: JobInfo, snapshot: TopSnapshot, columns: _Columns) -> Text:
    from rich.text import Text

    devices = snapshot.devices_of(job)
    bad = [one for one in devices if one.state == BAD]
    counts = f"{job.running:>5} {duration(job.ran_s):>6} {len(devices):>5}"
    where = _where(devices, {row.node_id: _node_name(row) for row in snapshot.nodes})
    line = Text(f"{columns.line(job)} {counts}  {where}")
    if use := _measured(devices):
        line.append(f"  {use}")
    if bad:
        line.append(f"  {len(bad)} of its devices bad", style="bold red")
    return line


_NODES = 3
"""The largest number of nodes whose devices the line of a job names."""


def _where(devices: Sequence[DeviceInfo], names: Mapping[str, str]) -> str:
    """Return nodes and the numbers of their devices, such as `gpu-1:0-3,6 gpu-2:0`."""
    numbers: dict[str, list[int]] = {}
    for one in devices:
        numbers.setdefault(names.get(one.node_id, one.node_id[:12]), []).append(one.number)
    shown = [f"{safe(node)}:{ranges(held)}" for node, held in list(numbers.items())[:_NODES]]
    more = len(numbers) - len(shown)
    return " ".join([*shown, f"and {more} more node{'s' if more > 1 else ''}"] if more else shown)


def _waiting(snapshot: TopSnapshot, columns: _Columns) -> Section:
    head = f"{columns.head()} {'POS':>5} {'AGE':>5}  WHY"
    lines = [_waiting_line(job, snapshot.at, columns) for job in snapshot.waiting]
    return Section("WAITING", head, lines)


def _waiting_line(job: JobInfo, now: float, columns: _Columns) -> Text:
    from rich.text import Text

    position = "-" if job.position is None else str(job.position)
    waited = duration(max(now - job.submitted, 0.0))
    return Text(f"{columns.line(job)} {position:>5} {waited:>5}  {safe(job.reason)}")


def _name(job: JobInfo) -> str:
    return job.name if job.namespace == "default" else f"{job.namespace}/{job.name}"


def _cut(text: str, width: int) -> str:
    """Return a name, cut to a column's width. A cut name ends in a plus sign."""
    shown = safe(text)
    return shown if len(shown) <= width else shown[: width - 1] + "+"


def _used(name: str, used: float, total: float) -> str:
    if name == "memory":
        return f"{size(used)}/{size(total)}"
    return f"{amount(used)}/{amount(total)}"
