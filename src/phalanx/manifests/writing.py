"""The writing of records as manifests, without the defaults that `reading` fills in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from phalanx.manifests.arrays import written_array
from phalanx.manifests.dependencies import written_dependencies
from phalanx.manifests.hypernodes import HyperNode, Member
from phalanx.manifests.reading import GROUPS, Manifest, Spec
from phalanx.manifests.reservations import written_reservation
from phalanx.manifests.timing import written_timing
from phalanx.model.environments import written_environment
from phalanx.model.jobs.spec import (
    CronSpec,
    FlowSpec,
    JobSpec,
    Partition,
    Policy,
    PriorityClass,
    Probe,
    Process,
    Step,
    TaskGroup,
    Template,
)
from phalanx.model.jobs.topology import NetworkTopology
from phalanx.model.readable import length_text
from phalanx.model.reservations import Reservation
from phalanx.scheduler.cycle.specs import GroupAffinity, PodGroupSpec, QueueSpec, SubgroupPolicy

Written = dict[str, Any]
VERSIONS = {
    "Job": "v1alpha1",
    "CronJob": "v1alpha1",
    "JobFlow": "v1alpha1",
    "JobTemplate": "v1alpha1",
    "Queue": "v1beta1",
    "PodGroup": "v1beta1",
    "HyperNode": "v1alpha1",
    "PriorityClass": "v1",
    "Reservation": "v1",
    "Pod": "",
}


def as_data(manifest: Manifest) -> Written:
    """Return one object as plain mappings and lists."""
    spec = manifest.spec
    assert spec is not None, "nothing was read that could be written"
    metadata: Written = {"name": manifest.name}
    if manifest.namespace and manifest.namespace != "default":
        metadata["namespace"] = manifest.namespace
    for key in ("labels", "annotations"):
        pairs = dict(getattr(spec, key, ()))
        if pairs:
            metadata[key] = pairs
    out: Written = {
        "apiVersion": GROUPS[manifest.kind][0] + VERSIONS[manifest.kind],
        "kind": manifest.kind,
        "metadata": metadata,
    }
    if isinstance(spec, PriorityClass):
        return out | _kept(
            value=spec.value,
            globalDefault=spec.is_default,
            preemptionPolicy=spec.preemption_policy,
        )
    if isinstance(spec, QueueSpec):
        marks = {"volcano.sh/hierarchy": spec.hierarchy_path}
        marks["volcano.sh/hierarchy-weights"] = spec.hierarchy_weights
        metadata |= _kept(annotations=dict(spec.annotations) | _kept(**marks))
        out |= _kept(status=_kept(state=spec.state))
    if manifest.kind == "Pod" and isinstance(spec, JobSpec):
        return out | {"spec": _template(spec.groups[0].template)["spec"]}
    return out | {"spec": _spec(spec)}


def _spec(spec: Spec) -> Written:
    if isinstance(spec, JobSpec):
        return _job(spec)
    if isinstance(spec, CronSpec):
        return _cron(spec)
    if isinstance(spec, FlowSpec):
        steps = [_step(s) for s in spec.steps]
        return {"flows": steps, "jobRetainPolicy": spec.retain}
    if isinstance(spec, QueueSpec):
        return _queue(spec)
    if isinstance(spec, PodGroupSpec):
        return _podgroup(spec)
    if isinstance(spec, Reservation):
        return written_reservation(spec)
    assert isinstance(spec, HyperNode)
    members = [{"type": m.kind, "selector": _selector(m)} for m in spec.members]
    return {"tier": spec.tier} | _kept(tierName=spec.tier_name, members=members)


def _kept(**fields: Any) -> Written:
    """Return those of the given fields that are not empty."""
    return {k: v for k, v in fields.items() if v not in (None, "", (), [], {})}


def _job(job: JobSpec) -> Written:
    return _kept(
        queue=job.queue,
        minAvailable=job.min_available,
        minSuccess=job.min_success,
        maxRetry=job.max_retry,
        ttlSecondsAfterFinished=_seconds(job.ttl_s),
        priorityClassName=job.priority_class,
        networkTopology=_topology(job.topology),
        **written_timing(job.timing),
        array=None if job.array is None else written_array(job.array),
        after=None if job.after is None else written_dependencies(job.after),
        user=job.user,
        reservation=job.reservation,
        licenses=dict(job.licenses),
        runtimeEnv=None if job.environment is None else written_environment(job.environment),
        plugins={name: list(arguments) for name, arguments in job.plugins},
        policies=[_policy(p) for p in job.policies],
        tasks=[_group(g) for g in job.groups],
    )


def _length(length_s: float | None) -> str | None:
    return None if length_s is None else length_text(length_s)


def _seconds(length: float | None) -> int | None:
    return None if length is None else math.ceil(length)


def _group(group: TaskGroup) -> Written:
    depends = group.depends_on
    return _kept(
        name=group.name,
        replicas=group.replicas,
        minAvailable=group.min_available,
        maxRetry=group.max_retry,
        topologyPolicy=group.topology_policy,
        dependsOn=None
        if depends is None
        else {"name": list(depends.names), "iteration": depends.iteration},
        partitionPolicy=_partition(group.partition),
        policies=[_policy(p) for p in group.policies],
        template=_template(group.template),
    )


def _policy(policy: Policy) -> Written:
    timeout = None if policy.timeout_s is None else f"{policy.timeout_s!r}s"
    return {"action": policy.action} | _kept(
        events=list(policy.events), exitCode=policy.exit_code, timeout=timeout
    )


def _partition(partition: Partition | None) -> Written | None:
    if partition is None:
        return None
    return {
        "totalPartitions": partition.total,
        "partitionSize": partition.size,
        "minPartitions": partition.minimum,
    } | _kept(networkTopology=_topology(partition.topology))


def _topology(topology: NetworkTopology | None) -> Written | None:
    if topology is None:
        return None
    return {"mode": topology.mode} | _kept(
        highestTierAllowed=topology.highest_tier, highestTierName=topology.highest_tier_name
    )


def _template(template: Template) -> Written:
    spec = _kept(
        restartPolicy=template.restart,
        terminationGracePeriodSeconds=_seconds(template.grace_s),
        activeDeadlineSeconds=_seconds(template.time_limit_s),
        priorityClassName=template.priority_class,
        initContainers=[_process(p) for p in template.before],
        containers=[_process(p) for p in template.processes],
    )
    metadata = _kept(labels=dict(template.labels), annotations=dict(template.annotations))
    return _kept(metadata=metadata) | {"spec": dict(template.placement) | spec}


def _process(process: Process) -> Written:
    return _kept(
        name=process.name,
        command=list(process.command),
        args=list(process.args),
        image=process.image,
        workingDir=process.working_dir,
        env=[{"name": k, "value": v} for k, v in process.env],
        ports=[_kept(containerPort=p.number, name=p.name) for p in process.ports],
        resources=_kept(requests=dict(process.requests), limits=dict(process.limits)),
    )


def _cron(cron: CronSpec) -> Written:
    return _kept(
        schedule=cron.schedule,
        timeZone=cron.time_zone,
        concurrencyPolicy=cron.concurrency,
        startingDeadlineSeconds=_seconds(cron.starting_deadline_s),
        suspend=cron.suspend,
        successfulJobsHistoryLimit=cron.keep_successful,
        failedJobsHistoryLimit=cron.keep_failed,
        jobTemplate=_job_template(cron.job) if cron.job.groups else None,
    )


def _job_template(job: JobSpec) -> Written:
    metadata = _kept(labels=dict(job.labels), annotations=dict(job.annotations))
    return _kept(metadata=metadata, spec=_job(job))


def _step(step: Step) -> Written:
    probe: dict[str, list[Written]] = {}
    for p in step.probes:
        probe.setdefault(f"{p.kind}List", []).append(_probe(p))
    depends = _kept(targets=list(step.targets), probe=probe)
    patch = {"jobSpec": step.patch} if step.patch else {}
    return {"name": step.name} | _kept(dependsOn=depends, patch=patch)


def _probe(probe: Probe) -> Written:
    port = probe.port or None
    return _kept(taskName=probe.group, phase=probe.phase, port=port, path=probe.path)


def _queue(queue: QueueSpec) -> Written:
    guarantee = dict(queue.guarantee)
    return _kept(
        weight=queue.weight,
        priority=queue.priority,
        reclaimable=queue.reclaimable,
        parent=queue.parent,
        capability=dict(queue.capability),
        deserved=dict(queue.deserved),
        guarantee={"resource": guarantee} if guarantee else {},
        defaultTime=_length(queue.default_time_s),
        maxTime=_length(queue.max_time_s),
        affinity=_affinity(queue.affinity),
    )


def _affinity(affinity: GroupAffinity | None) -> Mapping[str, Any] | None:
    if affinity is None:
        return None
    suffix = "DuringSchedulingIgnoredDuringExecution"
    both = {
        "nodeGroupAffinity": (affinity.required, affinity.preferred),
        "nodeGroupAntiAffinity": (affinity.anti_required, affinity.anti_preferred),
    }
    return {
        key: {f"required{suffix}": list(must), f"preferred{suffix}": list(may)}
        for key, (must, may) in both.items()
    }


def _podgroup(group: PodGroupSpec) -> Written:
    return _kept(
        queue=group.queue,
        minMember=group.min_member,
        minTaskMember=dict(group.min_task_member),
        minResources=None if group.min_resources is None else dict(group.min_resources),
        priorityClassName=group.priority_class,
        networkTopology=_topology(group.topology),
        subGroupPolicy=[_subgroup(s) for s in group.subgroups],
    )


def _subgroup(policy: SubgroupPolicy) -> Written:
    return _kept(
        name=policy.name,
        subGroupSize=policy.size,
        minSubGroups=policy.minimum,
        matchLabelKeys=list(policy.match_label_keys),
        networkTopology=_topology(policy.topology),
    )


def _selector(member: Member) -> Written:
    if member.exact:
        return {"exactMatch": {"name": member.exact}}
    if member.pattern:
        return {"regexMatch": {"pattern": member.pattern}}
    return {"labelMatch": {"matchLabels": dict(member.labels)}}
