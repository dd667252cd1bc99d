"""Why something waits, and the scheduler's own picture of the cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping

import msgspec

from phalanx.batch.explain import main_reasons, sentence
from phalanx.batch.specs import Snapshot
from phalanx.batch.writing import as_data
from phalanx.errors import JobNotFoundError
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_states import (
    ABSENT,
    EVICTED,
    HELD,
    LEAVING,
    ON_THE_WAY,
    WAITING,
)
from phalanx.head.gangs.set_aside import SetAside
from phalanx.model.nearest import nearest
from phalanx.model.rows.explanation import ExpectedStart, Explanation, Reason
from phalanx.model.rows.plan import TimePlan
from phalanx.plan.inquiry import decide_and_expect, explain_snapshot, plan_snapshot
from phalanx.plan.run_times import LearntRunTimes, with_past_runs

Picture = Callable[[Iterable[Gang]], Snapshot]
"""Everything that a cycle could look at, with these gangs, and with what others take of nodes."""
PLANNED = 500
"""Of so many that wait, the first in order, people are told when they start."""


class Explanations:
    """Answers `explain` and `snapshot`."""

    def __init__(
        self,
        registry: GangRegistry,
        picture: Picture,
        show_next: Callable[[], None],
        set_aside: SetAside,
        learnt: LearntRunTimes,
    ) -> None:
        """`show_next` has those gangs seen whose turn it is. `learnt`: how long such work ran."""
        self._learnt = learnt
        self._set_aside = set_aside
        self._registry = registry
        self._picture = picture
        self._show_next = show_next

    def explain(self, name: str) -> Explanation:
        """Why a gang or job waits: reasons, what would change them, and its position in its queue.

        `name`: of a job or gang, or the group of a gang in hex. Raises JobNotFoundError.
        """
        gang = self.find(name)
        if gang is None:
            known = {g.name: None for g in self._registry.gangs.values()}
            raise JobNotFoundError(f"nothing called {name!r} waits or runs{nearest(name, known)}")
        if gang in self._set_aside:
            return _of_defect(gang, self._set_aside.errors[gang.group])
        seen = self._seen()
        gangs = seen if gang in seen else [*seen, gang]
        picture = self._picture(gangs)
        found = explain_snapshot(picture, gang.uid, self._learnt)[0]
        order = {} if found.position is msgspec.UNSET else {gang.uid: found.position}
        position = (
            self._position(gang, _is_by_priority(picture), order) if gang.waits else msgspec.UNSET
        )
        state = msgspec.UNSET if gang.waits else _state(gang)
        return msgspec.structs.replace(
            found, kind=_kind(gang), waits=gang.waits, position=position, state=state
        )

    def reasons(self) -> dict[str, tuple[str, int, ExpectedStart | None]]:
        """(why it waits, position in its queue, expected start) of all that wait, by name, in few
        words."""
        gangs = list(self._registry.waiting.values())
        if not gangs:
            return {}
        picture = self._picture(self._seen())
        plan, starts, order = decide_and_expect(picture, PLANNED, self._learnt)
        positions = self._positions(_is_by_priority(picture), order)
        found: dict[str, tuple[str, int, ExpectedStart | None]] = {}
        for gang in gangs:
            position = positions[gang.uid]
            if gang in self._set_aside:
                found[gang.uid] = (_DEFECT + self._set_aside.errors[gang.group], position, None)
                continue
            waiting = [gang.task(i) for i in gang.among(WAITING)]
            if self._registry.window.sees(gang):
                of_tasks = plan.rejections.get(waiting[0], ())
                main = main_reasons(plan.rejections.get(gang.uid, ()), of_tasks)
                reason = "; ".join(map(sentence, main))
            else:
                reason = "others that ask for the same are ahead of it"
            found[gang.uid] = (reason, position, starts.get(gang.uid))
        return found

    def find(self, name: str) -> Gang | None:
        """The gang of a job or gang of this name, or of this group in hex."""
        with contextlib.suppress(ValueError):
            found = self._registry.gangs.get(bytes.fromhex(name))
            if found is not None:
                return found
        namespace, _, own = name.rpartition("/")
        known = ((g.namespace, g.name, g) for g in self._registry.gangs.values())
        wanted = (namespace or "default", own)
        return next((gang for space, word, gang in known if (space, word) == wanted), None)

    def _position(self, gang: Gang, is_by_priority: bool, order: Mapping[str, int]) -> int:
        """1 for the first that waits in its queue. `order`: see _positions."""
        sees, mine = self._registry.window.sees, _place(gang, is_by_priority)
        ahead = 0
        for other in self._registry.of_queue(gang.queue).values():
            if not other.waits:
                continue
            theirs = _place(other, is_by_priority)
            if sees(gang):
                ahead += not sees(other) and theirs[0] < mine[0]
            else:
                ahead += theirs[0] <= mine[0] if sees(other) else theirs < mine
        return (order.get(gang.uid, 1) if sees(gang) else 1) + ahead

    def _positions(self, is_by_priority: bool, order: Mapping[str, int]) -> dict[str, int]:
        """Of all that wait. `order`: positions among those that cycles see; those that they do not
        see stand behind all of their priority that they do."""
        sees = self._registry.window.sees

        def place(gang: Gang) -> tuple[int, bool, int, tuple[int, float, str]]:
            own = _place(gang, is_by_priority)
            seen = sees(gang)
            return own[0], not seen, order.get(gang.uid, 0) if seen else 0, own

        counts: dict[str, int] = {}
        found: dict[str, int] = {}
        for gang in sorted(self._registry.waiting.values(), key=place):
            found[gang.uid] = counts[gang.queue] = counts.get(gang.queue, 0) + 1
        return found

    def _seen(self) -> list[Gang]:
        self._show_next()
        return [g for g in self._registry.window.seen.values() if g not in self._set_aside]

    def plan(self) -> TimePlan:
        """Who starts when, of the first that wait, and until when what runs holds its places."""
        self._show_next()
        living = (g for g in self._registry.gangs.values() if g not in self._set_aside)
        return plan_snapshot(self._picture(living), PLANNED, self._learnt)

    def snapshot(self, has_past_runs: bool) -> bytes:
        """Everything that a cycle could look at, as a snapshot file in JSON."""
        picture = self._picture(self._registry.gangs.values())
        if has_past_runs:
            picture = with_past_runs(picture, self._learnt)
        return msgspec.json.encode(as_data(picture))


def _kind(gang: Gang) -> str:
    return "job" if gang.job else "gang"


def _state(gang: Gang) -> str:
    """What a gang does of which no member waits for a place."""
    if gang.count(*ON_THE_WAY):
        return "is being placed: its nodes are asked for its places"
    if gang.count(EVICTED, LEAVING):
        return "gives its places back, and waits again then"
    if gang.count(HELD):
        later = gang.count(ABSENT)
        return f"runs; {later} of its members are not to start yet" if later else "runs"
    return "ends"


_DEFECT = "it is set aside, as deciding about it failed: "


def _of_defect(gang: Gang, error: str) -> Explanation:
    reason = Reason(
        reason="set-aside",
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


def _is_by_priority(picture: Snapshot) -> bool:
    return "priority" in picture.config.plugin_names()


def _place(gang: Gang, is_by_priority: bool) -> tuple[int, float, str]:
    """Gangs of one queue and user that cycles do not see wait in this order."""
    return (-gang.priority if is_by_priority else 0, gang.created, gang.uid)
