"""Queue and PodGroup manifests, read as the scheduler's specs."""

from __future__ import annotations

from phalanx.manifests.fields import Fields
from phalanx.manifests.names import subdomain_fault
from phalanx.manifests.quantities import BATCH
from phalanx.manifests.timing import read_length_field
from phalanx.manifests.topology import read_topology
from phalanx.model.jobs.spec import DEFAULT_QUEUE, Pairs
from phalanx.scheduler.cycle.specs import GroupAffinity, PodGroupSpec, QueueSpec, SubgroupPolicy

HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"


def read_queue(at: Fields, name: str, annotations: Pairs, state: str) -> QueueSpec:
    """Return the queue in a manifest.

    `state` comes from the manifest's status; "" for a manifest without a status. A hierarchy that
    does not begin at root is put below root, as in Volcano.
    """
    marks = dict(annotations)
    path = at.text("hierarchy_path") or marks.get(HIERARCHY, "")
    weights = at.text("hierarchy_weights") or marks.get(WEIGHTS, "")
    if path and weights and path.split("/")[0] != "root":
        path, weights = f"root/{path}", f"1/{weights}"
    guarantee = at.fields("guarantee")
    nested = "resource" in guarantee.known
    queue = QueueSpec(
        name=name,
        weight=at.whole("weight", 1),
        priority=at.whole("priority"),
        state=at.text("state") or state,
        capability=at.amounts("capability", BATCH),
        deserved=at.amounts("deserved", BATCH),
        guarantee=(guarantee if nested else at).amounts(
            "resource" if nested else "guarantee", BATCH
        ),
        reclaimable=at.flag("reclaimable", True),
        parent=at.text("parent"),
        hierarchy_path=path,
        hierarchy_weights=weights,
        affinity=_affinity(at),
        default_time_s=read_length_field(at, "defaultTime"),
        max_time_s=read_length_field(at, "maxTime"),
        annotations=tuple(a for a in annotations if a[0] not in (HIERARCHY, WEIGHTS)),
    )
    if nested:
        guarantee.warn_unknown()
    for key in ("extendClusters", "dequeueStrategy", "type"):
        at.unused(key, f"nothing here reads {key}")
    at.warn_unknown()
    return queue


def _affinity(at: Fields) -> GroupAffinity | None:
    if not at.has("affinity"):
        at.raw("affinity")
        return None
    inner = at.fields("affinity")
    near, apart = inner.fields("nodeGroupAffinity"), inner.fields("nodeGroupAntiAffinity")
    must, may = "requiredDuringSchedulingIgnoredDuringExecution", "preferred" + _SUFFIX
    affinity = GroupAffinity(
        required=near.texts(must) + near.texts("required"),
        preferred=near.texts(may) + near.texts("preferred"),
        anti_required=apart.texts(must) + apart.texts("required"),
        anti_preferred=apart.texts(may) + apart.texts("preferred"),
    )
    for fields in (near, apart, inner):
        fields.warn_unknown()
    return affinity


_SUFFIX = "DuringSchedulingIgnoredDuringExecution"


def read_podgroup(at: Fields, name: str, namespace: str, annotations: Pairs) -> PodGroupSpec:
    """Return the PodGroup in a manifest: a gang whose tasks are in other manifests."""
    minimums = at.fields("minTaskMember")
    group = PodGroupSpec(
        name=name,
        namespace=namespace,
        queue=at.text("queue") or DEFAULT_QUEUE,
        min_member=at.whole("minMember"),
        min_task_member=tuple(sorted((k, minimums.whole(k)) for k in minimums.known)),
        min_resources=at.amounts("minResources", BATCH) if at.has("minResources") else None,
        priority_class=at.text("priorityClassName"),
        topology=read_topology(at),
        subgroups=tuple(_subgroup(item) for item in at.items("subGroupPolicy")),
        annotations=annotations,
    )
    if group.min_member < 0:
        reason = f"minMember must be 0 or more, not {group.min_member}"
        at.error("minMember", "min_member_negative", reason)
    for role, minimum in group.min_task_member:
        if minimum < 0:
            reason = f"the minimum of {role} must be 0 or more, not {minimum}"
            minimums.error(role, "min_member_negative", reason)
    at.warn_unknown()
    return group


def _subgroup(at: Fields) -> SubgroupPolicy:
    name = at.text("name")
    if (fault := subdomain_fault(name)) is not None:
        at.error("name", "subgroup_name_invalid", fault)
    size, minimum = at.optional_whole("subGroupSize"), at.whole("minSubGroups")
    if size is not None and size < 1:
        at.error("subGroupSize", "subgroup_size_invalid", f"a size must be 1 or more, not {size}")
    if minimum < 0:
        reason = f"minSubGroups must be 0 or more, not {minimum}"
        at.error("minSubGroups", "subgroup_size_invalid", reason)
    at.unused("labelSelector", "all tasks of the podgroup are cut by matchLabelKeys")
    policy = SubgroupPolicy(
        name=name,
        match_label_keys=at.texts("matchLabelKeys"),
        size=size,
        minimum=minimum,
        topology=read_topology(at),
    )
    at.warn_unknown()
    return policy
