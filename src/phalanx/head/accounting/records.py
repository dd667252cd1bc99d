"""Writes a record of each ended attempt of a job's member, and passes on the records of steps.

When an attempt ends, its record is first written to the store, together with the job's other
changes. So a stored end is never without its record. Then the record is passed on to the ledger.
When the ledger has the record, the row is deleted from the store. If a head dies before it deletes
the row, the next head passes the record on again. The ledger then ignores the record, because it
has one with the same key.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

import msgspec

from phalanx.head.accounting.ledger import Ledger
from phalanx.head.gangs.gang import Gang
from phalanx.head.jobs.environment import expand
from phalanx.head.jobs.time_limits import waits_since
from phalanx.head.state_store import StateStore
from phalanx.model import attempts as at
from phalanx.model.attempts import Attempt, AttemptRow, Used, UsedRow
from phalanx.model.exit_codes import TIMED_OUT
from phalanx.model.ids import GangId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import array_task_name
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.steps import LedgerRow, StepRow
from phalanx.protocol.bundle_messages import RunEnd
from phalanx.scheduler.cycle.specs import PROGRAM_NOTE, SLURM_NOTE

TABLE = "attempts"
MAX_TEXT = 120
"""The number of characters that a record keeps of a command, and of a reason."""
_ENDED_AS = {
    st.TERMINATING: st.TERMINATED,
    st.ABORTING: st.ABORTED,
    st.RESTARTING: at.RESTARTED,
    st.COMPLETING: at.MEMBER_COMPLETED,
}
"""If a job ended its member: the state to record for the member, by the state of the job."""


class AttemptRecords:
    """Writes records of attempts to the store, and passes them on to the ledger."""

    def __init__(
        self,
        state_store: StateStore,
        ledger: Ledger | None,
        host_of: Callable[[str], str],
        job_of: Callable[[str], JobRecord | None],
    ) -> None:
        """`ledger`: None if no history is kept. `host_of`: returns the host name of a node by its
        id. `job_of`: returns a job by its uid.
        """
        self._state_store = state_store
        self._ledger = ledger
        self._host_of = host_of
        self._job_of = job_of

    # ---- ends of members -----------------------------------------------------------------------

    def ended(
        self,
        gang: Gang,
        index: int,
        job: JobRecord,
        *,
        code: int,
        signal: int = 0,
        reason: str,
        used: Used | None,
        now: float,
    ) -> None:
        """Record an attempt of a member whose command has ended on its node. Call this before the
        job handles the end.
        """
        member = self._member(gang, index, job, st.PENDING, st.RUNNING, st.TERMINATING)
        if member is None or (member.state == st.PENDING and used is None):
            return  # the attempt never began
        if member.state == st.TERMINATING:
            state = job.ends_as or ("" if member.retires else _ENDED_AS.get(job.state, ""))
            state = state if state in at.STATES else st.TERMINATED
        elif code == TIMED_OUT and reason:
            state = st.TIMED_OUT
        else:
            state = st.FAILED if code else at.MEMBER_COMPLETED
        why = reason or member.reason
        self._write(gang, index, job, member, state, why, code, used, now, signal)

    def lost(self, gang: Gang, index: int, job: JobRecord, reason: str, now: float) -> None:
        """Record that a member loses its place. Call this before the job handles the loss.
        `reason`: why the member loses its place. If the member was evicted, `reason` is "", and the
        record names the work for which the member was evicted.
        """
        member = self._member(gang, index, job, st.RUNNING, st.TERMINATING)
        if member is not None:
            state = at.NODE_LOST if reason else at.PREEMPTED
            why = reason or gang.members[index].gave_way
            self._write(gang, index, job, member, state, why, None, None, now)

    def run_ended(
        self, gang: Gang, array: JobRecord, ended: list[tuple[int, RunEnd]], now: float
    ) -> None:
        """Record array tasks that one run of an array completed with exit code 0. `ended`: for each
        array task, its index in the array, and how it ended.
        """
        if self._ledger is None:
            return
        place, spec = gang.members[0], array.spec
        since = array.submitted if array.queued is None else array.queued
        needs = spec.groups[0].template.needs
        like = Attempt(
            job="",
            namespace=spec.namespace,
            title=dict(spec.annotations).get("slurm/name", "")[:MAX_TEXT],
            member=f"{place.of_group}-{place.index}",
            attempt=1,
            user=user_of(spec),
            queue=spec.queue,
            command=_command(spec, place.of_group),
            state=at.MEMBER_COMPLETED,
            exit_code=0,
            node=self._host_of(place.node),
            cpus=needs.get("CPU", 0.0),
            memory=needs.get("memory", 0.0),
            gpus=needs.get("GPU", 0.0),
            submitted=array.submitted,
            started=0.0,
            ended=0.0,
        )
        rows: list[tuple[bytes, LedgerRow]] = []
        for index, one in ended:
            over = now - one.ago_s
            began = over - one.used.ran_s
            attempt = msgspec.structs.replace(
                like,
                job=array_task_name(spec.name, index),
                started=began,
                ended=over,
                waited_s=max(began - since, 0.0),
                used=one.used,
            )
            key = _key(gang.gang_id, 0, one.attempt)
            rows.append((key, AttemptRow(key=key, attempt=attempt)))
        self._put_all(rows)

    def used(self, gang: Gang, index: int, attempt: int, used: Used) -> None:
        """Record the usage of an attempt after it lost its place."""
        key = _key(gang.gang_id, index, attempt)
        self.put(key + b"u", UsedRow(key=key, used=used))

    def _member(self, gang: Gang, index: int, job: JobRecord, *states: str) -> MemberRecord | None:
        """Return the job's member that has place `index` of the gang. Returns None if the place
        belongs to another attempt of the member, or if the member is in none of `states`.
        """
        place = gang.members[index]
        member = job.member(place.of_group, place.index)
        is_it = member is not None and place.attempt and member.attempt == place.start
        return member if member is not None and is_it and member.state in states else None

    # ---- writing -------------------------------------------------------------------------------

    def _write(
        self,
        gang: Gang,
        index: int,
        job: JobRecord,
        member: MemberRecord,
        state: str,
        reason: str,
        code: int | None,
        used: Used | None,
        now: float,
        signal: int = 0,
    ) -> None:
        place, spec = gang.members[index], job.spec
        key = _key(gang.gang_id, index, place.attempt)
        # The node knows how long the member ran, by a clock that never goes back.
        since = member.started if member.started is not None else now
        started = min(since, now) if used is None else now - used.ran_s
        group = spec.group(place.of_group)
        needs = {} if group is None else group.template.needs
        attempt = Attempt(
            job=spec.name,
            namespace=spec.namespace,
            title=dict(spec.annotations).get("slurm/name", "")[:MAX_TEXT],
            member=f"{place.of_group}-{place.index}",
            attempt=place.start,
            user=user_of(spec),
            queue=spec.queue,
            command=_command(spec, place.of_group),
            state=state,
            reason=reason[:MAX_TEXT],
            exit_code=code,
            signal=signal,
            node=self._host_of(member.node or place.node),
            cpus=needs.get("CPU", 0.0),
            memory=needs.get("memory", 0.0),
            gpus=needs.get("GPU", 0.0),
            submitted=self.submitted_in_history(job),
            started=started,
            ended=now,
            waited_s=self._waited_s(job, place.of_group, place.index, place.start, started),
            used=used,
        )
        self.put(key, AttemptRow(key=key, attempt=attempt))

    def submitted_in_history(self, job: JobRecord) -> float:
        """Return the time of submission that the records of a job show: the job's own time or, for
        an array task, the time of its array.
        """
        array_task = job.spec.element
        array = None if array_task is None else self._job_of(array_task.array)
        return (job if array is None else array).submitted_in_history

    def _waited_s(
        self, job: JobRecord, group: str, index: int, attempt: int, started: float
    ) -> float | None:
        """Return the seconds for which the job waited before it started. Only the record of the
        first attempt of the first member has this time, because a job waits once, however many
        members it has and however often they restart.
        """
        first = job.spec.groups[0].name if job.spec.groups else ""
        if (group, index, attempt) != (first, 0, 1):
            return None
        array_task = job.spec.element
        since = waits_since(job)
        return max(started - (since if array_task is None else array_task.since), 0.0)

    def put(self, key: bytes, row: LedgerRow) -> None:
        """Write a row to the store. The ledger gets the row once the store has it."""
        if self._ledger is not None:
            self._put_all([(key, row)])

    def _put_all(self, rows: list[tuple[bytes, LedgerRow]]) -> None:
        for key, row in rows:
            self._state_store.keep(TABLE, key, row)
        self._state_store.when_written(lambda: self._hand_over(rows))

    def _hand_over(self, rows: list[tuple[bytes, LedgerRow]]) -> None:
        def kept() -> None:
            for key, _ in rows:
                self._state_store.keep(TABLE, key, None)

        assert self._ledger is not None
        self._ledger.add([row for _, row in rows], kept)

    def restore(self, values: Iterable[bytes]) -> None:
        """Pass on records of an earlier head whose arrival in the ledger was not confirmed."""
        decode = msgspec.msgpack.Decoder(AttemptRow | UsedRow | StepRow).decode
        rows = [(_stored_key(row), row) for row in map(decode, values)]
        if rows and self._ledger is not None:
            self._hand_over(sorted(rows, key=lambda pair: pair[0]))


def user_of(spec: JobSpec) -> str:
    """Return the user who submitted a job, if known."""
    return spec.user or dict(spec.annotations).get("slurm/user", "")


def _stored_key(row: LedgerRow) -> bytes:
    return row.key + (b"u" if isinstance(row, UsedRow) else b"")


def _key(group: GangId, index: int, attempt: int) -> bytes:
    return group + index.to_bytes(4, "big") + attempt.to_bytes(4, "big")


def _command(spec: JobSpec, group: str) -> str:
    notes = dict(spec.annotations)
    if PROGRAM_NOTE in notes and f"{SLURM_NOTE}script" in notes and group == spec.groups[0].name:
        return notes[PROGRAM_NOTE][:MAX_TEXT]
    found = spec.group(group)
    processes = () if found is None else found.template.processes
    words = processes[0].argv if processes else ()
    return shlex.join(expand(word, {}) for word in words)[:MAX_TEXT]
