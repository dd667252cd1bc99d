"""Explains why work waits, and shows the scheduler's own view of the cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from phalanx.errors import JobNotFoundError
from phalanx.head.clock import Clock
from phalanx.head.gangs.closed_devices import (
    because_of_closed,
    with_closed_devices,
)
from phalanx.head.gangs.gang import NAMESPACE, Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.kept_reasons import KeptReasons, Share
from phalanx.head.gangs.member_states import (
    ABSENT,
    EVICTED,
    HELD,
    LEAVING,
    ON_THE_WAY,
)
from phalanx.head.gangs.quarantine import Quarantine
from phalanx.head.gangs.scheduler_cache import gentle
from phalanx.head.gangs.snapshot_source import SnapshotSource
from phalanx.model.ids import group_id_of
from phalanx.model.nearest import nearest
from phalanx.model.rows.explanation import ExpectedStart, Explanation, Reason
from phalanx.model.rows.plan import TimePlan
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.cycle.writing import as_data
from phalanx.scheduler.forecast.inquiry import (
    decide_and_expect,
    explain_group,
    explain_snapshot,
    plan_snapshot,
    reasons_of,
)
from phalanx.scheduler.forecast.run_times import LearntRunTimes, with_past_runs

PLANNED = 500
"""The number of waiting gangs, from the first in order, for which an expected start is computed."""
PLANNING_SHORT_S = 0.1
"""Planning that takes at most this number of seconds does not count against the limit of a tenth of
the head's time.

