"""Jobs: gangs of commands in a queue, from Python or from manifests."""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from phalanx.api.session import engine_or_start
from phalanx.engines.interface import current
from phalanx.errors import GetTimeoutError
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import (
    DEFAULT_GRACE_S,
    DEFAULT_QUEUE,
    JobSpec,
    Policy,
    Process,
    TaskGroup,
    Template,
)
from phalanx.model.options import required_resources
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
)

MEMBER = "worker"
SETTLED = (*st.FINISHED, st.ABORTED)
"""States in which nothing more happens by itself."""
LOOK_EVERY_S = 0.05


def Job(
    command: str | Sequence[str],
    *,
    name: str | None = None,
    members: int = 1,
    min_members: int | None = None,
    queue: str | None = None,
    priority: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    memory: float | None = None,
    memory_limit: float | None = None,
    resources: Mapping[str, float] | None = None,
    env: Mapping[str, str] | None = None,
    working_dir: str | None = None,
    max_retries: int = 0,
    time_limit_s: float | None = None,
    grace_s: float = DEFAULT_GRACE_S,
    ttl_s: float | None = None,
    plugins: Mapping[str, Sequence[str]] | None = None,
) -> JobSpec:
    """A job whose members all run one command (a string goes through a shell).

    All `members` start together, or as many as `min_members`. When one fails all end, and start
    again up to `max_retries` times; when one is evicted all wait and start again at no cost. Each
    runs in `working_dir` (default: the current directory, which its node must have) with the
    rendezvous of torchrun in its environment. A member that uses more than `memory_limit` bytes,
    with all that it started, is ended with exit code 137; `time_limit_s` ends one that runs
    longer; `grace_s` lies between SIGTERM and SIGKILL; `ttl_s` after its end the job is forgotten.
    Raises ValueError for what cannot be. `queue` and `priority` default to those of `init`.
    """
    from phalanx.manifests.names import label_fault

    words = ("sh", "-c", command) if isinstance(command, str) else tuple(map(str, command))
    if not words or not words[-1]:
        raise ValueError("a job needs a command")
    name = name or _name_for(words)
    if fault := label_fault(name):
        raise ValueError(f"a job's name: {fault}")
    least = members if min_members is None else min_members
    if not 1 <= least <= members:
        raise ValueError(f"a job of {members} members cannot start with {least}")
    options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "memory": memory, "resources": resources}
    needs = required_resources(options, default_cpus=1)
    process = Process(
        command=tuple(map(_literal, words)),
        env=tuple((variable, _literal(value)) for variable, value in (env or {}).items()),
        working_dir=os.getcwd() if working_dir is None else working_dir,
        requests=tuple(sorted(needs.items())),
        limits=() if memory_limit is None else (("memory", float(memory_limit)),),
    )
    group = TaskGroup(
        name=MEMBER,
        replicas=members,
        min_available=least,
        template=Template(processes=(process,), grace_s=grace_s, time_limit_s=time_limit_s),
    )
    engine = current()
    again = Policy(action=st.RESTART_JOB, events=(st.POD_FAILED, st.POD_EVICTED))
    return JobSpec(
        name=name,
        queue=queue or (engine.queue if engine else "") or DEFAULT_QUEUE,
        groups=(group,),
        min_available=least,
        policies=(again,),
        plugins=tuple((plugin, tuple(words)) for plugin, words in (plugins or {}).items()),
        max_retry=max_retries,
        ttl_s=ttl_s,
        priority=priority if priority is not None else engine.priority if engine else 0,
    )


def _literal(text: str) -> str:
    """The text as manifests write it, where $$ stands for $ and $(NAME) for a variable."""
    return text.replace("$", "$$")


def _name_for(words: Sequence[str]) -> str:
    first = words[-1].split() if words[0] == "sh" else list(words)
    stem = Path(shlex.split(first[0])[0] if first else "job").stem.lower()
    kept = "".join(c for c in stem if c.isascii() and c.isalnum())[:20] or "job"
    return f"{kept if kept[0].isalpha() else 'job'}-{secrets.token_hex(3)}"


