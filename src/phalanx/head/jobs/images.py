"""On submission of a job, decides whether nodes can run the job's images, and which nodes may run
it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from phalanx.errors import JobCommandError
from phalanx.model.environments import IMAGE, TOOL_LABEL
from phalanx.model.jobs.spec import JobSpec, Process, Template

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_HAS_TOOL = {"key": TOOL_LABEL, "operator": "Exists"}


def with_images(spec: JobSpec, tools: Collection[str]) -> JobSpec:
    """Return the job, changed so that it can use its container images in this cluster.

    If the whole job has an image, its members may run only on nodes with a tool for containers.
    Raises JobCommandError if no node has one. Images of single processes are dropped if no node has
    a tool, because manifests of Kubernetes always name images. `tools`: the tools for containers on
    the nodes of the cluster.
    """
    environment = spec.environment
    if environment is not None and environment.tool == IMAGE:
        if not tools:
            raise JobCommandError(
                f"no node can run the image {environment.named}: none has podman, apptainer, "
                "enroot or docker (`phalanx nodes` shows a node's tool as the label "
                f"{TOOL_LABEL})"
            )
        return _changed(spec, _requiring_tool)
    if spec.has_images and not tools:
        return _changed(spec, _without_images)
    return spec


def _changed(spec: JobSpec, change: Any) -> JobSpec:
    groups = tuple(
        msgspec.structs.replace(group, template=change(group.template)) for group in spec.groups
    )
    return msgspec.structs.replace(spec, groups=groups)


def _without_images(template: Template) -> Template:
    def plain(processes: tuple[Process, ...]) -> tuple[Process, ...]:
        return tuple(msgspec.structs.replace(one, image="") for one in processes)

    return msgspec.structs.replace(
        template, before=plain(template.before), processes=plain(template.processes)
    )


def _requiring_tool(template: Template) -> Template:
    placement = dict(template.placement)
    affinity = _mapping(placement.get("affinity"))
    of_nodes = _mapping(affinity.get("nodeAffinity"))
    required = _mapping(of_nodes.get(_REQUIRED))
    terms = [_mapping(term) for term in required.get("nodeSelectorTerms") or [{}]]
    for term in terms:
        given = [one for one in term.get("matchExpressions") or () if one != _HAS_TOOL]
        term["matchExpressions"] = [*given, _HAS_TOOL]
    of_nodes[_REQUIRED] = required | {"nodeSelectorTerms": terms}
    placement["affinity"] = affinity | {"nodeAffinity": of_nodes}
    return msgspec.structs.replace(template, placement=placement)


def _mapping(value: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(value or {})
