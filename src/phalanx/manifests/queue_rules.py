"""Volcano's rules for creating, changing, closing and deleting queues.

A resource that a queue does not name is unlimited in its capability, and zero in its deserved
amounts and its guarantee. `root` is above all queues and has no limits here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from phalanx.manifests.findings import Fault
from phalanx.manifests.idle_rules import ANNOTATION, read_idle_rule
from phalanx.manifests.names import subdomain_fault
from phalanx.manifests.people_lists import ADMIN, SUBMIT, read_people
from phalanx.manifests.quantities import LARGEST
from phalanx.model.jobs.timing import LONGEST_S
from phalanx.model.nearest import nearest
from phalanx.model.options import LARGEST_NUMBER
from phalanx.model.readable import length_text
from phalanx.model.user_limits import ANNOTATION as LIMITS
from phalanx.model.user_limits import read_user_limits
from phalanx.scheduler.cycle.specs import Amounts, QueueSpec

ROOT = "root"
DEFAULT = "default"
MAX_DEPTH = 5
PROTECTED = (ROOT, DEFAULT)
NAMED = 10
"""The largest number of existing queues that the error for an unknown name lists."""


class KnownQueue(msgspec.Struct, frozen=True, kw_only=True):
    """An existing queue, with the number of members of jobs that hold resources in it."""

    spec: QueueSpec
    members: int = 0


class QueueTree:
    """All existing queues, by name and by parent."""

    def __init__(self, queues: Iterable[KnownQueue]) -> None:
        self.by_name: dict[str, KnownQueue] = {q.spec.name: q for q in queues}
        self._children: dict[str, list[QueueSpec]] = {}
        for name in sorted(self.by_name):
            spec = self.by_name[name].spec
            if name != ROOT:
                self._children.setdefault(spec.parent or ROOT, []).append(spec)

    def get(self, name: str) -> QueueSpec | None:
        known = self.by_name.get(name)
        return None if known is None else known.spec

    def children(self, name: str) -> list[QueueSpec]:
        """Return the children of a queue, by name."""
        return self._children.get(name, [])

    def ancestors(self, spec: QueueSpec) -> list[QueueSpec]:
        """Return the queues above this queue, from its parent upwards, without root.

        The list ends before a queue that does not exist or that is already in the list.
        """
        found: list[QueueSpec] = []
        parent = spec.parent
        while parent and parent not in (ROOT, spec.name):
            above = self.get(parent)
            if above is None or above in found:
                break
            found.append(above)
            parent = above.parent
        return found

    def descendants(self, name: str) -> list[QueueSpec]:
        """Return all queues below a queue, parents before children."""
        found: list[QueueSpec] = []
        todo = [name]
        seen = {name}
        while todo:
            for child in self.children(todo.pop(0)):
                if child.name not in seen:
                    seen.add(child.name)
                    found.append(child)
                    todo.append(child.name)
        return found


def queue_faults(
    new: QueueSpec, tree: QueueTree | None, old: QueueSpec | None = None, max_depth: int = MAX_DEPTH
) -> list[Fault]:
    """Return the reasons why the queue `new` may not be created, or why `old` may not be changed to
    it.

    Without a tree, only the queue's own fields are checked.
    """
    faults = _of_itself(new)
    if tree is None:
        return faults
    if old is None and (fault := subdomain_fault(new.name)) is not None:
        return [Fault(_NAME, "name_invalid", f"a queue's name: {fault}")]
    faults += _path_faults(new, tree)
    if new.name == ROOT:
        return faults + _root_faults(new, old)
    moved = old is None or (old.parent or ROOT) != (new.parent or ROOT)
    if moved:
        faults += _parent_faults(new, tree, max_depth)
    if old is None or moved or any(getattr(old, f) != getattr(new, f) for f in _QUOTAS):
        faults += _above(new, tree) + _below(new, tree)
    return faults


def delete_faults(name: str, tree: QueueTree) -> list[Fault]:
    """Return the reasons why a queue may not be deleted."""
    if name in PROTECTED:
        return [Fault(_NAME, "queue_protected", f"queue {name} cannot be deleted")]
    known = tree.by_name.get(name)
    if known is None:
        return [Fault(_NAME, "queue_not_found", no_queue(name, tree.by_name))]
    faults = []
    if known.members:
        reason = f"{known.members} members of jobs still hold resources in queue {name}"
        faults.append(Fault(_NAME, "has_allocated_pods", reason))
    below = [q.name for q in tree.children(name)]
    if below:
        reason = f"queue {name} has children ({', '.join(below)}); delete them first"
        faults.append(Fault(_NAME, "has_children", reason))
    return faults


def submit_faults(name: str, tree: QueueTree) -> list[Fault]:
    """Return the reasons why a queue takes no jobs. A queue takes jobs if it is open and has no
    queue below it.
    """
    known = tree.get(name)
    if name == ROOT:
        return [
            Fault(("spec", "queue"), "queue_is_root", "root takes no jobs; name a queue below it")
        ]
    if known is None:
        reason = no_queue(name, tree.by_name)
        return [Fault(("spec", "queue"), "queue_not_found", reason)]
    if known.state not in ("", "Open"):
        reason = f"queue {name} is {known.state}; only an open queue takes jobs"
        return [Fault(("spec", "queue"), "queue_not_open", reason)]
    below = [q.name for q in tree.children(name)]
    if below:
        reason = f"queue {name} has queues below it; name one of them: {', '.join(below)}"
        return [Fault(("spec", "queue"), "queue_not_leaf", reason)]
    return []


def no_queue(name: str, known: Collection[str]) -> str:
    """Return the error for an unknown queue, with the nearest name and some existing queues."""
    there = sorted(known)
    listed = ", ".join(there[:NAMED]) + (", ..." if len(there) > NAMED else "") or "none"
    return f"there is no queue {name!r}; known: {listed}{nearest(name, there)}"


_QUOTAS = ("capability", "deserved", "guarantee")


def _of_itself(q: QueueSpec) -> list[Fault]:
    faults = []
    if q.state not in ("", "Open", "Closed"):
        reason = f"a queue can be made Open or Closed, not {q.state!r}"
        faults.append(Fault(("status", "state"), "state_invalid", reason))
    if q.weight < 1:
        faults.append(
            Fault(("spec", "weight"), "weight_invalid", f"a weight must be 1 or more: {q.weight}")
        )
    for name in ("weight", "priority"):
        if abs(getattr(q, name)) > LARGEST_NUMBER:
            reason = f"a {name} must be at most {LARGEST_NUMBER}, not {getattr(q, name)}"
            faults.append(Fault(("spec", name), f"{name}_invalid", reason))
    faults += _amount_faults(q) + _time_faults(q) + _idle_faults(q) + _people_faults(q)
    cap, deserved, guarantee = (dict(getattr(q, f)) for f in _QUOTAS)
    for name, amount in guarantee.items():
        if amount > deserved.get(name, 0.0):
            reason = (
                f"guarantee of {name} is {amount:g}, deserved is {deserved.get(name, 0.0):g}: "
                "guarantee <= deserved <= capability"
            )
            path = ("spec", "guarantee", "resource", name)
            faults.append(Fault(path, "guarantee_above_deserved", reason))
    bounded: list[tuple[tuple[str, ...], Mapping[str, float]]] = [
        (("deserved",), deserved),
        (("guarantee", "resource"), guarantee),
    ]
    for below, amounts in bounded:
        for name, amount in amounts.items():
            if amount > cap.get(name, amount):
                what = below[0]
                reason = (
                    f"{what} of {name} is {amount:g}, capability is {cap[name]:g}: "
                    "guarantee <= deserved <= capability"
                )
                faults.append(Fault(("spec", *below, name), f"{what}_above_capability", reason))
    return faults


def _idle_faults(q: QueueSpec) -> list[Fault]:
    written = dict(q.annotations).get(ANNOTATION)
    if written is None:
        return []
    try:
        read_idle_rule(written)
    except ValueError as error:
        return [Fault(("metadata", "annotations", ANNOTATION), "idle_rule_invalid", str(error))]
    return []


def _people_faults(q: QueueSpec) -> list[Fault]:
    written = dict(q.annotations)
    for name in (SUBMIT, ADMIN):
        try:
            read_people(written.get(name, ""))
        except ValueError as error:
            return [Fault(("metadata", "annotations", name), "people_invalid", str(error))]
    try:
        read_user_limits(written.get(LIMITS, ""))
    except ValueError as error:
        return [Fault(("metadata", "annotations", LIMITS), "limits_invalid", str(error))]
    return []


def _time_faults(q: QueueSpec) -> list[Fault]:
    for field, length_s in (("defaultTime", q.default_time_s), ("maxTime", q.max_time_s)):
        if length_s is not None and not 0 < length_s <= LONGEST_S:
            reason = f"{field} must be more than 0 and at most {LONGEST_S:g} s, not {length_s:g}"
            return [Fault(("spec", field), "time_invalid", reason)]
    if q.default_time_s is not None and q.default_time_s > (q.max_time_s or LONGEST_S):
        reason = (
            f"defaultTime is {length_text(q.default_time_s)}, above maxTime, "
            f"{length_text(q.max_time_s or LONGEST_S)}"
        )
        return [Fault(("spec", "defaultTime"), "default_above_max_time", reason)]
    return []


def _amount_faults(q: QueueSpec) -> list[Fault]:
    faults = []
    for field in _QUOTAS:
        for name, amount in getattr(q, field):
            if not name.removeprefix("phalanx/"):
                reason = f"{field} names no resource for its {amount:g}; write an amount like GPU=2"
                faults.append(Fault(("spec", field), "resource_missing", reason))
            if not 0 <= amount <= LARGEST:
                reason = f"{field} of {name} must be an amount from 0 to 2^63, not {amount:g}"
                faults.append(Fault(("spec", field, name), "quantity_negative", reason))
    return faults


def _path_faults(q: QueueSpec, tree: QueueTree) -> list[Fault]:
    faults = path_form_faults(q)
    if faults or not q.hierarchy_path:
        return faults
    inside = q.hierarchy_path + "/"
    for name, other in sorted(tree.by_name.items()):
        if name != q.name and other.spec.hierarchy_path.startswith(inside):
            reason = (
                f"{q.hierarchy_path} is an inner node of {other.spec.hierarchy_path}, the path of "
                f"queue {name}; a queue must be a leaf of its hierarchy"
            )
            return [Fault(_PATH, "hierarchy_path_is_ancestor", reason)]
    return []


_PATH = ("metadata", "annotations", "volcano.sh/hierarchy")
_WEIGHTS = ("metadata", "annotations", "volcano.sh/hierarchy-weights")
_NAME = ("metadata", "name")


def path_form_faults(q: QueueSpec) -> list[Fault]:
    """Return the faults of a queue's hierarchy and of the weights for it.

    Both must be lists of equal length, and the weights must be above 0.
    """
    if not q.hierarchy_path and not q.hierarchy_weights:
        return []
    weights = q.hierarchy_weights.split("/")
    if len(q.hierarchy_path.split("/")) != len(weights):
        reason = (
            f"hierarchy {q.hierarchy_path!r} and hierarchy-weights {q.hierarchy_weights!r} "
            "must have one weight for each step"
        )
        return [Fault(_PATH, "hierarchy_length_mismatch", reason)]
    faults = []
    for weight in weights:
        try:
            good = 0 < float(weight) < float("inf")
        except ValueError:
            good = False
        if not good:
            reason = f"{weight!r} in {q.hierarchy_weights!r} is not a number above 0"
            faults.append(Fault(_WEIGHTS, "hierarchy_weight_invalid", reason))
    return faults


def _root_faults(new: QueueSpec, old: QueueSpec | None) -> list[Fault]:
    faults = []
    if new.state == "Closed":
        faults.append(Fault(("status", "state"), "queue_protected", "queue root cannot be closed"))
    if any(getattr(new, f) != (getattr(old, f) if old else ()) for f in _QUOTAS):
        reason = "the limits of root are those of the cluster; set limits on queues below it"
        faults.append(Fault(("spec",), "queue_protected", reason))
    return faults


def _parent_faults(q: QueueSpec, tree: QueueTree, max_depth: int) -> list[Fault]:
    if not q.parent or q.parent == ROOT:
        return []
    if q.parent == q.name:
        return [
            Fault(("spec", "parent"), "parent_is_self", f"queue {q.name} names itself as parent")
        ]
    if tree.get(q.parent) is None:
        reason = f"its parent: {no_queue(q.parent, tree.by_name)}"
        return [Fault(("spec", "parent"), "parent_not_found", reason)]
    above = tree.ancestors(q)
    if any(below.name == q.parent for below in tree.descendants(q.name)):
        reason = f"{q.parent} is below queue {q.name}: the queues would form a cycle"
        return [Fault(("spec", "parent"), "parent_is_descendant", reason)]
    if len(above) + 1 > max_depth:
        reason = (
            f"queue {q.name} would stand {len(above) + 1} levels below root; at most {max_depth} "
            "are allowed"
        )
        return [Fault(("spec", "parent"), "queue_too_deep", reason)]
    members = tree.by_name[q.parent].members
    if members and not tree.children(q.parent):
        reason = f"{q.parent} runs {members} members of jobs itself, so it cannot be a parent"
        return [Fault(("spec", "parent"), "parent_has_allocated_pods", reason)]
    return []


def _above(q: QueueSpec, tree: QueueTree) -> list[Fault]:
    """Return the faults of a queue: where its capability exceeds that of an ancestor, and where the
    queue and its siblings, added up, exceed the parent's quotas.
    """
    faults = []
    above = tree.ancestors(q)
    for name, amount in q.capability:
        limit = next(
            (dict(a.capability)[name] for a in above if dict(a.capability).get(name)), None
        )
        if limit is not None and amount > limit:
            reason = f"capability of {name} is {amount:g}, above its ancestor's {limit:g}"
            faults.append(Fault(("spec", "capability", name), "capability_above_ancestor", reason))
    if above and q.parent != q.name:
        children = [c for c in tree.children(q.parent) if c.name != q.name] + [q]
        faults += _sums(above[0], children, f"parent {above[0].name}")
    return faults


def _below(q: QueueSpec, tree: QueueTree) -> list[Fault]:
    """Return the faults of a queue: where its quotas are too small for the capabilities, deserved
    amounts and guarantees of the queues below it.
    """
    faults = []
    most: dict[str, tuple[float, str]] = {}
    for below in tree.descendants(q.name):
        for name, amount in below.capability:
            most[name] = max(most.get(name, (0.0, "")), (amount, below.name))
    for name, amount in q.capability:
        largest, who = most.get(name, (0.0, ""))
        if who and amount < largest:
            reason = f"capability of {name} is {amount:g}, but queue {who} below it has {largest:g}"
            faults.append(
                Fault(("spec", "capability", name), "capability_below_descendant", reason)
            )
    children = tree.children(q.name)
    return faults + (_sums(q, children, f"queue {q.name}") if children else [])


def _sums(parent: QueueSpec, children: list[QueueSpec], who: str) -> list[Fault]:
    faults = []
    for field, path in (("guarantee", ("guarantee", "resource")), ("deserved", ("deserved",))):
        has: Mapping[str, float] = dict(getattr(parent, field))
        for name, total in _sum(getattr(c, field) for c in children).items():
            if total > has.get(name, 0.0):
                reason = (
                    f"the children of {who} have {total:g} of {name} as {field} together, "
                    f"above its own {has.get(name, 0.0):g}"
                )
                faults.append(
                    Fault(("spec", *path, name), f"children_{field}_above_parent", reason)
                )
    return faults


def _sum(many: Iterable[Amounts]) -> dict[str, float]:
    out: dict[str, float] = {}
    for amounts in many:
        for name, amount in amounts:
            out[name] = out.get(name, 0.0) + amount
    return out
