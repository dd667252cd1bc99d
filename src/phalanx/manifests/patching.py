"""The jobs of a flow's steps. Each job is a template with the changes that its step gives."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.manifests.reading import Manifest, read_checked
from phalanx.manifests.writing import as_data
from phalanx.model.jobs.spec import FlowSpec, JobSpec, Step


def job_name(flow: FlowSpec, step: str) -> str:
    """Return the name of a step's job."""
    return f"{flow.name}-{step}"


def step_job(flow: FlowSpec, step: Step, template: JobSpec) -> JobSpec:
    """Return the job of a step, made from the step's template.

    Mappings of the patch are merged into the template's mappings, and tasks are merged by their
    names. All other values are replaced. Raises ManifestError.
    """
    name = job_name(flow, step.name)
    kept = msgspec.structs.replace(template, name=name, namespace=flow.namespace)
    data = as_data(Manifest(kind="Job", name=name, namespace=flow.namespace, spec=kept))
    data["spec"] = _merged(_without_defaults(data["spec"]), step.patch)
    ((manifest,), _) = read_checked(msgspec.json.encode(data))
    assert isinstance(manifest.spec, JobSpec)
    return manifest.spec


def _without_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec without the minimums that were derived from other fields: the step may change
    those fields, and the minimums must then be derived again.
    """
    tasks = spec.get("tasks", [])
    if spec.get("minAvailable") == sum(t.get("minAvailable", 0) for t in tasks):
        spec = {k: v for k, v in spec.items() if k != "minAvailable"}
    follows = [t.get("minAvailable") == t.get("replicas") for t in tasks]
    kept = [
        {k: v for k, v in t.items() if k != "minAvailable" or not f}
        for t, f in zip(tasks, follows, strict=True)
    ]
    return spec | {"tasks": kept}


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: _merged(old.get(key), value) for key, value in new.items()}
    if _are_named(old) and _are_named(new):
        changes = {item["name"]: item for item in new}
        kept = [_merged(item, changes.pop(item["name"], {})) for item in old]
        return kept + list(changes.values())
    return new


def _are_named(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in value)
    )