After planning that took longer, requests get the last computed starts, until planning has again
taken at most a tenth of the time.
"""


class Wait(NamedTuple):
    """The state of a waiting gang: a short reason for the wait, the gang's position in its queue,
    and its expected start. `code` is the code of the first reason, and `plugin` the plugin that
    gave it, if any.
    """

    reason: str
    position: int
    expected_start: ExpectedStart | None
    code: str
    plugin: str = ""


class Explanations:
    """Answers `explain` and `snapshot` requests."""

    def __init__(
        self,
        registry: GangRegistry,
        snapshots: SnapshotSource,
        *,
        may_evict: Callable[[Iterable[Gang]], bool],
        show_next: Callable[[], None],
        quarantine: Quarantine,
        learnt: LearntRunTimes,
        clock: Clock,
        closed_devices: Callable[[], list[str]],
        on_displayed: Callable[[Mapping[str, ExpectedStart], Collection[str]], None],
        changes: Callable[[], int],
    ) -> None:
        """`may_evict`: whether cycles look for victims while these gangs wait. `show_next` makes
        the gangs that are next in order visible to the scheduler. `learnt`: run times of similar
        work. `closed_devices`: the GPUs that are closed to new work, in words. `on_displayed` is
        called with the starts that an answer shows, and with the uids of all gangs. `changes`
        returns how many changes there were so far that may matter to a waiting gang.
        """
        self._on_displayed = on_displayed
        self._closed_devices = closed_devices
        self._learnt = learnt
        self._set_aside = quarantine
        self._registry = registry
        self._snapshots = snapshots
        self._may_evict = may_evict
        self._show_next = show_next
        self._reasons = KeptReasons(clock, self._work_out, changes)
        self._changes = changes
        self._here: tuple[int, set[str]] | None = None
        """The number of changes when the waiting gangs were last listed, and the names of these
        gangs.
        """
        self._planning = Share(clock, PLANNING_SHORT_S)
        self._planned: dict[str, ExpectedStart | None] = {}
        """The gang for which a single expected start was last computed, and that start."""

    def explain(self, name: str, others: Iterable[str] = ()) -> Explanation:
        """Return why a gang or job waits: the reasons, what would remove them, and the position in
        the queue.

        `name`: the name of a job or gang, or the group of a gang in hex. `others`: further names
        that may have been meant. Raises JobNotFoundError.
        """
        gang = self.find(name)
        if gang is None:
            known = {*(gang.name for gang in self._registry.gangs.values()), *others}
            raise JobNotFoundError(
                f"no job or gang called {name!r} waits or runs{nearest(name, known)}"
            )
        if gang in self._set_aside:
            return _of_defect(gang, self._set_aside.errors[gang.gang_id])
        snapshot, found = self._explained(gang)
        order = {} if found.position is msgspec.UNSET else {gang.uid: found.position}
        position = (
            self._position(gang, _is_by_priority(snapshot), order) if gang.waits else msgspec.UNSET
        )
        state = msgspec.UNSET if gang.waits else _state(gang)
        if gang.waits:
            found = with_closed_devices(found, self._closed_devices())
        return msgspec.structs.replace(
            found, kind=_kind(gang), waits=gang.waits, position=position, state=state
        )

    def _explained(self, gang: Gang) -> tuple[Snapshot, Explanation]:
        """Return the snapshot on which an explanation is based, and the explanation. If cycles keep
        columns, these are read; otherwise the whole cluster is read.
        """
        seen = self._seen()
        waiting = [one for one in (*self._registry.looked_at(), gang) if one.waits]
        ready = self._snapshots.columns(gang)
        if ready is None:
            snapshot = self._snapshots.of(seen if gang in seen else [*seen, gang])
            snapshot = self._as_cycles(snapshot, waiting)
            return snapshot, explain_snapshot(snapshot, gang.uid, self._learnt)[0]
        rules, columns = ready
        rules = self._as_cycles(rules, waiting)
        tasks = [gang.task(index) for index in range(len(gang.members))]
        starts = partial(self._start, gang.uid)
        shells = self._snapshots.shells
        return rules, explain_group(rules, columns, gang.uid, tasks, self._learnt, starts, shells)

    def _start(
        self, uid: str, work_out: Callable[[], ExpectedStart | None]
    ) -> ExpectedStart | None:
        """Return the expected start of a gang. The start is computed only as often as the head can
        afford. In between, the last known start is returned.
        """
        if not self._planning.is_spent:
            self._planned = {uid: self._planning.spend(work_out)}
        if uid in self._planned:
            return self._planned[uid]
        listed = self._reasons.last.get(uid)
        return None if listed is None else listed.expected_start

    def _as_cycles(self, snapshot: Snapshot, waiting: Iterable[Gang]) -> Snapshot:
        """Return the snapshot in the form that cycles use. If no gang may evict another one, cycles
        skip evictions, because searching for victims is most of the cost of a cycle on a full
        cluster.
        """
        if self._may_evict(waiting):
            return snapshot
        return msgspec.structs.replace(snapshot, config=gentle(snapshot.config))

    def reasons(self) -> dict[str, Wait]:
        """Return why each waiting gang waits, by the gang's name. On a crowded cluster the answer
        may be some seconds old, and gangs that came since then are missing.
        """
        if not self._registry.waiting:
            return {}
        kept = self._reasons.get()
        here = (gang.uid for gang in self._registry.waiting.values())
        return {uid: kept[uid] for uid in here if uid in kept}

    def waits(self, uids: Iterable[str]) -> list[Wait | None]:
        """Return why each of these gangs waits, like `reasons`; None for a gang that does not wait
        or has no reason yet.
        """
        if not self._registry.waiting:
            return [None for _ in uids]
        kept = self._reasons.get()
        if self._here is None or self._here[0] != self._changes():
            here = {gang.uid for gang in self._registry.waiting.values()}
            self._here = (self._changes(), here)
        here = self._here[1]
        return [kept.get(uid) if uid in here else None for uid in uids]

    def _work_out(self) -> dict[str, Wait]:
        gangs = list(self._registry.waiting.values())
        snapshot = self._as_cycles(self._snapshots.of(self._seen()), self._registry.looked_at())
        plan, starts, order = decide_and_expect(snapshot, PLANNED, self._learnt)
        self._on_displayed(starts, {gang.uid for gang in self._registry.gangs.values()})
        positions = self._positions(_is_by_priority(snapshot), order)
        closed = self._closed_devices()
        found: dict[str, Wait] = {}
        for gang in gangs:
            position = positions[gang.uid]
            if gang in self._set_aside:
                error = _DEFECT + self._set_aside.errors[gang.gang_id]
                found[gang.uid] = Wait(error, position, None, _SET_ASIDE)
                continue
            if self._registry.window.sees(gang):
                main = because_of_closed(reasons_of(plan.main.get(gang.uid, ())), closed)
                code, plugin = (main[0].reason, main[0].plugin) if main else ("", "")
                reason = "; ".join(one.sentence for one in main)
            else:
                reason = "gangs with the same request are ahead of it"
                code, plugin = "behind", ""
            found[gang.uid] = Wait(reason, position, starts.get(gang.uid), code, plugin)
        return found

    def find(self, name: str) -> Gang | None:
        """Return the gang with this name, the gang of the job with this name, or the gang with this
        group id in hex.
        """
        with contextlib.suppress(ValueError):
            found = self._registry.gangs.get(group_id_of(name))
            if found is not None:
                return found
        namespace, _, own = name.rpartition("/")
        return self._registry.named.get(f"{namespace or NAMESPACE}/{own}")

    def _position(self, gang: Gang, is_by_priority: bool, order: Mapping[str, int]) -> int:
        """Return a gang's position in its queue, from 1. `order`: as for _positions.
        `is_by_priority`: whether the scheduler orders gangs by priority before age.
        """
        registry = self._registry
        looked_at = [one for one in registry.looked_at() if one.queue == gang.queue]
        mine = _place(gang, is_by_priority)
        if registry.window.sees(gang):
            if gang.uid not in order:
                return _STARTS
            place = order[gang.uid]
            unseen = registry.lines.of_higher_priority(gang) if is_by_priority else 0
            return (
                place + unseen - sum(_place(one, is_by_priority)[0] < mine[0] for one in looked_at)
            )
        before = registry.lines.earlier(gang, any_priority=not is_by_priority)
        if is_by_priority:
            before += registry.lines.of_higher_priority(gang)
        # A gang that cycles consider comes before all gangs of its priority that they do not
        # consider, even if it came later.
        places = (_place(one, is_by_priority) for one in looked_at)
        later = sum(place[0] == mine[0] and place >= mine for place in places)
        return 1 + before + later

    def _positions(self, is_by_priority: bool, order: Mapping[str, int]) -> dict[str, int]:
        """Return the positions of all waiting gangs. `order`: positions among the gangs that cycles
        see and that still wait after this cycle. Gangs that cycles do not see come after all seen
        gangs of their priority. A gang that starts in this cycle has the position _STARTS.
        `is_by_priority`: as for `_position`.
        """
        sees = self._registry.window.sees

        def place(gang: Gang) -> tuple[int, bool, int, tuple[int, float, str]]:
            own = _place(gang, is_by_priority)
            seen = sees(gang)
            return own[0], not seen, order.get(gang.uid, 0) if seen else 0, own

        counts: dict[str, int] = {}
        found: dict[str, int] = {}
        for gang in sorted(self._registry.waiting.values(), key=place):
            if sees(gang) and gang.uid not in order:
                found[gang.uid] = _STARTS
            else:
                found[gang.uid] = counts[gang.queue] = counts.get(gang.queue, 0) + 1
        return found

    def _seen(self) -> list[Gang]:
        self._show_next()
        return [g for g in self._registry.window.seen.values() if g not in self._set_aside]

    def plan(self) -> TimePlan:
        """Return the expected starts of the first waiting gangs, and the expected ends of running
        gangs.
        """
        self._show_next()
        living = (g for g in self._registry.gangs.values() if g not in self._set_aside)
        return plan_snapshot(self._snapshots.of(living), PLANNED, self._learnt)

    def snapshot(self, has_past_runs: bool) -> bytes:
        """Return everything that a cycle could read, as a snapshot file in JSON."""
        snapshot = self._snapshots.of(self._registry.gangs.values())
        if has_past_runs:
            snapshot = with_past_runs(snapshot, self._learnt)
        return msgspec.json.encode(as_data(snapshot))


def _kind(gang: Gang) -> str:
    return "job" if gang.job else "gang"


def _state(gang: Gang) -> str:
    """Return the state of a gang without waiting members."""
    if gang.count(*ON_THE_WAY):
        return "is being placed: its nodes are asked for its places"
    if gang.count(EVICTED, LEAVING):
        return "gives its places back, and will wait again"
    if gang.count(HELD):
        later = gang.count(ABSENT)
        return f"runs; {later} of its members may not start yet" if later else "runs"
    return "ends"


_STARTS = 1
"""The position of a gang that the next cycle starts."""
_SET_ASIDE = "set-aside"
_DEFECT = "it is set aside, because deciding about it failed: "


def _of_defect(gang: Gang, error: str) -> Explanation:
    reason = Reason(
        reason=_SET_ASIDE,
        count=1,
        detail={"error": error},
        sentence=_DEFECT + error,
        change="end it and submit it in another form; the head's log has the whole error",
    )
    return Explanation(
        snapshot="",
        name=gang.uid,
        kind=_kind(gang),
        waits=gang.waits,
        queue=gang.queue,
        reasons=[reason],
        because=[reason],
    )


def _is_by_priority(snapshot: Snapshot) -> bool:
    return "priority" in snapshot.config.plugin_names()


def _place(gang: Gang, is_by_priority: bool) -> tuple[int, float, str]:
    """Return the sort key that orders the gangs of a queue where no cycle has ordered them.
    `is_by_priority`: as for `_position`.
    """
    return (-gang.priority if is_by_priority else 0, gang.created, gang.uid)
