"""The reading of manifest files: the supported kinds, and the type of record for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from phalanx.manifests.document import Text
from phalanx.manifests.fields import Fields
from phalanx.manifests.findings import Finding, ManifestError, Report
from phalanx.manifests.flows import read_cron, read_flow
from phalanx.manifests.hypernodes import HyperNode, read_hypernode
from phalanx.manifests.jobs import read_job, read_pod_job
from phalanx.manifests.names import CLUSTER_WIDE, label_fault, qualified_fault, subdomain_fault
from phalanx.manifests.pods import check_budgets
from phalanx.manifests.queues import read_podgroup, read_queue
from phalanx.manifests.reservations import read_reservation
from phalanx.manifests.text import load
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec, Pairs, PriorityClass
from phalanx.model.reservations import Reservation
from phalanx.scheduler.cycle.specs import PodGroupSpec, QueueSpec

GROUPS = {
    "Job": ("batch.volcano.sh/",),
    "CronJob": ("batch.volcano.sh/",),
    "JobFlow": ("flow.volcano.sh/", "batch.volcano.sh/"),
    "JobTemplate": ("flow.volcano.sh/", "batch.volcano.sh/"),
    "Queue": ("scheduling.volcano.sh/", "scheduling.incubator.k8s.io/"),
    "PodGroup": ("scheduling.volcano.sh/", "scheduling.incubator.k8s.io/"),
    "HyperNode": ("topology.volcano.sh/",),
    "PriorityClass": ("scheduling.k8s.io/",),
    "Reservation": ("phalanx/",),
    "Pod": ("v1",),
}
"""The supported kinds, with their apiVersions."""

Spec = (
    JobSpec
    | QueueSpec
    | PodGroupSpec
    | FlowSpec
    | CronSpec
    | HyperNode
    | PriorityClass
    | Reservation
)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One object that a manifest file describes, such as a job or a queue."""

    kind: str
    name: str
    namespace: str = ""
    spec: Spec | None = None
    fields: Any = None
    """The fields from which the object was read. Some rules need more than the finished object."""

    @property
    def object(self) -> str:
        return f"{self.kind}/{self.name}"


def read_manifests(text: str | bytes, file: str = "") -> tuple[list[Manifest], Report]:
    """Return all objects of a file, with defaults filled in, and the findings.

    The function never raises: a file that cannot be read at all gives one error and no objects.
    """
    report = Report()
    manifests: list[Manifest] = []
    try:
        documents = load(text, file)
    except ManifestError as e:
        report.errors += e.findings
        return manifests, report
    for document in documents:
        for at in _objects(document, report):
            inner = Report()
            at.report = inner
            manifest = read_object(at)
            _collect(report, inner, manifest)
            if manifest is not None:
                manifests.append(manifest)
    if not manifests and report.ok:
        report.error("", "nothing_here", f"this file has no object of {', '.join(GROUPS)}")
    return manifests, report


def read_checked(text: str | bytes, file: str = "") -> tuple[list[Manifest], list[Finding]]:
    """Return the objects of a file and the warnings about them. Raises ManifestError for any
    error.
    """
    manifests, report = read_manifests(text, file)
    if not report.ok:
        raise ManifestError(report.errors, file)
    return manifests, report.warnings


def object_errors(data: dict[str, Any]) -> list[Finding]:
    """Return the errors of one object, given as plain mappings and lists."""
    report = Report()
    read_object(Fields(Text(data, None), (), data, report))
    return report.errors


def _collect(report: Report, inner: Report, manifest: Manifest | None) -> None:
    name = "" if manifest is None else manifest.object
    report.errors += [msgspec.structs.replace(f, object=name) for f in inner.errors]
    report.warnings += [msgspec.structs.replace(f, object=name) for f in inner.warnings]


def _objects(document: Text, report: Report) -> Iterable[Fields]:
    top = Fields(document, (), document.value, report)
    if top.known.get("kind") == "List" or (top.has("items") and not top.has("kind")):
        return top.items("items")
    return [top] if isinstance(document.value, dict) else []


