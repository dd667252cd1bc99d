"""Jobs of the cluster: submitted from Python or from manifests, listed, changed and ended."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from phalanx.api.job import Job, length_s
from phalanx.api.new_manifests import job_manifest, manifest_objects, new_request
from phalanx.api.session import engine_or_start
from phalanx.api.signals import signal_number
from phalanx.api.uploads import with_packages
from phalanx.errors import GetTimeoutError
from phalanx.model.jobs import states as st
from phalanx.model.rows.row import Rows
from phalanx.model.rows.work import AppliedInfo, JobDescription, JobInfo
from phalanx.protocol.bundle_messages import Receivers
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import (
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

SETTLED = st.SETTLED
"""States that a job leaves only after a command of a user."""
LOOK_EVERY_S = 0.05


class JobHandle:
    """A handle of a submitted job. `submit` returns it, and it can be made from a name:
    `JobHandle(name)`.

    Example:
        job = phalanx.submit(phalanx.Job("echo hello", name="greeting"))
        assert job.wait(timeout_s=60) == "Completed"
        print(job.logs())
    """

    def __init__(self, name: str, namespace: str = "default") -> None:
        self.name = name
        self.namespace = namespace

    @property
    def uid(self) -> str:
        """The job's full name: namespace/name."""
        return f"{self.namespace}/{self.name}"

    def status(self) -> JobInfo:
        """Return the job's row, as `jobs()` has it. The row has the reason why the job waits, and
        its position in its queue.

        Raises JobNotFoundError.
        """
        return engine_or_start().ask(ListJobs(name=self.uid))[0]

    def describe(self) -> JobDescription:
        """Return all facts about the job: its members with nodes and devices, and its history.

        Raises JobNotFoundError.
        """
        return engine_or_start().ask(GetJob(self.uid))

    def explain(self) -> str:
        """Return an explanation of why the job waits, and of what would help.

        Raises JobNotFoundError when the job neither waits nor runs.
        """
        return str(engine_or_start().ask(Explain(self.uid)))

    @property
    def state(self) -> str:
        """The job's state: Pending, Running, Completed and so on."""
        return self.describe().state

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait until the job has ended or is suspended, and return its state.

        Raises GetTimeoutError after `timeout_s` seconds.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (state := self.state) not in SETTLED:
            if deadline is not None and time.monotonic() >= deadline:
                raise GetTimeoutError(f"job {self.name} is {state} after {timeout_s} s")
            time.sleep(LOOK_EVERY_S)
        return state

    def logs(self, member: str | int = 0, attempt: int = -1) -> str:
        """Return the output of a member.

        `member` is a name, or an index among all members. `attempt` is the number of the attempt;
        -1 is the latest one. Raises JobNotFoundError when the member or that attempt was never
        started.
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
        """Send a signal such as "USR1" to the running members. Returns the number of members to
        which it was sent.

        By default the signal goes to the programs that the members' shells have started, and to
        commands that are not shells. In a member with steps, the signal goes only to the steps.
        `to`: "command" means only the members' own command or script; "all" means every process of
        the members. The job ends only if the signal ends its members. Raises ValueError for an
        unknown signal, and JobCommandError when no member runs.

        Example:
            job.signal("USR1", member=0)
        """
        chosen = "" if member is None else self._member(member)
        request = SignalJob(self.uid, signal_number(signal), to, chosen)
        return engine_or_start().ask(request)

    def suspend(self) -> None:
        """End the members; no member starts again before `resume`."""
        engine_or_start().ask(CommandJob(self.uid, "suspend"))

    def resume(self) -> None:
        """Start again the members that have not succeeded."""
        engine_or_start().ask(CommandJob(self.uid, "resume"))

    def requeue(self) -> None:
        """End the members, which then wait and start again.

        Raises JobCommandError for a job that does not run.
        """
        engine_or_start().ask(CommandJob(self.uid, "requeue"))

    def resize(self, members: int | Mapping[str, int], *, min_members: int | None = None) -> None:
        """Change the number of members of a job that runs or waits. For a job with several groups,
        give a mapping of groups to sizes.

        More members start when there is room. When the number falls, the members with the highest
        indexes end. At least one must remain. The minimum stays unless `min_members` gives another
        one, or the new size is below it. Raises JobCommandError for a size that is not possible,
        and GangInfeasibleError for a minimum that these nodes could never hold.

        Example:
            job.resize(8)
            JobHandle("with-groups").resize({"worker": 8, "server": 2})
        """
        replicas = dict(members) if isinstance(members, Mapping) else {"": members}
        engine_or_start().ask(ResizeJob(self.uid, replicas, min_members))

    def hold(self) -> None:
        """Let the waiting job wait until `release`. Raises JobCommandError for a job that does not
        wait.
        """
        engine_or_start().ask(CommandJob(self.uid, "hold"))

    def release(self) -> None:
        """Let the job start again after `hold`."""
        engine_or_start().ask(CommandJob(self.uid, "release"))

    def update(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        time: str | timedelta | None = None,
        reservation: str | None = None,
    ) -> JobInfo:
        """Change the queue, priority, time or reservation of the waiting job. Returns its row.

        `time` is like `Job.time`; the reservation "" means none. Raises JobCommandError for a job
        that does not wait, or for more time than the job's queue allows, QueueUnavailableError when
        the queue takes no work, and GangInfeasibleError when the queue could never hold the job.

        Example:
            job.update(queue="research", time="4h")
        """
        limit_s = None if time is None else length_s(time)
        change = UpdateJob(self.uid, queue, priority, limit_s, reservation)
        return engine_or_start().ask(change)

    def cancel(self) -> None:
        """End the job, so that it does not start again."""
        engine_or_start().ask(CommandJob(self.uid, "cancel"))

    def delete(self) -> None:
        """Delete the job and its output. A job that has not ended is ended first."""
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
    """Submit a `Job(...)`, or a manifest of kind Job as a mapping. Returns the job's handle.

    `after` replaces the job's own dependencies: a text as in `Job.after`, or handles of jobs that
    must all complete first. Raises ManifestError for a wrong manifest, QueueUnavailableError when
    the queue takes no work, GangInfeasibleError when the cluster could never hold the job,
    JobCommandError when the name is taken, and TypeError for an argument that is no job
    (`submit_manifests` takes files and other kinds).

    Example:
        prep = phalanx.submit(phalanx.Job("python prepare.py", name="prep"))
        train = phalanx.submit(phalanx.Job("python train.py", name="train", num_gpus=1), after=prep)
    """
    engine = engine_or_start()
    awaited = None if after is None else _awaited(after)
    if isinstance(job, Job):
        job = job if awaited is None else dataclasses.replace(job, after=awaited)
        spec = job.spec()
        if job.uploads:
            spec = with_packages(spec, job.runtime_env or {}, engine.ask, _note)
        engine.ask(new_request([job_manifest(spec)]))
        return JobHandle(spec.name, spec.namespace)
    if not isinstance(job, Mapping) or job.get("kind") != "Job":
        raise TypeError(
            f"submit takes a Job, not {job!r}: submit_manifests takes files and other kinds"
        )
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
            raise TypeError(
                f"submit: after={handle!r}: it must be a text like afterok:prep, or handles"
            )
    return ",".join(f"afterok:{handle.uid}" for handle in handles)


def _note(text: str) -> None:
    print(f"phalanx: {text}", file=sys.stderr)


def submit_manifests(
    manifests: str | os.PathLike[str] | Mapping[str, Any],
) -> list[JobHandle | AppliedInfo]:
    """Create or change the objects of a manifest file, or of one manifest given as a mapping.

    The objects may be jobs, queues, flows, cron jobs, templates, priority classes and network
    domains. Returns a handle for each job and a row for each other object, in the order in which
    they were created (queues and templates first). Raises the errors of `submit`; objects before
    the one that fails stay created.

    Example:
        for made in phalanx.submit_manifests("training.yaml"):
            print(made)
    """
    if isinstance(manifests, Mapping):
        objects = _objects(_as_text(manifests))
    else:
        objects = _objects(Path(manifests).read_bytes(), str(manifests))
    done = engine_or_start().ask(new_request(objects))
    return [JobHandle(one.name, one.namespace) if one.kind == "Job" else one for one in done]


def jobs() -> Rows[JobInfo]:
    """Return the rows of all jobs, oldest first.

    Example:
        pending = [row.name for row in phalanx.jobs() if row.state == "Pending"]
    """
    rows = engine_or_start().ask(ListJobs())
    return Rows(rows)


def _as_text(manifest: Mapping[str, Any]) -> str:
    """Return a mapping as a manifest's text. NaN and infinities are written as in Python's JSON."""
    return json.dumps(dict(manifest), ensure_ascii=False)


def _objects(text: str | bytes, file: str = "") -> list[Manifest]:
    """Return the objects of a file. Each warning about these objects names the line of the program
    that called the public function.
    """
    objects, said = manifest_objects(text, file)
    for sentence in said:
        warnings.warn(sentence, stacklevel=3)
    return objects


class AskForLog(Protocol):
    """A function that requests a part of a log from the head. Programs and commands pass different
    functions of this type.
    """

    def __call__(self, request: ReadJobLog, /) -> LogPart: ...


def read_log(
    ask: AskForLog, job: str, member: str, attempt: int, offset: int = 0
) -> Iterator[tuple[bytes, int]]:
    """Yield the output of a member from `offset` up to now, in parts, each with the offset of its
    end.

    Where the node has dropped output, there is a line of text instead.
    """
    while True:
        part = ask(ReadJobLog(job, member, attempt, offset))
        if not part.data and not part.skipped:
            return
        offset += part.skipped + len(part.data)
        gone = b"[phalanx: %d bytes of older output were dropped]\n" % part.skipped
        yield gone + part.data if part.skipped else part.data, offset
        if offset >= part.size:
            return
