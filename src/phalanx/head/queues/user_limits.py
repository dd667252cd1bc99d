"""The limits of users in queues: setting them, listing them, and enforcing them on submission.

Limits on running jobs and their GPUs are enforced where cycles place work (the plugin `limits`).
All other limits are enforced here, by refusing submissions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from phalanx.errors import JobCommandError
from phalanx.head.clock import Clock
from phalanx.head.queues.control import Queues
from phalanx.manifests.names import free_fault
from phalanx.manifests.queue_rules import ROOT
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.nearest import nearest
from phalanx.model.readable import length_text
from phalanx.model.rows.user_limits import UserLimitInfo
from phalanx.model.user_limits import (
    ANNOTATION,
    ANY_USER,
    NAMES,
    UserLimits,
    limits_of,
    read_user_limits,
    written_user_limits,
)
from phalanx.protocol.requests.request import Asker, Entry
from phalanx.protocol.requests.user_limits import ListLimits, SetLimits

BURST_S = 10.0
"""In one burst, a user may submit the number of jobs that the limit allows in this number of
seconds.
"""
MOST_BUCKETS = 100_000
Key = tuple[str, str]
"""A queue and a user."""


class _Load(msgspec.Struct, frozen=True):
    """The numbers that a job adds to its user's counts, in the job's queue and in each ancestor of
    that queue.
    """

    queues: tuple[str, ...]
    user: str
    waiting: int
    running: int


class UserLimitsControl:
    """The limits on users of all queues."""

    def __init__(self, clock: Clock, queues: Queues, changed: Callable[[], None]) -> None:
        """`changed` is called when a limit has changed, so that other work may run than before."""
        self._clock = clock
        self._queues = queues
        self._changed = changed
        self._loads: dict[str, _Load] = {}
        self._waiting: Counter[Key] = Counter()
        self._running: Counter[Key] = Counter()
        self._arrays: dict[Key, dict[str, JobRecord]] = {}
        """The arrays that have not ended. Their records count their array tasks."""
        self._array_places: dict[str, tuple[tuple[str, ...], str]] = {}
        self._buckets: dict[Key, tuple[float, float]] = {}
        """For each user of a queue with a limit on submissions: how many submissions are left, and
        when this was computed.
        """

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            SetLimits.handled_by(self._set_limits),
            ListLimits.handled_by(lambda _, request: self.rows(request.queue)),
        ]

    # ---- counting ----------------------------------------------------------------------------

    def job_changed(self, job: JobRecord) -> None:
        """Count a job whose state has changed."""
        queues = tuple(self._path(job.spec.queue))
        if job.spec.array is None:
            self._count(job.uid, _load(job, queues))
            return
        place = None if job.state in st.FINISHED else (queues, job.spec.user)
        if place == self._array_places.get(job.uid):
            return
        self._forget_array(job.uid)
        if place is not None:
            self._array_places[job.uid] = place
            for queue in queues:
                self._arrays.setdefault((queue, job.spec.user), {})[job.uid] = job

    def job_forgotten(self, job: JobRecord) -> None:
        self._count(job.uid, None)
        self._forget_array(job.uid)

    def _forget_array(self, uid: str) -> None:
        queues, user = self._array_places.pop(uid, ((), ""))
        for queue in queues:
            arrays = self._arrays[queue, user]
            del arrays[uid]
            if not arrays:
                del self._arrays[queue, user]

    def _waits(self, key: Key) -> int:
        arrays = self._arrays.get(key, {}).values()
        tasks = sum(job.count(st.WAITING, st.PENDING, st.BLOCKED) for job in arrays)
        return self._waiting[key] + tasks

    def _runs(self, key: Key) -> int:
        tasks = sum(job.count(st.RUNNING) for job in self._arrays.get(key, {}).values())
        return self._running[key] + tasks

    def _count(self, uid: str, new: _Load | None) -> None:
        old = self._loads.get(uid)
        if old == new:
            return
        for load, sign in ((old, -1), (new, 1)):
            if load is not None:
                for queue in load.queues:
                    self._waiting[queue, load.user] += sign * load.waiting
                    self._running[queue, load.user] += sign * load.running
        if new is None or not (new.waiting or new.running):
            self._loads.pop(uid, None)
        else:
            self._loads[uid] = new

    def _path(self, queue: str) -> list[str]:
        """Return a queue and its ancestors."""
        found: list[str] = []
        record = self._queues.table.get(queue)
        while record is not None and record.name not in found:
            found.append(record.name)
            at = record.spec.parent or ROOT
            record = None if record.name == ROOT else self._queues.table.get(at)
        return found

    # ---- limits ------------------------------------------------------------------------------

    def _of(self, queue: str, user: str) -> Iterator[tuple[str, UserLimits]]:
        """Yield the limits that apply to a user in a queue, each with the queue that sets it."""
        for name in self._path(queue):
            rows = self._rows_of(name)
            if rows:
                yield name, limits_of(rows, user)

    def _rows_of(self, queue: str) -> Mapping[str, UserLimits]:
        record = self._queues.table.get(queue)
        written = "" if record is None else dict(record.spec.annotations).get(ANNOTATION, "")
        return read_user_limits(written)

    def max_priority(self, queue: str, user: str, otherwise: int | None) -> int | None:
        """Return the highest priority that a user may give to work in a queue; None if any priority
        is allowed.

        `otherwise`: the limit to use for the root queue if it sets none for this user.
        """
        found = {name: one.priority for name, one in self._of(queue, user)}
        if found.get(ROOT) is None:
            found[ROOT] = otherwise
        return min((one for one in found.values() if one is not None), default=None)

    def longest(self, spec: JobSpec) -> float | None:
        """Return the longest time limit, in seconds, that its owner may give to a job; None if the
        owner has no such limit. Raises JobCommandError if the job's own limit is longer.
        """
        longest_s = None
        asked_s = spec.timing.limit_s
        for queue, limits in self._of(spec.queue, spec.user):
            if limits.time_s is None:
                continue
            if asked_s is not None and asked_s > limits.time_s:
                raise JobCommandError(
                    f"job {spec.uid}: time={length_text(asked_s)}: {_who(spec, queue)} may run a "
                    f"job for at most {length_text(limits.time_s)}"
                )
            longest_s = limits.time_s if longest_s is None else min(longest_s, limits.time_s)
        return longest_s

    def submitted(self, spec: JobSpec) -> None:
        """Count a submission. Raises JobCommandError, and counts nothing, if the submission exceeds
        a limit.
        """
        taken: list[tuple[Key, float, float]] = []
        now = self._clock.now()
        for queue, limits in self._of(spec.queue, spec.user):
            key = queue, spec.user
            if limits.waiting is not None:
                waits, more = self._waits(key), 1 if spec.array is None else spec.array.count
                if waits + more > limits.waiting:
                    raise JobCommandError(
                        f"job {spec.uid}: {_who(spec, queue)} may have {limits.waiting} jobs "
                        f"waiting, and has {waits}"
                    )
            if (rate := limits.submits_per_s) is not None:
                most = max(rate * BURST_S, 1.0)
                left, at = self._buckets.get(key, (most, now))
                left = min(left + (now - at) * rate, most)
                if left < 1.0 or not rate:
                    raise JobCommandError(
                        f"job {spec.uid}: {_who(spec, queue)} may submit {rate:g} jobs a second, "
                        f"and submits more; {most:g} may come at once"
                    )
                taken.append((key, left - 1.0, now))
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.clear()
        for key, left, at in taken:
            self._buckets[key] = left, at

    # ---- requests ----------------------------------------------------------------------------

    def _set_limits(
        self, asker: Asker[list[UserLimitInfo]], request: SetLimits
    ) -> list[UserLimitInfo]:
        queue, user = request.queue, request.user
        if (fault := free_fault("user", user)) is not None:
            raise JobCommandError(fault)
        for name, number in request.limits.items():
            if number is not None and not math.isfinite(number):
                raise JobCommandError(f"{name}: a limit is a number, not {number:g}")
            if name not in NAMES:
                raise JobCommandError(
                    f"there is no limit {name!r}; the limits are {', '.join(NAMES)}"
                    f"{nearest(name, NAMES)}"
                )
        self._queues.rows(queue)  # this call raises an error if the queue does not exist
        rows = dict(self._rows_of(queue))
        before = rows.get(user, UserLimits())
        fields = msgspec.structs.asdict(before) | request.limits
        try:
            rows[user] = msgspec.convert(fields, UserLimits, strict=False)
            text = written_user_limits(rows)
            read_user_limits(text)
        except (msgspec.ValidationError, ValueError) as error:
            raise JobCommandError(
                f"limits of {user or ANY_USER} in queue {queue}: {error}"
            ) from None
        self._queues.annotate(queue, ANNOTATION, text)
        self._changed()
        return self.rows(queue)

    def rows(self, queue: str = "") -> list[UserLimitInfo]:
        """Return the limits of one queue, or of all, each with the user's current numbers of
        waiting and running jobs.
        """
        if queue:
            self._queues.rows(queue)  # this call raises an error if the queue does not exist
        names = [queue] if queue else [record.name for record in self._queues.table.all()]
        return [
            UserLimitInfo(
                queue=name,
                user=user,
                **msgspec.structs.asdict(limits),
                now_waiting=None if user == ANY_USER else self._waits((name, user)),
                now_running=None if user == ANY_USER else self._runs((name, user)),
            )
            for name in names
            for user, limits in self._rows_of(name).items()
        ]


def _load(job: JobRecord, queues: tuple[str, ...]) -> _Load:
    spec = job.spec
    # An array counts instead of its tasks.
    if spec.element is not None or job.state in st.FINISHED:
        return _Load(queues, spec.user, 0, 0)
    waits, runs = job.state == st.PENDING, job.state == st.RUNNING
    return _Load(queues, spec.user, int(waits), int(runs))


def _who(spec: JobSpec, queue: str) -> str:
    return f"{spec.user or 'its user'} in queue {queue}"
