"""A plan in time: which podgroup starts when and where, and the basis of each expected start."""

from __future__ import annotations

import msgspec

from phalanx.model.readable import duration
from phalanx.model.rows.row import cells_html, text_html


class Basis(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The basis of an expected start.

    The basis counts the jobs that must end first: jobs whose end is known from their limits, and
    jobs whose end was estimated from `past_runs` past runs.
    """

    by_limit: int = 0
    by_past_runs: int = 0
    past_runs: int = 0

    def __str__(self) -> str:
        said = []
        if self.by_limit:
            said.append(f"time limits of {_several(self.by_limit, 'job')}")
        if self.by_past_runs:
            past = _several(self.past_runs, "past run")
            said.append(f"{_several(self.by_past_runs, 'job')} learnt from {past}")
        return ", ".join(said)


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


class Place(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A number of tasks on a node, and the number of devices of each kind that these tasks hold in
    total.
    """

    node: str
    tasks: int
    devices: dict[str, float]

    @property
    def words(self) -> str:
        """The devices that the place holds on the node, as text; without devices, the number of its
        tasks.
        """
        devices = " ".join(
            f"{count:g} {name.rpartition('/')[2].upper()}" for name, count in self.devices.items()
        )
        return devices or f"{self.tasks} task{'' if self.tasks == 1 else 's'}"


class PlannedStart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The start and the end of a waiting podgroup, in seconds on the same clock as the snapshot's
    `now`. `ends_s` is None if unknown.
    """

    podgroup: str
    queue: str
    at_s: float
    ends_s: float | None
    after_tasks: int
    """The number of tasks that must end before this start. These tasks run now, or start
    earlier.
    """
    basis: Basis
    is_promised: bool
    """Whether the scheduler keeps the places for the podgroup. It keeps them if the podgroup is one
    of the first in its queue and the cluster keeps promises.
    """
    fills: bool
    """Whether the podgroup starts before another podgroup that is ahead of it in the queue, on
    resources that the other podgroup does not need.
    """
    places: tuple[Place, ...]
    earliest_s: float | None = None
    """The earliest start, if run times were estimated from past runs.

    For this time, running work is assumed to be as short as the shortest tenth of the past runs,
    and nothing else waits. For `at_s`, all work is assumed to take as long as the longest tenth,
    and nothing behind this podgroup starts first.
    """


class RunningPlace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tasks of a podgroup that run on one node until `ends_s` (None: unknown)."""

    podgroup: str
    place: Place
    ends_s: float | None


class TimePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The planned starts and the running work, in the order of planning."""

    now: float
    starts: tuple[PlannedStart, ...]
    unknown: tuple[str, ...]
    """Podgroups that wait for work whose end is unknown, or for resources that are never free."""
    running: tuple[RunningPlace, ...]

    def _repr_html_(self) -> str:
        """Return the starts as a table for a notebook."""
        lines = [
            [
                one.podgroup,
                one.queue,
                f"in {duration(one.at_s - self.now)}",
                "" if one.ends_s is None else f"in {duration(one.ends_s - self.now)}",
                "promised" if one.is_promised else "fills" if one.fills else "",
                ", ".join(f"{place.tasks} on {place.node}" for place in one.places),
                str(one.basis),
            ]
            for one in self.starts
        ]
        table = cells_html(("podgroup", "queue", "starts", "ends", "how", "places", "basis"), lines)
        unknown = f"start unknown: {', '.join(self.unknown)}" if self.unknown else ""
        return (table if lines else "") + text_html(unknown or ("" if lines else "nothing waits"))
