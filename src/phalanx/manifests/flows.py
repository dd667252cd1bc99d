"""The reading of JobFlow and CronJob manifests."""

from __future__ import annotations

from phalanx.manifests.cron import parse_schedule, zone_of
from phalanx.manifests.fields import Fields
from phalanx.manifests.findings import Report
from phalanx.manifests.graphs import find_cycle
from phalanx.manifests.jobs import read_job
from phalanx.manifests.names import qualified_fault
from phalanx.model.jobs.spec import CronSpec, FlowSpec, Probe, Step

MAX_CRON_NAME = 52
"""The largest number of characters of a cron job's name. The names of its jobs have eleven more for
the time, and may have 63.
"""


def read_flow(at: Fields, name: str, namespace: str) -> FlowSpec:
    """Return the flow in a manifest. The flow looks up its templates only when it runs."""
    steps: dict[str, Step] = {}
    for i, item in enumerate(at.items("flows")):
        step = _step(item)
        if step.name in steps:
            reason = f"step {step.name!r} is given twice, and runs once: the first is used"
            at.warn(("flows", i, "name"), "duplicate_flow_name", reason)
        steps.setdefault(step.name, step)
    if not steps:
        at.error("flows", "no_flows", "a flow needs at least one step")
    for i, step in enumerate(steps.values()):
        for target in step.targets:
            if target not in steps:
                reason = f"{target!r} is not a step of this flow; its steps: {', '.join(steps)}"
                at.error(("flows", i, "dependsOn", "targets"), "flow_target_unknown", reason)
    ring = find_cycle({name: step.targets for name, step in steps.items()})
    if ring:
        reason = f"steps wait for each other in a cycle: {' -> '.join(ring)}"
        at.error("flows", "flow_not_dag", reason)
    retain = at.choice("jobRetainPolicy", ("retain", "delete"), "retain")
    at.warn_unknown()
    return FlowSpec(
        name=name,
        namespace=namespace,
        steps=tuple(steps.values()),
        retain="delete" if retain == "delete" else "retain",
    )


def _step(at: Fields) -> Step:
    name = at.text("name")
    if not name:
        at.error("name", "flow_name_missing", "a step must name the JobTemplate that it runs")
    elif (fault := qualified_fault(name)) is not None:
        at.error("name", "flow_name_invalid", fault)
    depends = at.fields("dependsOn")
    targets = depends.texts("targets")
    probe = depends.fields("probe")
    patch = at.fields("patch")
    changes = patch.fields("jobSpec" if patch.has("jobSpec") else "spec")
    step = Step(name=name, targets=targets, probes=_probes(probe), patch=dict(changes.known))
    for fields in (probe, depends, patch, at):
        fields.warn_unknown()
    return step


def _probes(at: Fields) -> tuple[Probe, ...]:
    probes = []
    for item in at.items("taskStatusList" if at.has("taskStatusList") else "taskStatus"):
        group, phase = item.text("taskName"), item.text("phase")
        probes.append(Probe(kind="taskStatus", group=group, phase=phase))
        item.warn_unknown()
    for item in at.items("tcpSocketList" if at.has("tcpSocketList") else "tcpSocket"):
        probes.append(Probe(kind="tcpSocket", group=item.text("taskName"), port=_port(item)))
        item.warn_unknown()
    for item in at.items("httpGetList" if at.has("httpGetList") else "httpGet"):
        group, path = item.text("taskName"), item.text("path")
        item.unused("httpHeader", "probes send no headers of their own")
        probes.append(Probe(kind="httpGet", group=group, port=_port(item), path=path))
        item.warn_unknown()
    return tuple(probes)


def _port(at: Fields) -> int:
    port = at.whole("port")
    if not 0 < port <= 65_535:
        at.error("port", "port_invalid", f"a port must be 1 to 65535, not {port}")
    return port


def read_cron(at: Fields, name: str, namespace: str) -> CronSpec:
    """Return the cron job in a manifest: its schedule and the job that it submits."""
    schedule, zone = at.text("schedule"), at.text("timeZone")
    _check_schedule(at, schedule)
    try:
        zone_of(zone)
        if at.known.get("timeZone") == "":
            raise ValueError("leave timeZone out, or name a zone like Europe/Berlin")
    except ValueError as e:
        at.error("timeZone", "timezone_unknown", str(e))
    if len(name) > MAX_CRON_NAME:
        reason = f"a CronJob's name has at most {MAX_CRON_NAME} characters, not {len(name)}: "
        at.error("", "cron_name_too_long", reason + "its jobs' names are longer by 11")
    deadline = at.optional_whole("startingDeadlineSeconds")
    if deadline is not None and deadline < 0:
        reason = f"startingDeadlineSeconds must be 0 or more, not {deadline}"
        at.error("startingDeadlineSeconds", "deadline_negative", reason)
    keep = {k: at.whole(k, d) for k, d in _KEPT.items()}
    for key, number in keep.items():
        if number < 0:
            at.error(key, "history_limit_negative", f"{key} must be 0 or more, not {number}")
    policy = at.choice("concurrencyPolicy", ("Allow", "Forbid", "Replace"), "Allow")
    template = at.fields("jobTemplate")
    metadata = template.fields("metadata")
    labels, annotations = metadata.pairs("labels"), metadata.pairs("annotations")
    if at.has("jobTemplate"):
        job = read_job(template.fields("spec"), name, namespace, labels, annotations)
    else:
        at.warn("", "no_job_template", "there is no jobTemplate: nothing would run")
        job = read_job(_empty(template), name, namespace)
    cron = CronSpec(
        name=name,
        namespace=namespace,
        schedule=schedule,
        time_zone=zone,
        concurrency="Forbid" if policy == "Forbid" else "Replace" if policy != "Allow" else "Allow",
        starting_deadline_s=None if deadline is None else float(deadline),
        suspend=at.flag("suspend"),
        keep_successful=keep["successfulJobsHistoryLimit"],
        keep_failed=keep["failedJobsHistoryLimit"],
        job=job,
    )
    for key in ("name", "namespace", "creationTimestamp"):
        metadata.raw(key)
    for fields in (metadata, template, at):
        fields.warn_unknown()
    return cron


def _check_schedule(at: Fields, schedule: str) -> None:
    if not at.has("schedule"):
        at.warn("", "no_schedule", "there is no schedule: nothing would run")
        return
    try:
        parse_schedule(schedule)
    except ValueError as e:
        code = "schedule_invalid" if schedule.strip() else "schedule_missing"
        at.error("schedule", "schedule_has_timezone" if "TZ" in schedule else code, str(e))


_KEPT = {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}


def _empty(at: Fields) -> Fields:
    """Return the fields of an empty job; its faults are not reported."""
    return Fields(at.document, at.path, {}, Report())
