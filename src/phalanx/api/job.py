"""The specification of a job, as `submit` takes it."""

from __future__ import annotations

import os
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from phalanx.api.directories import default_directory
from phalanx.api.job_checks import (
    check_directory,
    check_limits,
    check_number,
    check_plugins,
    check_reservation,
    check_timing,
    check_variables,
    check_whole,
    refused,
    wrong_type,
)
from phalanx.api.job_config import JOB_CONFIG
from phalanx.manifests.sizes import read_size
from phalanx.model.environments import IMAGE, TOOLS, reference
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import ArraySpec
from phalanx.model.jobs.dependencies import Dependencies
from phalanx.model.jobs.spec import (
    DEFAULT_GRACE_S,
    DEFAULT_QUEUE,
    MAX_REPLICAS,
    JobSpec,
    Policy,
    Process,
    TaskGroup,
    Template,
)
from phalanx.model.jobs.timing import Moment, Timing
from phalanx.model.options import (
    amount_fault,
    check_task_options,
    required_resources,
)
from phalanx.runtime.engine.interface import current
from phalanx.runtime.environments.reading import environment_of

T = TypeVar("T")
MEMBER = "worker"
_KINDS = {
    "time": "a text like 2h30m, or a timedelta",
    "begin": "a text like now+1h, or a datetime",
    "deadline": "a text like now+1h, or a datetime",
    "signal": "a text like USR1@300",
    "after": "a text like afterok:prep",
    "array": "a text like 0-99%10",
    "licenses": "a text like matlab:2, or a mapping",
    "requeue": "a mapping of reasons, exitCodes and max",
}
_UPLOADED = ("working_dir", "py_modules")
_RUNTIME_ENV = frozenset({*TOOLS, *_UPLOADED, "config", "env_vars", "excludes"})
_LONGEST_STEM = 20
_DRAWN, _DRAWN_FROM = 8, string.ascii_lowercase + string.digits