def read_object(at: Fields) -> Manifest | None:
    """Return one object; None for an unsupported kind.

    Errors go to the report of the fields.
    """
    kind, version = at.text("kind"), at.text("apiVersion")
    if not kind:
        at.error("kind", "kind_missing", f"an object needs a kind: one of {', '.join(GROUPS)}")
        return None
    if kind not in GROUPS:
        reason = f"unsupported kind {kind}; supported: {', '.join(GROUPS)}"
        at.warn("kind", "no_meaning_here", reason)
        return None
    if not version:
        at.warn("", "no_api_version", f"apiVersion is missing; {GROUPS[kind][0]}... is assumed")
    elif not version.startswith(GROUPS[kind]):
        reason = f"{kind} of {version} is another kind of object; Volcano's is {GROUPS[kind][0]}..."
        at.error("apiVersion", "wrong_api_version", reason)
        return None
    metadata = at.fields("metadata")
    name, namespace = _names(at, metadata, kind)
    head = _Head(
        at=at,
        metadata=metadata,
        name=name,
        namespace=namespace,
        labels=metadata.pairs("labels"),
        annotations=metadata.pairs("annotations"),
    )
    spec = _READERS[kind](head)
    for key in _FILLED_IN:
        metadata.raw(key)
    at.raw("status")
    metadata.warn_unknown()
    at.warn_unknown()
    return Manifest(kind=kind, name=name, namespace=namespace, spec=spec, fields=at)


_FILLED_IN = (
    "creationTimestamp", "generation", "resourceVersion", "uid", "managedFields", "selfLink",
    "ownerReferences", "finalizers",
)  # fmt: skip
"""Fields of the metadata that a cluster fills in. Exported objects contain them."""


def _names(at: Fields, metadata: Fields, kind: str) -> tuple[str, str]:
    name = metadata.text("name")
    given = at.known.get("spec")
    if not name and isinstance(given, dict) and isinstance(given.get("name"), str):
        name = given["name"]
        at.warn(("spec", "name"), "name_in_spec", "the name belongs in metadata.name")
    if not name and metadata.text("generateName"):
        reason = "write a name: names are not generated here"
        metadata.error("generateName", "name_missing", reason)
    elif not name:
        metadata.error("name", "name_missing", "an object needs a name under metadata.name")
    else:
        fault = subdomain_fault(name) if kind in CLUSTER_WIDE else qualified_fault(name)
        if fault is not None and not (kind == "CronJob" and len(name) > 63):
            metadata.error("name", "name_invalid", fault)
    namespace = metadata.text("namespace") or "default"
    if kind in CLUSTER_WIDE:
        return name, ""
    if (fault := label_fault(namespace)) is not None:
        metadata.error("namespace", "namespace_invalid", f"a namespace's name: {fault}")
    return name, namespace


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The name and metadata of an object whose spec has not been read yet."""

    at: Fields
    metadata: Fields
    name: str
    namespace: str
    labels: Pairs
    annotations: Pairs

    @property
    def spec(self) -> Fields:
        spec = self.at.fields("spec")
        spec.raw("name")  # already reported for objects that have no other name
        return spec


def _job(head: _Head) -> JobSpec:
    return read_job(head.spec, head.name, head.namespace, head.labels, head.annotations)


def _cron(head: _Head) -> CronSpec:
    return read_cron(head.spec, head.name, head.namespace)


def _flow(head: _Head) -> FlowSpec:
    return read_flow(head.spec, head.name, head.namespace)


def _queue(head: _Head) -> QueueSpec:
    state = head.at.fields("status").text("state")
    return read_queue(head.spec, head.name, head.annotations, state)


def _podgroup(head: _Head) -> PodGroupSpec:
    return read_podgroup(head.spec, head.name, head.namespace, head.annotations)


def _hypernode(head: _Head) -> HyperNode:
    return read_hypernode(head.spec, head.name)


def _priority(head: _Head) -> PriorityClass:
    at = head.at
    at.text("description")
    policy = at.choice(
        "preemptionPolicy", ("PreemptLowerPriority", "Never"), "PreemptLowerPriority"
    )
    return PriorityClass(
        name=head.name,
        value=at.whole("value"),
        is_default=at.flag("globalDefault"),
        preemption_policy=policy,
    )


def _pod(head: _Head) -> JobSpec:
    check_budgets(head.metadata, head.annotations)
    return read_pod_job(head.spec, head.name, head.namespace, head.labels, head.annotations)


_READERS: dict[str, Callable[[_Head], Spec | None]] = {
    "Job": _job,
    "JobTemplate": _job,
    "CronJob": _cron,
    "JobFlow": _flow,
    "Queue": _queue,
    "PodGroup": _podgroup,
    "HyperNode": _hypernode,
    "PriorityClass": _priority,
    "Reservation": lambda head: read_reservation(head.spec, head.name),
    "Pod": _pod,
}
