"""Tables of manifests that are accepted or refused, and a function that runs one case of such a
table.

The fields of a case: an `object` (job, queue, podgroup, cronjob, hypernode, jobflow, pod, graph or
job_task_graph), an `operation`, the `existing_queues`, the `spec` together with the name (templates
may be left out), perhaps an `old_spec`, and what to `expect`. This is accept, or reject with a
`reason_code` or with `reason_codes_all`.
"""

from __future__ import annotations

from typing import Any

import yaml

from phalanx.manifests.check import check_manifests
from phalanx.manifests.findings import Report
from phalanx.manifests.known_queues import read_known_queues

KINDS = {
    "job": ("Job", "batch.volcano.sh/v1alpha1"),
    "job_task_graph": ("Job", "batch.volcano.sh/v1alpha1"),
    "queue": ("Queue", "scheduling.volcano.sh/v1beta1"),
    "podgroup": ("PodGroup", "scheduling.volcano.sh/v1beta1"),
    "cronjob": ("CronJob", "batch.volcano.sh/v1alpha1"),
    "hypernode": ("HyperNode", "topology.volcano.sh/v1alpha1"),
    "jobflow": ("JobFlow", "flow.volcano.sh/v1alpha1"),
    "graph": ("JobFlow", "flow.volcano.sh/v1alpha1"),
    "pod": ("Pod", "v1"),
}


def manifest(kind: str, spec: dict[str, Any]) -> str:
    """Return the manifest that has the spec of a case."""
    spec = dict(spec)
    name, version = KINDS[kind]
    metadata = {"name": spec.pop("name", "case")}
    if kind == "graph":
        steps = spec.pop("depends_on").items()
        spec = {"flows": [{"name": k, "dependsOn": {"targets": v}} for k, v in steps]}
    if kind in ("queue", "pod") and "annotations" in spec:
        metadata["annotations"] = spec.pop("annotations")
    body = {"apiVersion": version, "kind": name, "metadata": metadata, "spec": spec}
    return yaml.safe_dump(body, sort_keys=False)


def run(case: dict[str, Any]) -> Report:
    """Return what the checks find in one case."""
    queues = None
    if "existing_queues" in case:
        queues = read_known_queues(yaml.safe_dump(case["existing_queues"]))
    old = manifest(case["object"], case["old_spec"]) if "old_spec" in case else None
    text = manifest(case["object"], case["spec"])
    return check_manifests(text, queues=queues, old=old, operation=case["operation"])[1]


def differences(case: dict[str, Any]) -> list[str]:
    """Return how the findings differ from what the case expects; empty if they do not."""
    report = run(case)
    codes = {f.code for f in report.errors}
    if case["expect"] == "accept":
        return [] if report.ok else [f"refused: {[str(f) for f in report.errors]}"]
    wanted = set(case.get("reason_codes_all", [case["reason_code"]]))
    return [] if wanted <= codes else [f"expected {sorted(wanted)}, found {sorted(codes)}"]
