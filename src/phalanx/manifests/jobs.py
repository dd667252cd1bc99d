"""The reading of Job manifests: defaults are filled in, and Volcano's rules are checked."""

from __future__ import annotations

import re

from phalanx.manifests.arrays import read_array
from phalanx.manifests.dependencies import read_dependencies
from phalanx.manifests.environments import read_runtime_env
from phalanx.manifests.fields import Fields
from phalanx.manifests.graphs import find_cycle
from phalanx.manifests.licenses import read_licenses_field
from phalanx.manifests.names import label_fault, member_fault
from phalanx.manifests.plugins import complete, read_plugins, role_fault
from phalanx.manifests.pods import read_pod, read_template
from phalanx.manifests.policies import read_policies
from phalanx.manifests.timing import read_timing
from phalanx.manifests.topology import read_topology
from phalanx.manifests.volumes import read_volumes
from phalanx.model.jobs.arrays import ArraySpec
from phalanx.model.jobs.dependencies import Dependencies
from phalanx.model.jobs.spec import (
    DEFAULT_MAX_RETRY,
    DEFAULT_QUEUE,
    MAX_REPLICAS,
    UNLIMITED,
    DependsOn,
    JobSpec,
    Pairs,
    Partition,
    TaskGroup,
)
from phalanx.model.nearest import nearest

