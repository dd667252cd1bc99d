"""The request of a job: groups of equal members, each with some processes, and rules for the job's
course.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import msgspec

from phalanx.model.environments import Environment
from phalanx.model.gpu_sharing import TERMS, with_foreign_terms
from phalanx.model.ids import JobId
from phalanx.model.jobs.arrays import ArraySpec, ArrayTask
from phalanx.model.jobs.dependencies import Dependencies
from phalanx.model.jobs.timing import Timing
from phalanx.model.jobs.topology import NetworkTopology
from phalanx.model.packages import Package

Pairs = tuple[tuple[str, str], ...]
Amounts = tuple[tuple[str, float], ...]

DEFAULT_QUEUE = "default"
DEFAULT_MAX_RETRY = 3
DEFAULT_GRACE_S = 30.0
MAX_REPLICAS = 100_000
"""The largest number of members in each group."""
UNLIMITED = -1
"""The `max_retry` of a job or a group with unlimited retries."""


class Port(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A port that a process listens on, with the label by which users find it."""

    number: int
    name: str = ""


class Process(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One command, made from a container of a manifest.

    Its words are `command` followed by `args`. Amounts are in whole resources by Phalanx's names
    (CPU, GPU, memory in bytes). Where a limit is given without a request, the limit is also the
    request.
    """

    name: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Pairs = ()
    working_dir: str = ""
    requests: Amounts = ()
    limits: Amounts = ()
    ports: tuple[Port, ...] = ()
    image: str = ""
    """The image in which the process runs on nodes that have a tool for containers; "": none. An
    image in the job's `environment` takes precedence.
    """
    streams: Literal["", "pipes", "terminal"] = ""
    """How the submitter reads the process's output and writes its input; "" if it does neither,
    because the output goes to a log. A process with streams begins when the submitter has
    connected.
    """

    @property
    def argv(self) -> tuple[str, ...]:
        return self.command + self.args

    @property
    def needs(self) -> dict[str, float]:
        """The amounts reserved for the process: its requests, and its limit of each resource that
        it does not request.
        """
        return dict(self.limits) | dict(self.requests)


class Template(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The form of each member of a group.

    First the processes of `before` run, one after another. Then those of `processes` run, all at
    the same time. `placement` narrows the choice of nodes (nodeSelector, tolerations, affinity,
    topologySpreadConstraints), as Kubernetes writes it; `scheduler.cycle.reading_tasks` reads it.
    """

    processes: tuple[Process, ...] = ()
    before: tuple[Process, ...] = ()
    restart: Literal["Never", "OnFailure"] = "Never"
    grace_s: float = DEFAULT_GRACE_S
    time_limit_s: float | None = None
    priority_class: str = ""
    labels: Pairs = ()
    annotations: Pairs = ()
    placement: dict[str, Any] = {}

    @property
    def needs(self) -> dict[str, float]:
        """The amounts that one member holds, for each resource.

        The amount of a resource is the sum over the member's processes or, if that is larger, the
        largest request of a process in `before`. The terms of a shared GPU are not added up; the
        largest value of each is taken.
        """
        total: dict[str, float] = {}
        for process in self.processes:
            for name, amount in process.needs.items():
                held = total.get(name, 0.0)
                total[name] = max(held, amount) if name in TERMS else held + amount
        for process in self.before:
            for name, amount in process.needs.items():
                total[name] = max(total.get(name, 0.0), amount)
        if self.annotations or any("/" in name for name in total):
            with suppress(ValueError):  # the readers of manifests have reported it
                total = with_foreign_terms(total, dict(self.annotations))
        return dict(sorted(total.items()))


class Policy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A rule: do `action` when one of `events` happens, or when a member exits with `exit_code`.

    With `timeout_s`, the action comes that many seconds later, unless its cause has ended before.
    """

    action: str
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout_s: float | None = None


class DependsOn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A rule that a group waits for other groups. The group starts when all of them (or any of
    them) have their minimum number of members running or ended.
    """

    names: tuple[str, ...]
    iteration: Literal["any", "all"] = "all"


class Partition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A division of a group into `total` parts of `size` members each. At least `minimum` of these
    parts must be placed.
    """

    total: int
    size: int
    minimum: int
    topology: NetworkTopology | None = None


class TaskGroup(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Equal members of a job (a task in Volcano). The job runs only if `min_available` of the
    `replicas` run.
    """

    name: str
    replicas: int = 1
    min_available: int = 1
    template: Template = Template()
    policies: tuple[Policy, ...] = ()
    topology_policy: str = ""
    max_retry: int = DEFAULT_MAX_RETRY
    depends_on: DependsOn | None = None
    partition: Partition | None = None


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole job with its defaults filled in. `plugins` are pairs of a plugin's name and its
    arguments.
    """

    name: str
    namespace: str = "default"
    queue: str = DEFAULT_QUEUE
    groups: tuple[TaskGroup, ...] = ()
    min_available: int = 1
    min_success: int | None = None
    policies: tuple[Policy, ...] = ()
    plugins: tuple[tuple[str, tuple[str, ...]], ...] = ()
    max_retry: int = DEFAULT_MAX_RETRY
    """The number of restarts after failures; UNLIMITED for no limit."""
    ttl_s: float | None = None
    priority: int = 0
    """The priority if `priority_class` is empty."""
    priority_class: str = ""
    topology: NetworkTopology | None = None
    timing: Timing = Timing()
    after: Dependencies | None = None
    """The other jobs that must begin or end before this job requests resources."""
    array: ArraySpec | None = None
    """For an array: the indices; the job runs once for each index."""
    element: ArrayTask | None = None
    """For a job that the head makes for one task of an array: the array and the task's place in
    it.
    """
    user: str = ""
    """The owner of the job, which the head sets; "" if unknown. In a manifest: the user for whom an
    admin submits the job.
    """
    submitted_by: str = ""
    """The job, or the driver's job, from which this job was submitted; "" if it came from no job.
    The head sets it.
    """
    umask: int = -1
    """The umask of the job's programs; -1 for the umask with which the node was started."""
    is_followed: bool = False
    """Whether a command in the foreground shows all output of the members; the members wait for
    this command.
    """
    reservation: str = ""
    """The reservation in which the job runs; "" for none. The job runs only while the reservation
    lasts.
    """
    licenses: tuple[tuple[str, int], ...] = ()
    """The number of licenses of each kind that the job holds while it runs."""
    environment: Environment | None = None
    """The software that is prepared on each node before a member begins there; None: the node's own
    software.
    """
    packages: tuple[Package, ...] = ()
    """The directories and modules that the submitter has uploaded. A member runs in a directory of
    its own, into which they are unpacked.
    """
    labels: Pairs = ()
    annotations: Pairs = ()

    @property
    def is_prepared_first(self) -> bool:
        """Whether each node prepares something before a member begins."""
        return self.environment is not None or bool(self.packages) or self.has_images

    @property
    def has_images(self) -> bool:
        """Whether processes of the job name images of their own."""
        templates = [group.template for group in self.groups]
        return any(one.image for t in templates for one in (*t.before, *t.processes))

    @property
    def uid(self) -> JobId:
        return JobId(f"{self.namespace}/{self.name}")

    @property
    def replicas(self) -> int:
        return sum(group.replicas for group in self.groups)

    def group(self, name: str) -> TaskGroup | None:
        """Return the group of that name; None if the job has no such group."""
        return next((g for g in self.groups if g.name == name), None)

    def plugin(self, name: str) -> tuple[str, ...] | None:
        """Return the arguments of a plugin, or None when the job does not use it."""
        return next((arguments for n, arguments in self.plugins if n == name), None)


class Probe(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A condition that must hold before the next step begins.

    `kind` is taskStatus (a group of the target has a member in `phase`), tcpSocket or httpGet.
    """

    kind: Literal["taskStatus", "tcpSocket", "httpGet"]
    group: str = ""
    phase: str = ""
    port: int = 0
    path: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job of a flow. It is made from the template `name` as soon as all `targets` are met."""

    name: str
    targets: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()
    patch: dict[str, Any] = {}
    """Fields of a Job manifest's spec, which replace the template's fields."""


class FlowSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A flow: jobs in an order. If `retain` is "delete", the jobs are deleted when all have
    succeeded.
    """

    name: str
    namespace: str = "default"
    steps: tuple[Step, ...] = ()
    retain: Literal["retain", "delete"] = "retain"
    user: str = ""
    submitted_by: str = ""
    """The owner of the flow and of its jobs, as in JobSpec."""

    @property
    def uid(self) -> str:
        return f"{self.namespace}/{self.name}"


class CronSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A cron job: a job that is submitted at each time of `schedule`, in `time_zone` (UTC if
    empty).
    """

    name: str
    schedule: str
    job: JobSpec
    namespace: str = "default"
    time_zone: str = ""
    concurrency: Literal["Allow", "Forbid", "Replace"] = "Allow"
    starting_deadline_s: float | None = None
    suspend: bool = False
    keep_successful: int = 3
    keep_failed: int = 1

    @property
    def uid(self) -> str:
        return f"{self.namespace}/{self.name}"


class PriorityClass(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A name for a priority. If `preemption_policy` is Never, work of this priority preempts no
    other work.
    """

    name: str
    value: int = 0
    is_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
