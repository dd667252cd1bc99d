"""Jobs of the cluster: submitted from Python or from manifests, seen, changed and ended."""

from __future__ import annotations

import dataclasses
import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec

from phalanx.api.job import Job, length_s
from phalanx.api.session import engine_or_start
from phalanx.api.signals import signal_number
from phalanx.errors import GetTimeoutError
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import CronSpec, JobSpec
from phalanx.model.raw_bytes import encoded
from phalanx.model.rows.row import Rows
from phalanx.model.rows.work import AppliedInfo, JobDescription, JobInfo
from phalanx.protocol.bundle_messages import Receivers
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    CommandJob,
    DeleteJob,
    GetJob,
    ListJobs,
    LogPart,
    Manifest,
    ReadJobLog,
    ResizeJob,
    UpdateJob,
)
from phalanx.protocol.requests.steps import SignalJob
from phalanx.runtime.os.accounts import current_umask, user_name

SETTLED = (*st.FINISHED, st.ABORTED)
"""States in which nothing more happens by itself."""
LOOK_EVERY_S = 0.05


class JobHandle:
    """A job that was submitted, now or earlier: `JobHandle(name)`."""

    def __init__(self, name: str, namespace: str = "default") -> None:
        self.name = name
        self.namespace = namespace

    @property
    def uid(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    def status(self) -> JobInfo:
        """Its row, as in `jobs()`: also why it waits, and its position in its queue. Raises
        JobNotFoundError."""
        return engine_or_start().ask(ListJobs(name=self.uid))[0]

    def describe(self) -> JobDescription:
        """All that is known of it: its members with their nodes and devices, its history. Raises
        JobNotFoundError."""
        return engine_or_start().ask(GetJob(self.uid))

    def explain(self) -> str:
        """Why it waits, and what would change that. Raises JobNotFoundError for one that neither
        waits nor runs."""
        return str(engine_or_start().ask(Explain(self.uid)))

    @property
    def state(self) -> str:
        """Pending, Running, Completed ..."""
        return self.describe().state

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait until it is over, or suspended; its state. Raises GetTimeoutError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (state := self.state) not in SETTLED:
            if deadline is not None and time.monotonic() >= deadline:
                raise GetTimeoutError(f"job {self.name} is {state} after {timeout_s} s")
            time.sleep(LOOK_EVERY_S)
        return state

    def logs(self, member: str | int = 0, attempt: int = -1) -> str:
        """What a member has printed; by its name, or its index among all.

        Raises JobNotFoundError for a member that was not started (so often).
        """
        parts = read_log(engine_or_start().ask, self.uid, self._member(member), attempt)
        return b"".join(data for data, _ in parts).decode("utf-8", "replace")

    def _member(self, member: str | int) -> str:
        if isinstance(member, str):
            return member
        return self.describe().members[member].name

    def signal(
        self, signal: str | int, *, to: Receivers = "started", member: str | int | None = None
    ) -> int:
        """Send its members that run a signal, "USR1" for instance; so many were sent it.

        It goes to what their shells have started, and to programs that are no shells; in a member
        with steps to its steps alone. `to`: "command" for the members' own command or script alone,
        "all" for everything. The job goes on as long as its members do. Raises ValueError for no
        signal, and JobCommandError where none runs.
        """
        chosen = "" if member is None else self._member(member)
        request = SignalJob(self.uid, signal_number(signal), to, chosen)
        return engine_or_start().ask(request)

    def suspend(self) -> None:
        """End its members until it is resumed."""
        engine_or_start().ask(CommandJob(self.uid, "suspend"))

    def resume(self) -> None:
        """Start those again that have not succeeded."""
        engine_or_start().ask(CommandJob(self.uid, "resume"))

    def requeue(self) -> None:
        """End its members, and have them wait and start again. Raises JobCommandError for a job
        that does not run."""
        engine_or_start().ask(CommandJob(self.uid, "requeue"))

    def resize(self, members: int | Mapping[str, int], *, min_members: int | None = None) -> None:
        """Give it so many members, while it runs or waits; by group where it has several.

        More start when there is room; of fewer, those with the highest indexes end. Its minimum
        stays, unless `min_members` says another or the size falls below it. Raises JobCommandError
        for what cannot be, and GangInfeasibleError for a minimum that no cluster of these nodes
        could hold.
        """
        replicas = dict(members) if isinstance(members, Mapping) else {"": members}
        engine_or_start().ask(ResizeJob(self.uid, replicas, min_members))

    def hold(self) -> None:
        """Have it wait until it is released. Raises JobCommandError for one that does not wait."""
        engine_or_start().ask(CommandJob(self.uid, "hold"))

    def release(self) -> None:
        """Let it start again when it can."""
        engine_or_start().ask(CommandJob(self.uid, "release"))

    def update(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        time: str | timedelta | None = None,
        reservation: str | None = None,
    ) -> JobInfo:
        """Give it another queue, priority, time or reservation ("": none) while it waits; its row.

        Raises JobCommandError for a job that does not wait and for more time than its queue allows,
        QueueUnavailableError, and GangInfeasibleError for a queue that could never hold it.
        """
        limit_s = None if time is None else length_s(time)
        change = UpdateJob(self.uid, queue, priority, limit_s, reservation)
        return engine_or_start().ask(change)

    def cancel(self) -> None:
        """End it for good."""
        engine_or_start().ask(CommandJob(self.uid, "cancel"))

    def delete(self) -> None:
        """End it if it lives, and forget it and what it printed."""
        engine_or_start().ask(DeleteJob(self.uid))

    def __repr__(self) -> str:
        return f"JobHandle({self.uid})"

    def _repr_html_(self) -> str:
        return Rows([self.status()])._repr_html_()


def submit(
    job: Job | Mapping[str, Any],
    *,
    after: str | JobHandle | Iterable[JobHandle] | None = None,
) -> JobHandle:
    """Submit a `Job(...)`, or a manifest of kind Job as a mapping; its handle.

    `after`: what has to become of other jobs before it asks for places, instead of what it says
    itself: a text as that of `Job`, or handles of jobs that all have to complete.

    Raises ManifestError for a manifest that is wrong, QueueUnavailableError, GangInfeasibleError
    for what the cluster could never hold, JobCommandError for a name that is taken, and TypeError
    for what is no job: `submit_manifests` takes files, and other kinds.
    """
    engine = engine_or_start()
    awaited = None if after is None else _awaited(after)
    if isinstance(job, Job):
        job = job if awaited is None else dataclasses.replace(job, after=awaited)
        spec = job.spec()
        engine.ask(new_request([job_manifest(spec)]))
        return JobHandle(spec.name, spec.namespace)
    if not isinstance(job, Mapping) or job.get("kind") != "Job":
        raise TypeError(f"submit takes a Job, not {job!r}: submit_manifests takes anything else")
    if awaited is not None:
        job = {**job, "spec": {**(job.get("spec") or {}), "after": awaited}}
    (done,) = engine.ask(new_request(_objects(_as_text(job))))
    return JobHandle(done.name, done.namespace)


def _awaited(after: str | JobHandle | Iterable[JobHandle]) -> str:
    if isinstance(after, str):
        return after
    handles = [after] if isinstance(after, JobHandle) else list(after)
    for handle in handles:
        if not isinstance(handle, JobHandle):
            raise TypeError(f"submit: after={handle!r}: it is a text like afterok:prep, or handles")
    return ",".join(f"afterok:{handle.uid}" for handle in handles)


def submit_manifests(
    manifests: str | os.PathLike[str] | Mapping[str, Any],
) -> list[JobHandle | AppliedInfo]:
    """Make, or change, what a file of manifests declares, or one manifest as a mapping: jobs,
    queues, flows, cron jobs, templates, priority classes and network domains.

    What was made, queues and templates first: a handle of each job, and of all else what was done.
    Raises what `submit` raises; the objects before one that cannot be made are made.
    """
    if isinstance(manifests, Mapping):
        objects = _objects(_as_text(manifests))
    else:
        objects = _objects(Path(manifests).read_bytes(), str(manifests))
    done = engine_or_start().ask(new_request(objects))
    return [JobHandle(one.name, one.namespace) if one.kind == "Job" else one for one in done]


def jobs() -> Rows[JobInfo]:
    """All jobs, oldest first."""
    rows = engine_or_start().ask(ListJobs())
    return Rows(rows)


def new_request(manifests: list[Manifest]) -> ApplyManifests:
    """The request to make these, which may be asked again after the head was away."""
    return ApplyManifests(manifests, os.urandom(12))


def job_manifest(job: JobSpec) -> Manifest:
    """A job for the head, whose files are made as those of this process."""
    return Manifest("Job", encoded(msgspec.msgpack.encode, _with_umask(job)))


def _as_text(manifest: Mapping[str, Any]) -> str:
    """A mapping as a manifest. Numbers that are none are written as what they are."""
    return json.dumps(dict(manifest), ensure_ascii=False)


def _objects(text: str | bytes, file: str = "") -> list[Manifest]:
    """The objects of a file; what was left out of it becomes a warning at the caller's line."""
    objects, said = manifest_objects(text, file)
    for sentence in said:
        warnings.warn(sentence, stacklevel=3)
    return objects


APPLIED = (
    "Job",
    "JobTemplate",
    "JobFlow",
    "CronJob",
    "Queue",
    "PriorityClass",
    "HyperNode",
    "Reservation",
)
"""Kinds that a cluster keeps."""


def manifest_objects(text: str | bytes, file: str = "") -> tuple[list[Manifest], list[str]]:
    """The objects of a file for the control store, queues and templates first, and warnings.

    Raises ManifestError with all that is wrong.
    """
    from phalanx.manifests.check import others_first, read_for_submit
    from phalanx.manifests.findings import Finding, ManifestError

    manifests, found = read_for_submit(text, file)
    said = [str(finding) for finding in found]
    for manifest in manifests:
        if manifest.kind not in APPLIED:
            said.append(f"{manifest.object}: nothing is made of it")
    chosen = [m for m in manifests if m.kind in APPLIED]
    if not chosen:
        reason = f"nothing is made of it; kinds of which something is: {', '.join(APPLIED)}"
        raise ManifestError(
            [Finding(path="kind", reason=reason, object=m.object) for m in manifests], file
        )
    ordered = sorted(others_first(chosen), key=lambda m: _ORDER.get(m.kind, len(_ORDER)))
    return [
        Manifest(m.kind, encoded(msgspec.msgpack.encode, _owned(m.spec))) for m in ordered
    ], said


def _owned(spec: object) -> object:
    """A job of somebody, where its manifest does not say whose it is."""
    if isinstance(spec, CronSpec):
        return msgspec.structs.replace(spec, job=_owned(spec.job))
    if isinstance(spec, JobSpec):
        return _with_umask(msgspec.structs.replace(spec, user=spec.user or user_name()))
    return spec


def _with_umask(job: JobSpec) -> JobSpec:
    """The umask of this process, unless the job was given another."""
    return job if job.umask >= 0 else msgspec.structs.replace(job, umask=current_umask())


_ORDER = {"PriorityClass": 0, "HyperNode": 0, "Queue": 1, "Reservation": 1, "JobTemplate": 2}


class AskForLog(Protocol):
    """Asks the control store, of which program or command it may be."""

    def __call__(self, request: ReadJobLog, /) -> LogPart: ...


def read_log(
    ask: AskForLog, job: str, member: str, attempt: int, offset: int = 0
) -> Iterator[tuple[bytes, int]]:
    """What a member has printed from `offset` on, in parts, as far as it is there now: each with
    the offset behind it. What its node has dropped is replaced by a line that says so."""
    while True:
        part = ask(ReadJobLog(job, member, attempt, offset))
        if not part.data and not part.skipped:
            return
        offset += part.skipped + len(part.data)
        gone = b"[phalanx: %d bytes of older output were dropped]\n" % part.skipped
        yield gone + part.data if part.skipped else part.data, offset
        if offset >= part.size:
            return