HOST_FILES = "/etc/volcano"
"""The folder in which a container has the files of the plugin svc. In the words and variables of a
command, this path is replaced by the folder in $PHALANX_FILES.
"""
_HOST_FILE = re.compile(rf"{HOST_FILES}/([\w-]+(?:\.[\w-]+)*)")
POD_TASK = "pod"
"""The name of the only task of a job that is made from a Pod."""
QUEUE_OF_POD = "scheduling.volcano.sh/queue-name"
GROUPS_OF_PODS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""The annotations by which a Pod names its queue or its PodGroup."""
TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def read_job(
    at: Fields,
    name: str,
    namespace: str = "default",
    labels: Pairs = (),
    annotations: Pairs = (),
) -> JobSpec:
    """Return the job with this name from the spec at `at`. Errors go to the report of the
    fields.
    """
    groups = tuple(_group(g, i) for i, g in enumerate(at.items("tasks")))
    most = sum(max(g.replicas, 0) for g in groups)
    minimum = at.whole("minAvailable")
    if minimum < 0:
        reason = f"minAvailable must be 0 or more, not {minimum}"
        at.error("minAvailable", "min_available_negative", reason)
    ttl = _natural(at, "ttlSecondsAfterFinished", "ttl_negative")
    job = JobSpec(
        name=name,
        namespace=namespace,
        queue=at.text("queue") or DEFAULT_QUEUE,
        groups=groups,
        min_available=minimum or sum(g.min_available for g in groups),
        min_success=_min_success(at, most),
        policies=read_policies(at),
        plugins=complete(read_plugins(at)),
        max_retry=_retries(at),
        ttl_s=None if ttl is None else float(ttl),
        priority_class=at.text("priorityClassName"),
        topology=read_topology(at),
        timing=read_timing(at),
        after=_after(at, namespace),
        array=_array(at),
        user=at.text("user"),
        reservation=at.text("reservation"),
        licenses=read_licenses_field(at),
        environment=read_runtime_env(at),
        labels=labels,
        annotations=annotations,
    )
    at.text("schedulerName")
    at.unused("runningEstimate", "how long jobs run is learnt from earlier runs")
    read_volumes(at)
    at.warn_unknown()
    _check(at, job, most)
    return job


def read_pod_job(
    at: Fields, name: str, namespace: str, labels: Pairs, annotations: Pairs
) -> JobSpec:
    """Return a job with one member that runs the commands of the Pod with this spec."""
    template = read_pod(at, labels, annotations)
    at.warn_unknown()
    group = TaskGroup(name=POD_TASK, replicas=1, min_available=1, template=template)
    fault = member_fault(name, POD_TASK, 1)
    if name and fault is not None:
        at.error("", "member_name_invalid", fault)
    return JobSpec(
        name=name,
        namespace=namespace,
        queue=dict(annotations).get(QUEUE_OF_POD) or DEFAULT_QUEUE,
        groups=(group,),
        min_available=1,
        priority_class=template.priority_class,
        labels=labels,
        annotations=annotations,
    )


def _array(at: Fields) -> ArraySpec | None:
    value = at.raw("array")
    if value is None:
        return None
    try:
        return read_array(str(value) if isinstance(value, int) else at.text("array"))
    except ValueError as error:
        at.error("array", "array_invalid", f"array: {error}")
        return None


def _after(at: Fields, namespace: str) -> Dependencies | None:
    written = at.text("after")
    if not written.strip():
        return None
    try:
        return read_dependencies(written, namespace)
    except ValueError as error:
        at.error("after", "after_invalid", f"after: {error}")
        return None


def _check(at: Fields, job: JobSpec, most: int) -> None:
    if not job.groups:
        at.error("tasks", "no_tasks", "a job needs at least one task")
    names = [g.name for g in job.groups]
    for i, group in enumerate(job.groups):
        if group.name in names[:i]:
            reason = f"two tasks are named {group.name!r}"
            at.error(("tasks", i, "name"), "duplicate_task_name", reason)
        fault = member_fault(job.name, group.name, group.replicas)
        if job.name and fault is not None and not label_fault(group.name):
            at.error(("tasks", i, "name"), "member_name_invalid", fault)
    if job.min_available > most or sum(g.replicas for g in job.groups) < job.min_available:
        reason = f"minAvailable is {job.min_available}, but all tasks together have {most} members"
        at.error("minAvailable", "min_available_exceeds_replicas", reason)
    graph = {g.name: g.depends_on.names if g.depends_on else () for g in job.groups}
    for i, group in enumerate(job.groups):
        for target in graph[group.name] if group.depends_on else ():
            if target not in graph:
                reason = f"{target!r} is not a task of this job; its tasks: {', '.join(graph)}"
                at.error(("tasks", i, "dependsOn"), "task_dependency_not_dag", reason)
    ring = find_cycle(graph)
    if ring:
        reason = f"tasks wait for each other in a cycle: {' -> '.join(ring)}"
        at.error("tasks", "task_dependency_not_dag", reason)
    _check_plugins(at, job)


def _check_plugins(at: Fields, job: JobSpec) -> None:
    groups = [group.name for group in job.groups]
    for plugin, arguments in job.plugins:
        role, reason = role_fault(plugin, arguments, groups)
        if role:
            at.error(("plugins", plugin), f"{plugin}_{role}_missing", reason)
    for i, group in enumerate(job.groups):
        if not group.template.processes:
            reason = "there is no container with a command: submitting it would be refused"
            at.warn(("tasks", i), "no_command", reason)
        _check_host_files(at, job, i)


def _check_host_files(at: Fields, job: JobSpec, number: int) -> None:
    """Report the host files that the commands or variables of a task name, and that the job will
    not have.
    """
    template = job.groups[number].template
    texts = [
        text
        for process in (*template.before, *template.processes)
        for text in (*process.argv, *(value for _, value in process.env))
        if HOST_FILES in text
    ]
    if not texts:
        return
    place = ("tasks", number, "template")
    if job.plugin("svc") is None:
        reason = f"the plugin svc, which writes the host lists in {HOST_FILES}, is not used"
        at.error(place, "host_files_without_svc", reason)
        return
    known = [f"{group.name.replace('-', '_')}.host" for group in job.groups]
    known += ["hostfile"] if job.plugin("mpi") is not None else []
    for name in dict.fromkeys(name for text in texts for name in _HOST_FILE.findall(text)):
        if name not in known:
            near = nearest(name, known) or "."
            reason = f"there is no {HOST_FILES}/{name}{near} The job has {', '.join(known)}"
            at.error(place, "host_file_unknown", reason)


def _group(at: Fields, index: int) -> TaskGroup:
    name = at.text("name") or f"default{index}"
    fault = label_fault(name)
    if fault is not None:
        at.error("name", "task_name_invalid", fault)
    replicas = at.whole("replicas", 1)
    if replicas < 0:
        at.error("replicas", "replicas_negative", f"replicas must be 0 or more, not {replicas}")
    elif replicas > MAX_REPLICAS:
        at.error(
            "replicas",
            "replicas_too_many",
            f"replicas must be at most {MAX_REPLICAS}, not {replicas}",
        )
        replicas = MAX_REPLICAS
    partition = _partition(at, replicas)
    minimum = at.optional_whole("minAvailable")
    if minimum is None:
        minimum = partition.minimum * partition.size if partition else max(replicas, 0)
    elif minimum < 0:
        at.error(
            "minAvailable",
            "task_min_available_negative",
            f"minAvailable must be 0 or more, not {minimum}",
        )
    elif minimum > replicas:
        reason = f"minAvailable is {minimum}, but there are {replicas} replicas"
        at.error("minAvailable", "task_min_available_exceeds_replicas", reason)
    elif partition and minimum != partition.minimum * partition.size:
        reason = (
            f"minAvailable is {minimum}, but minPartitions * partitionSize is "
            f"{partition.minimum * partition.size}"
        )
        at.error("minAvailable", "partition_min_available", reason)
    policy = at.choice("topologyPolicy", TOPOLOGY_POLICIES, "none")
    group = TaskGroup(
        name=name,
        replicas=max(replicas, 0),
        min_available=minimum,
        template=read_template(at.fields("template")),
        policies=read_policies(at),
        topology_policy="" if policy == "none" else policy,
        max_retry=_retries(at),
        depends_on=_depends_on(at),
        partition=partition,
    )
    if group.topology_policy:
        _whole_cores(at, group)
    at.warn_unknown()
    return group


def _whole_cores(at: Fields, group: TaskGroup) -> None:
    """Check that a member bound to a NUMA node requests whole cores, and that its request equals
    its limit.
    """
    for i, process in enumerate(group.template.processes + group.template.before):
        limits, needs = dict(process.limits), process.needs
        cpus = needs.get("CPU", 0.0)
        guaranteed = all(limits.get(r) == needs.get(r) for r in ("CPU", "memory"))
        if not guaranteed or not cpus or cpus != int(cpus):
            reason = (
                f"topologyPolicy {group.topology_policy} needs whole CPUs, and limits for cpu and "
                f"memory that are also the requests; process {i} has {cpus:g} CPUs"
            )
            at.error("topologyPolicy", "topology_policy_needs_whole_cpus", reason)


def _partition(at: Fields, replicas: int) -> Partition | None:
    if not at.has("partitionPolicy"):
        at.raw("partitionPolicy")
        return None
    inner = at.fields("partitionPolicy")
    total, size = inner.whole("totalPartitions"), inner.whole("partitionSize")
    minimum = inner.whole("minPartitions") or total
    topology = read_topology(inner)
    inner.warn_unknown()
    if total <= 0 or size <= 0 or minimum < 0:
        reason = f"partitions need a number and a size above 0: {total} partitions of {size}"
        inner.error("", "partition_invalid", reason)
        return None
    if minimum > total:
        reason = f"minPartitions is {minimum}, but there are {total} partitions"
        inner.error("minPartitions", "partition_min_exceeds_total", reason)
    if total * size != replicas:
        reason = f"{total} partitions of {size} are {total * size} members, not {replicas}"
        inner.error("", "partition_replicas", reason)
    return Partition(total=total, size=size, minimum=minimum, topology=topology)


def _depends_on(at: Fields) -> DependsOn | None:
    value = at.raw("dependsOn")
    if value is None:
        return None
    if isinstance(value, list):  # the names alone
        names = at.texts("dependsOn")
        return DependsOn(names=names) if names else None
    inner = at.fields("dependsOn")
    names = (inner.text("name"),) if isinstance(inner.raw("name"), str) else inner.texts("name")
    iteration = inner.choice("iteration", ("any", "all"), "all")
    inner.warn_unknown()
    return (
        DependsOn(names=names, iteration="any" if iteration == "any" else "all") if names else None
    )


def _min_success(at: Fields, most: int) -> int | None:
    given = at.optional_whole("minSuccess")
    if given is not None and given < 1:
        at.error("minSuccess", "min_success_invalid", f"minSuccess must be 1 or more, not {given}")
    elif given is not None and given > most > 0:
        reason = f"minSuccess is {given}, but all tasks together have {most} members"
        at.warn("minSuccess", "min_success_unreachable", reason)
    return given


def _retries(at: Fields) -> int:
    given = at.optional_whole("maxRetry")
    if given is not None and given < UNLIMITED:
        reason = f"maxRetry must be 0 or more, or {UNLIMITED} for no limit, not {given}"
        at.error("maxRetry", "max_retry_negative", reason)
    return DEFAULT_MAX_RETRY if given is None else given


def _natural(at: Fields, key: str, code: str) -> int | None:
    given = at.optional_whole(key)
    if given is not None and given < 0:
        at.error(key, code, f"{key} must be 0 or more, not {given}")
    return given
