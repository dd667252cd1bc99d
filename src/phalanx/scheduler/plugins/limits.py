"""The plugin limits: limits the amounts that a user, or a group of users, may hold.

Modelled on YuniKorn's limits. A task starts, and a podgroup is let in, only if the holdings of the
podgroup's user and group then stay within their limits. The limits over all queues together are in
the plugin's arguments. The limits of users in single queues are in the queues' annotations
(`plugin_parts.user_limits`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from phalanx.scheduler.cycle.accepted import NUMBER, Accepted
from phalanx.scheduler.cycle.amounts import Amount, Vector
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.hooks import ABSTAIN, REJECT
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Change
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.user_limits import UserRooms


class Limits:
    """The plugin limits. Arguments: `users: {name: {cpu: 4, ...}}` and `groups: ...`. The name `*`
    stands for every user, or group, that has no entry of its own. A limit that is not a number is
    ignored.
    """

    name = "limits"
    accepts: ClassVar[Accepted] = {"users": {"*": {"*": NUMBER}}, "groups": {"*": {"*": NUMBER}}}

    def __init__(self, arguments: Arguments) -> None:
        self._given = {kind: _tables(arguments.get(kind + "s")) for kind in ("user", "group")}

    def open(self, session: Session) -> None:
        self._session = session
        dims = session.cluster.dims
        self._limits: dict[tuple[str, str], Amount] = {
            (kind, who): dims.amount(tuple((k, float(v)) for k, v in limit.items()))
            for kind, table in self._given.items()
            for who, limit in table.items()
        }
        self._named = {
            (kind, who): [dims.index[k] for k in self._given[kind][who] if k in dims.index]
            for kind, who in self._limits
        }
        self._nothing = np.zeros(len(dims))
        self._held: dict[tuple[str, str], Vector] = {}
        for job in session.cluster.jobs:
            for key in self._keys(job):
                self._add(key, job.held.astype("float64"))
        self._rooms = UserRooms(session)
        if self._rooms.is_needed:
            session.add("held_back", self.name, self._held_back)
            session.add("pre_predicate", self.name, self._before_node)
        elif not self._limits:
            return
        session.add("room", self.name, self._room)
        session.add("shortage", self.name, self._shortage)
        session.add("job_enqueueable", self.name, self._enqueueable)
        session.add("changed", self.name, self._changed)

    def _held_back(self, job: Job) -> Rejection | None:
        lacking = self._rooms.lacking(job, self._nothing)
        return lacking[0] if lacking else None

    def _before_node(self, task: int) -> Rejection | None:
        """Return the rejection of the task if its user would then have too many running jobs. Tasks
        that request nothing of a node are checked here, too.
        """
        return self._held_back(self._session.job(task))

    def _keys(self, job: Job) -> list[tuple[str, str]]:
        return [(k, who) for k, who in (("user", job.spec.user), ("group", job.spec.group)) if who]

    def _limit_of(self, key: tuple[str, str]) -> tuple[Amount, list[int]] | None:
        kind, _ = key
        own = key if key in self._limits else (kind, "*")
        return (self._limits[own], self._named[own]) if own in self._limits else None

    def _add(self, key: tuple[str, str], load: Vector) -> None:
        held = self._held.get(key)
        self._held[key] = load.copy() if held is None else held + load

    def _room(self, _: int, job: Job, eq_class: EquivalenceClass) -> int:
        room = self._rooms.room(job, eq_class.vector)
        for key in self._keys(job):
            limit = self._limit_of(key)
            for r in limit[1] if limit else ():
                ask = float(eq_class.vector[r])
                if limit and ask > 0:
                    free = float(limit[0].v[r]) - float(self._held[key][r])
                    room = min(room, int(free // ask))
        return max(room, 0)

    def _enqueueable(self, job: Job) -> int:
        if job.min_resources is None:
            return ABSTAIN
        over = self._above(job, job.min_resources.v)
        for rejection in over:
            self._session.refuse(job, rejection, self.name)
        return REJECT if over else ABSTAIN

    def _shortage(
        self, _: int, job: Job, eq_class: EquivalenceClass, count: int
    ) -> list[Rejection]:
        return self._above(job, eq_class.vector * count)

    def _above(self, job: Job, request: Vector) -> list[Rejection]:
        """Return a rejection for each limit of the job's user and group that the request would
        exceed.
        """
        dims = self._session.cluster.dims
        out = self._rooms.lacking(job, request)
        for key in self._keys(job):
            limit = self._limit_of(key)
            for r in limit[1] if limit else ():
                would = float(self._held[key][r] + request[r])
                if limit and request[r] > 0 and would > limit[0].v[r]:
                    detail = {
                        "who": " ".join(key),
                        "resource": dims.names[r],
                        "asked": dims.written(r, float(request[r])),
                        "would_use": dims.written(r, would),
                        "limit": dims.written(r, float(limit[0].v[r])),
                    }
                    out.append(Rejection(reason="user-limit", detail=detail))
        return out

    def _changed(self, change: Change) -> None:
        for key in self._keys(change.job):
            self._add(key, change.vector)
        if self._rooms.is_needed:
            self._rooms.changed(change.job, change.sign * len(change.nodes), change.vector)


def _tables(given: Any) -> dict[str, Mapping[str, Any]]:
    if not isinstance(given, dict):
        return {}
    return {
        str(who): {name: most for name, most in limit.items() if most is not None}
        for who, limit in given.items()
        if isinstance(limit, dict)
    }