@dataclass(frozen=True)
class Job:
    """A job whose members all run one command.

    At least `min_members` members start together; by default, all. When a member fails, all members
    are ended and start again, up to `max_retries` times. When a member is evicted, all members wait
    and start again, which does not count as a retry. Each member has torchrun's rendezvous
    variables in its environment. Raises ValueError or TypeError that names the field, its value,
    and the values that are allowed.

    Example:
        job = phalanx.Job("python train.py", name="train", members=4, num_gpus=1, time="2h30m")
        handle = phalanx.submit(job)
    """

    command: str | Sequence[str]
    """The command, as a list of words or as a text for a shell."""
    _: KW_ONLY
    name: str | None = None
    """The name: letters, digits, '-', '_' and '.'. By default it is made from the command.

    The names of the job's members, such as NAME-worker-0, may have at most 63 characters.
    """
    namespace: str = "default"
    members: int = 1
    """The number of processes, at least 1."""
    min_members: int | None = None
    """The number of members that must be placed before any starts; by default all."""
    queue: str | None = None
    """The queue in which the job waits; by default the queue given to `init`."""
    priority: int | None = None
    """The priority: jobs with a higher number come first in their queue; by default the priority
    given to `init`.
    """
    num_cpus: float = 1
    num_gpus: float = 0
    """The number of GPUs for each member; below 1, a share of one GPU and the same share of its
    memory.
    """
    gpu_memory: float | str | None = None
    """Memory that a member holds on each of its GPUs, such as "20GiB"; other work may use the rest
    of the GPUs' memory. Without `num_gpus`, the member has one GPU.
    """
    gpu_memory_limit: float | str | None = None
    """The memory on a GPU above which a member is ended; by default `gpu_memory`."""
    gpu_share: str | None = None
    """How the GPU is shared: "time" (the default) or "mps"."""
    gpu_compute: float | None = None
    """The largest part of a GPU's threads that a member may use, with "mps"."""
    memory: float | str | None = None
    """The number of bytes that are reserved for each member."""
    memory_limit: float | str | None = None
    """The number of bytes that a member may use together with all processes that it started. A
    member that uses more is killed, with exit code 137.
    """
    resources: Mapping[str, float] | None = None
    """The amounts that each member holds of resources that nodes declare."""
    env: Mapping[str, str] | None = None
    """Environment variables, in addition to the few that all jobs get from their node (`PATH`,
    `HOME` and the like).
    """
    working_dir: str | None = None
    """The directory in which members run, which must exist on their nodes; by default the current
    one. If `runtime_env` has directories that are uploaded, or the head is reached with a login
    (`phalanx login`), it is a directory of the member's own.
    """
    runtime_env: Mapping[str, Any] | None = None
    """The software of the job, prepared on each node before any member begins: {"pip": ["numpy"]},
    {"uv": "uv.lock"} or {"conda": "environment.yml"}; the image in which its commands run:
    {"image_uri": "python:3.12"}, or {"container": {"image": ..., "run_options": [...]}};
    `working_dir` and `py_modules`, which are uploaded, with `excludes`; and `env_vars` and `config`
    as for tasks. Paths name files of the submitter.
    """
    max_retries: int = 0
    """How often the job starts again after a failure; -1 for no limit."""
    time: str | timedelta | None = None
    """The time that the job may run after each start: "2h30m", "1-12:00" (days-hours:minutes), "90"
    (minutes). After that time it is ended, with the state TimeOut. The default is the queue's
    `default_time`.
    """
    begin: str | datetime | None = None
    """The earliest time at which the job starts: "now+1h", "2027-01-31T18:00", "18:00"."""
    deadline: str | datetime | None = None
    """The time at which the job is ended, with the state Deadline, if it still runs. A waiting job
    is ended as soon as it could no longer end in time.
    """
    signal: str | None = None
    """A signal that members get before the end of their time: "USR1@300" sends it 300 seconds
    before (60 without a number). Members that are preempted get this signal instead of SIGTERM,
    which then comes after half of their grace.
    """
    requeue: Mapping[str, Any] | None = None
    """The cases in which the job waits again instead of ending: {"reasons": ["timeout",
    "preempted", "node"], "exitCodes": [75], "max": 3}. By default, a job waits again when it is
    preempted or loses a node.
    """
    movable: str | None = None
    """The job may be moved to other nodes while it runs, so that other work fits: "10m" if it saves
    its work at least every 10 minutes, "true" if it saves nothing. A moved job is evicted, and
    starts again immediately. By default it is not moved.
    """
    after: str | None = None
    """Dependencies: conditions on other jobs that must hold before the job requests resources, in
    Slurm's form: "afterok:prep,afterany:clean", "after:server+10" (minutes), "singleton:train".
    With "?" instead of "," one condition is enough.
    """
    array: str | None = None
    """The indexes of an array: "0-99", "0-99%10" (ten at the same time), "1,3,5-9:2". Each array
    task is a job of its own, NAME[7], with PHALANX_ARRAY_INDEX in its environment.
    """
    hold: bool = False
    """Whether the job waits until it is released."""
    reservation: str | None = None
    """The reservation in which the job runs: the job starts when the reservation has begun, and is
    ended when the reservation ends.
    """
    licenses: str | Mapping[str, int] | None = None
    """Licenses of the cluster that the job holds while it runs: "matlab:2,ansys", {"matlab": 2}."""
    time_limit_s: float | None = None
    """Seconds after which a running member is ended with exit code 124."""
    grace_s: float = DEFAULT_GRACE_S
    """Seconds between SIGTERM and SIGKILL."""
    ttl_s: float | None = None
    """Seconds after the job's end until the job is deleted; None if it is not deleted."""
    plugins: Mapping[str, Sequence[str]] | None = None
    """Volcano's plugins with their arguments, such as {"mpi": ["--master=worker"]}."""

    def __post_init__(self) -> None:
        words = self._words()
        engine = current()
        defaults = {
            "name": _name_for(words) if self.name is None else "",
            "queue": (engine.queue if engine is not None else "") or DEFAULT_QUEUE,
            "priority": engine.priority if engine is not None else 0,
            "min_members": self.members,
            "working_dir": "" if self.uploads else default_directory(),
        }
        for field, default in defaults.items():
            if vars(self)[field] is None:
                object.__setattr__(self, field, default)
        for field in ("memory", "memory_limit"):
            if isinstance(vars(self)[field], str):
                object.__setattr__(self, field, self._read(field, read_size))
        self._check()

    @property
    def uid(self) -> str:
        """The job's full name: namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def uploads(self) -> bool:
        """Whether the job has directories or modules that are uploaded when it is submitted."""
        return any((self.runtime_env or {}).get(name) for name in _UPLOADED)

    def spec(self) -> JobSpec:
        """Return the job in the form in which the head keeps it, without its uploads."""
        # `__post_init__` has filled in the fields that were None.
        assert self.name is not None
        assert self.queue is not None
        assert self.priority is not None
        assert self.min_members is not None
        needs = required_resources(self._amounts(), default_cpus=1)
        given = dict(self.runtime_env or {})
        environment = environment_of(given)
        variables = {**(given.get("env_vars") or {}), **(self.env or {})}
        if environment is not None and environment.tool != IMAGE:
            # If this job is a driver, its tasks have the environment, too.
            import json  # few jobs have an environment

            of_job = json.dumps({"runtime_env": reference(environment)})
            variables.setdefault(JOB_CONFIG, of_job)
        process = Process(
            command=tuple(map(_literal, self._words())),
            env=tuple((variable, _literal(value)) for variable, value in variables.items()),
            working_dir=os.path.abspath(self.working_dir) if self.working_dir else "",
            requests=tuple(sorted(needs.items())),
            limits=() if self.memory_limit is None else (("memory", float(self.memory_limit)),),
        )
        group = TaskGroup(
            name=MEMBER,
            replicas=self.members,
            min_available=self.min_members,
            template=Template(
                processes=(process,), grace_s=self.grace_s, time_limit_s=self.time_limit_s
            ),
        )
        again = Policy(action=st.RESTART_JOB, events=(st.POD_FAILED, st.POD_EVICTED))
        plugins = (self.plugins or {}).items()
        return JobSpec(
            name=self.name,
            namespace=self.namespace,
            queue=self.queue,
            groups=(group,),
            min_available=self.min_members,
            policies=(again,),
            annotations=self._annotations(),
            plugins=tuple((plugin, tuple(arguments)) for plugin, arguments in plugins),
            max_retry=self.max_retries,
            ttl_s=self.ttl_s,
            priority=self.priority,
            timing=self._timing(),
            after=self._after(),
            array=self._array(),
            reservation=self.reservation or "",
            licenses=self._licenses(),
            environment=environment,
        )

    def _timing(self) -> Timing:
        from phalanx.manifests.timing import read_signal, requeue_of

        return Timing(
            limit_s=self._read("time", length_s),
            begin=self._read("begin", _moment),
            deadline=self._read("deadline", _moment),
            signal=self._read("signal", read_signal),
            requeue=self._read("requeue", requeue_of),
            is_held=self.hold,
        )

    def _annotations(self) -> tuple[tuple[str, str], ...]:
        if self.movable is None:
            return ()
        from phalanx.scheduler.cycle.move_terms import MOVABLE, terms_fault

        found = ((MOVABLE, self.movable),)
        wrong = terms_fault(found)
        if wrong is not None:
            raise ValueError(f"Job: movable={self.movable!r}: {wrong[1]}.")
        return found

    def _after(self) -> Dependencies | None:
        from phalanx.manifests.dependencies import dependency_faults, read_dependencies

        after = self._read("after", lambda text: read_dependencies(text, self.namespace))
        for fault in dependency_faults(after, self.uid):
            raise ValueError(f"Job: {fault.reason}.")
        return after

    def _array(self) -> ArraySpec | None:
        from phalanx.manifests.arrays import read_array

        return self._read("array", read_array)

    def _licenses(self) -> tuple[tuple[str, int], ...]:
        from phalanx.manifests.licenses import licenses_of, read_licenses

        def read(given: str | Mapping[str, int]) -> tuple[tuple[str, int], ...]:
            return read_licenses(given) if isinstance(given, str) else licenses_of(given)

        return self._read("licenses", read) or ()

    def _read(self, field: str, read: Callable[[Any], T]) -> T | None:
        given = vars(self)[field]
        if given is None:
            return None
        try:
            return read(given)
        except ValueError as error:
            raise ValueError(f"Job: {field}={given!r}: {error}.") from None
        except (TypeError, AttributeError):
            raise wrong_type(field, given, _KINDS[field]) from None

    def _words(self) -> tuple[str, ...]:
        if isinstance(self.command, str):
            words: tuple[str, ...] = ("sh", "-c", self.command)
        else:
            words = tuple(map(str, self.command))
        given = self.command if isinstance(self.command, str) else " ".join(words[:1])
        if not given.strip():
            raise refused(
                "command",
                self.command,
                "a text for a shell or a list of words, of which the first names a program",
            )
        return words

    def _amounts(self) -> dict[str, Any]:
        return {
            "num_cpus": self.num_cpus,
            "num_gpus": self.num_gpus,
            "gpu_memory": self.gpu_memory,
            "gpu_memory_limit": self.gpu_memory_limit,
            "gpu_share": self.gpu_share,
            "gpu_compute": self.gpu_compute,
            "memory": self.memory,
            "resources": None if self.resources is None else dict(self.resources),
        }

    def _check_names(self) -> None:
        from phalanx.manifests.names import member_fault, object_fault, subdomain_fault

        for name in ("name", "namespace", "queue"):
            if not isinstance(vars(self)[name], str):
                raise wrong_type(name, vars(self)[name], "text")
        assert self.name is not None
        assert self.queue is not None
        check_whole("members", self.members, 1)
        if self.members > MAX_REPLICAS:
            raise refused("members", self.members, f"at most {MAX_REPLICAS}")
        fault = object_fault("Job", self.name, self.namespace)
        if fault := fault or member_fault(self.name, MEMBER, self.members):
            raise ValueError(f"Job: {self.uid!a}: {fault}.")
        if fault := subdomain_fault(self.queue):
            raise ValueError(f"Job: queue={self.queue!a}: {fault}.")

    def _check_runtime_env(self) -> None:
        if self.runtime_env is None:
            return
        if not isinstance(self.runtime_env, Mapping):
            raise wrong_type("runtime_env", self.runtime_env, "a mapping")
        if unknown := sorted(set(self.runtime_env) - _RUNTIME_ENV):
            known = ", ".join(sorted(_RUNTIME_ENV))
            raise ValueError(f"Job: runtime_env has no field {unknown[0]!r} for a job: {known}.")
        check_task_options({"runtime_env": dict(self.runtime_env)})
        environment_of(self.runtime_env)

    def _check(self) -> None:
        self._check_names()
        check_whole("min_members", self.min_members, 1)
        if (self.min_members or 0) > self.members:
            raise refused("min_members", self.min_members, f"at most members={self.members}")
        check_whole("max_retries", self.max_retries, -1)
        check_whole("priority", self.priority)
        if self.ttl_s is not None:
            check_number("ttl_s", self.ttl_s)
        check_limits(self.time_limit_s, self.memory, self.memory_limit)
        check_number("grace_s", self.grace_s)
        if not isinstance(self.hold, bool):
            raise wrong_type("hold", self.hold, "True or False")
        check_directory(self.working_dir)
        check_variables(self.env)
        check_plugins(self.plugins, (MEMBER,))
        check_reservation(self.reservation)
        self._check_runtime_env()
        check_timing(vars(self), self._timing())
        self._annotations()
        self._after()
        self._array()
        self._licenses()
        if self.resources is not None and not isinstance(self.resources, Mapping):
            raise wrong_type("resources", self.resources, "a mapping")
        try:
            check_task_options({k: v for k, v in self._amounts().items() if v is not None})
            if (allowed := amount_fault("GPU", self.num_gpus)) is not None:
                raise ValueError(f"num_gpus={self.num_gpus!r}: it must be {allowed}.")
            required_resources(self._amounts(), default_cpus=1)
        except (ValueError, TypeError) as error:
            raise type(error)(f"Job: {error}") from None


def length_s(given: str | timedelta) -> float:
    """Return a duration in seconds. Raises ValueError for a text that is not a duration."""
    from phalanx.manifests.times import read_length

    return read_length(f"{given.total_seconds():f}s" if isinstance(given, timedelta) else given)


def _moment(given: str | datetime) -> Moment:
    from phalanx.manifests.times import read_moment

    if isinstance(given, datetime):
        return Moment(at=given.timestamp())
    return read_moment(given, time.time())


def _literal(text: str) -> str:
    """Return the text escaped for a manifest, so that the text is used unchanged. In a manifest,
    $(NAME) is a variable and $$ is a literal $.
    """
    return text.replace("$", "$$")


def _name_for(words: Sequence[str]) -> str:
    # Imported here, because commands that submit a job often have a name for it.
    import shlex
    from pathlib import Path

    first = words[-1].split() if words[0] == "sh" else list(words)
    try:
        stem = Path(next(iter(shlex.split("".join(first[:1]))), "job")).stem.lower()
    except ValueError:  # a single quotation mark
        stem = "job"
    kept = "".join(c for c in stem if c.isascii() and c.isalnum())[:_LONGEST_STEM] or "job"
    return f"{kept if kept[0].isalpha() else 'job'}-{_random_end()}"


def _random_end() -> str:
    """Return a random suffix for a job's name. Even among millions of jobs, two jobs are unlikely
    to get the same suffix.
    """
    import secrets

    return "".join(secrets.choice(_DRAWN_FROM) for _ in range(_DRAWN))