class JobHandle:
    """A job that was submitted, now or earlier: `JobHandle(name)`."""

    def __init__(self, name: str, namespace: str = "default") -> None:
        self.name = name
        self.namespace = namespace

    @property
    def uid(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    def describe(self) -> dict[str, Any]:
        """All that is known of it. Raises JobNotFoundError."""
        return engine_or_start().ask(GetJob(self.uid))

    @property
    def state(self) -> str:
        """Pending, Running, Completed ..."""
        return str(self.describe()["state"])

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
        return b"".join(parts).decode("utf-8", "replace")

    def _member(self, member: str | int) -> str:
        if isinstance(member, str):
            return member
        return str(self.describe()["members"][member]["name"])

    def suspend(self) -> None:
        """End its members until it is resumed."""
        engine_or_start().ask(CommandJob(self.uid, "suspend"))

    def resume(self) -> None:
        """Start those again that have not succeeded."""
        engine_or_start().ask(CommandJob(self.uid, "resume"))

    def resize(self, members: int | Mapping[str, int], *, min_members: int | None = None) -> None:
        """Give it so many members, while it runs or waits; by group where it has several.

        More start when there is room; of fewer, those with the highest indexes end. Its minimum
        stays, unless `min_members` says another or the size falls below it. Raises JobCommandError
        for what cannot be, and GangInfeasibleError for a minimum that no cluster of these nodes
        could hold.
        """
        replicas = dict(members) if isinstance(members, Mapping) else {"": members}
        engine_or_start().ask(ResizeJob(self.uid, replicas, min_members))

    def cancel(self) -> None:
        """End it for good."""
        engine_or_start().ask(CommandJob(self.uid, "cancel"))

    def delete(self) -> None:
        """End it if it lives, and forget it and what it printed."""
        engine_or_start().ask(DeleteJob(self.uid))

    def __repr__(self) -> str:
        return f"JobHandle({self.uid})"


def submit(job: JobSpec | str | os.PathLike[str] | Mapping[str, Any]) -> Any:
    """Submit a `Job(...)`, a manifest as a mapping, or a file of manifests.

    Returns the job's handle; of a file, one for each Job in it, in a list unless there is one.
    Raises ManifestError for a manifest that is wrong, QueueUnavailableError, GangInfeasibleError
    for what the cluster could never hold, and JobCommandError for a name that is taken.
    """
    if isinstance(job, JobSpec):
        engine_or_start().ask(ApplyManifests([job_manifest(job)]))
        return JobHandle(job.name, job.namespace)
    text = msgspec.json.encode(job) if isinstance(job, Mapping) else Path(job).read_bytes()
    file = "" if isinstance(job, Mapping) else str(job)
    done = engine_or_start().ask(ApplyManifests(manifest_objects(text, file)[0]))
    handles = [JobHandle(one.name, one.namespace) for one in done if one.kind == "Job"]
    return handles[0] if len(handles) == 1 else handles


def jobs() -> list[dict[str, Any]]:
    """All jobs, oldest first."""
    return engine_or_start().ask(ListJobs())


def job_manifest(job: JobSpec) -> Manifest:
    """A job for the control store."""
    return Manifest("Job", msgspec.msgpack.encode(job))


APPLIED = ("Job", "JobTemplate", "JobFlow", "CronJob", "Queue", "PriorityClass", "HyperNode")
"""Kinds that a cluster keeps."""


def manifest_objects(text: str | bytes, file: str = "") -> tuple[list[Manifest], list[str]]:
    """The objects of a file for the control store, queues and templates first, and warnings.

    Raises ManifestError with all that is wrong.
    """
    from phalanx.manifests.findings import ManifestError
    from phalanx.manifests.reading import read_manifests

    manifests, report = read_manifests(text, file)
    if not report.ok:
        raise ManifestError(report.errors, file)
    warnings = [str(finding) for finding in report.warnings]
    for manifest in manifests:
        if manifest.kind not in APPLIED:
            warnings.append(f"{manifest.object}: nothing is made of it")
    chosen = [m for m in manifests if m.kind in APPLIED]
    ordered = sorted(chosen, key=lambda m: _ORDER.get(m.kind, len(_ORDER)))
    return [Manifest(m.kind, msgspec.msgpack.encode(m.spec)) for m in ordered], warnings


_ORDER = {"PriorityClass": 0, "HyperNode": 0, "Queue": 1, "JobTemplate": 2}


class AskForLog(Protocol):
    """Asks the control store, of which program or command it may be."""

    def __call__(self, request: ReadJobLog, /) -> LogPart: ...


def read_log(
    ask: AskForLog, job: str, member: str, attempt: int, offset: int = 0
) -> Iterator[bytes]:
    """What a member has printed from `offset` on, in parts, as far as it is there now."""
    while True:
        part = ask(ReadJobLog(job, member, attempt, offset))
        if not part.data:
            return
        offset += len(part.data)
        yield part.data
        if offset >= part.size:
            return
