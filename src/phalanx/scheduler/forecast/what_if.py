"""What-if plans: the plan of a snapshot, compared with the plan of the same snapshot with changes.
Nothing is applied. Both plans cover the same number of podgroups, each in its own order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from phalanx.model.readable import duration
from phalanx.scheduler.cycle.plan import Moves
from phalanx.scheduler.cycle.specs import Amounts, NodeSpec, PodGroupSpec, Snapshot, TaskSpec
from phalanx.scheduler.forecast.inquiry import plan_snapshot
from phalanx.scheduler.forecast.moving import with_moves

PLANNED = 500
"""The number of waiting podgroups that each plan covers: the first ones in the order of
promises.
"""
PODS = 10_000
"""The number of tasks that fit on an added node if only its resources are stated."""
HOSTNAME = "kubernetes.io/hostname"
MOST_NODES = 10_000
"""The largest number of nodes that may be added at once."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A podgroup to add. It waits with all others."""

    podgroup: PodGroupSpec
    tasks: tuple[TaskSpec, ...]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A podgroup's start before and after the changes, in seconds from now. None means that the
    start is unknown, or that the podgroup does not exist before or after the changes.
    """

    podgroup: str
    queue: str
    before_s: float | None
    after_s: float | None
    is_new: bool = False
    """Whether the podgroup is one of the added submissions."""

    @property
    def gain_s(self) -> float | None:
        """The seconds by which the changes make the podgroup start earlier; negative if it starts
        later, and None if either start is unknown.
        """
        if self.before_s is None or self.after_s is None:
            return None
        return self.before_s - self.after_s


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The starts of all waiting podgroups, in the order of the plan after the changes."""

    starts: tuple[Start, ...]
    stopped: tuple[str, ...] = ()
    """Podgroups that now run on nodes which the changes remove."""
    moves: tuple[Moves, ...] = ()
    """Moves of running podgroups, if moves are among the changes."""


def start_words(in_s: float | None) -> str:
    """Return a start, given in seconds from now, in words."""
    if in_s is None:
        return "-"
    return "now" if in_s <= 0 else f"in {duration(in_s)}"


def change_words(one: Start, stopped: Collection[str]) -> str:
    """Return in words what the changes do to a podgroup. `stopped`: as for Comparison."""
    if one.podgroup in stopped:
        return "stopped"
    if one.is_new:
        return "new"
    if one.before_s is None:
        if one.after_s is None:
            return ""
        return "starts at all" if one.after_s else "starts"
    if one.after_s is None:
        return "does not start"
    gain = one.gain_s or 0.0
    return (
        f"{duration(abs(gain))} {'earlier' if gain > 0 else 'later'}" if abs(gain) >= 1 else "same"
    )


def compare(
    snapshot: Snapshot,
    changed: Snapshot,
    submissions: Sequence[Submission] = (),
    *,
    moves: bool = False,
) -> Comparison:
    """Return the starts in the plans of both snapshots. The submissions wait behind all other work
    of the second snapshot. With `moves`, running work is first moved in the second snapshot, as the
    action consolidate would move it.
    """
    with_new = replace(
        changed,
        podgroups=changed.podgroups + tuple(one.podgroup for one in submissions),
        tasks=changed.tasks + tuple(task for one in submissions for task in one.tasks),
    )
    made: tuple[Moves, ...] = ()
    begun: frozenset[str] = frozenset()
    if moves:
        with_new, made, begun = with_moves(with_new)
    before, after = plan_snapshot(snapshot, PLANNED), plan_snapshot(with_new, PLANNED)
    first = {one.podgroup: one.at_s - before.now for one in before.starts}
    second = dict.fromkeys(sorted(begun), 0.0) | {
        one.podgroup: one.at_s - after.now for one in after.starts
    }
    new = {one.podgroup.uid for one in submissions}
    names = dict.fromkeys(
        [*second, *after.unknown, *(name for name in first if name not in second)]
    )
    queues = {group.uid: group.queue for group in with_new.podgroups}
    return Comparison(
        starts=tuple(
            Start(
                podgroup=name,
                queue=queues.get(name, ""),
                before_s=first.get(name),
                after_s=second.get(name),
                is_new=name in new,
            )
            for name in names
        ),
        stopped=_stopped(snapshot, changed),
        moves=made,
    )


def _stopped(snapshot: Snapshot, changed: Snapshot) -> tuple[str, ...]:
    gone = {node.name for node in snapshot.nodes} - {node.name for node in changed.nodes}
    names = (f"{t.namespace}/{t.podgroup or t.name}" for t in snapshot.tasks if t.node in gone)
    return tuple(dict.fromkeys(names))


# ---- changes ---------------------------------------------------------------------------------


def with_nodes(snapshot: Snapshot, count: int, like: str) -> Snapshot:
    """Return the snapshot with `count` more empty nodes like an existing one.

    `like`: the existing node's name, the beginning of the name, or the host name. Raises ValueError
    for an unknown node and for an invalid count.
    """
    model = _nodes_called(snapshot, like)[0]
    bare = replace(model, usage=(), usage_at=None, unschedulable=False)
    own = (model.name, dict(model.labels).get(HOSTNAME))
    labels = tuple((key, value) for key, value in model.labels if value not in own)
    return _with_more(snapshot, count, replace(bare, labels=labels))


def with_nodes_of(
    snapshot: Snapshot, count: int, capacity: Amounts, labels: Mapping[str, str] | None = None
) -> Snapshot:
    """Return the snapshot with `count` more nodes of this capacity, and with these labels.

    Raises ValueError for an invalid count.
    """
    whole = dict(capacity) | {"pods": float(PODS)}
    model = NodeSpec(
        name="",
        capacity=tuple(sorted(whole.items())),
        labels=tuple(sorted((labels or {}).items())),
    )
    return _with_more(snapshot, count, model)


def _with_more(snapshot: Snapshot, count: int, model: NodeSpec) -> Snapshot:
    if not 1 <= count <= MOST_NODES:
        raise ValueError(f"1 to {MOST_NODES:,} nodes can be added, not {count:,}")
    taken = {node.name for node in snapshot.nodes}
    names = (f"new-{number}" for number in range(1, len(taken) + count + 1))
    free = [name for name in names if name not in taken][:count]
    more = tuple(replace(model, name=name) for name in free)
    return replace(snapshot, nodes=snapshot.nodes + more)


def without_nodes(snapshot: Snapshot, names: Iterable[str]) -> Snapshot:
    """Return the snapshot without these nodes.

    Podgroups with work on these nodes wait again, and start over. Raises ValueError if a name
    matches no node or several nodes.
    """
    gone = {_one_node(snapshot, name) for name in names}
    lost = {(t.namespace, t.podgroup) for t in snapshot.tasks if t.node in gone and t.podgroup}

    def again(task: TaskSpec) -> TaskSpec:
        if task.node not in gone and (task.namespace, task.podgroup) not in lost:
            return task
        if task.phase not in ("Running", "Releasing"):
            return replace(task, nominated_node="")
        return replace(task, node="", phase="Pending", started=None, nominated_node="")

    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name not in gone),
        hypernodes=tuple(
            replace(domain, nodes=tuple(name for name in domain.nodes if name not in gone))
            for domain in snapshot.hypernodes
        ),
        tasks=tuple(map(again, snapshot.tasks)),
        podgroups=tuple(
            replace(group, phase="Pending", started=None)
            if (group.namespace, group.name) in lost
            else group
            for group in snapshot.podgroups
        ),
    )


def with_weight(snapshot: Snapshot, queue: str, weight: int) -> Snapshot:
    """Return the snapshot with another weight of a queue.

    Raises ValueError for an unknown queue, and for a weight below 1.
    """
    if weight < 1:
        raise ValueError(f"the weight of a queue must be at least 1, not {weight}")
    found = next((one for one in snapshot.queues if one.name == queue), None)
    if found is None:
        raise ValueError(_not_there("queue", queue, (one.name for one in snapshot.queues)))
    changed = replace(found, weight=weight)
    return replace(
        snapshot, queues=tuple(changed if one is found else one for one in snapshot.queues)
    )


def _nodes_called(snapshot: Snapshot, name: str) -> list[NodeSpec]:
    exact = [node for node in snapshot.nodes if node.name == name]
    hosts = [node for node in snapshot.nodes if dict(node.labels).get(HOSTNAME) == name]
    begin = [node for node in snapshot.nodes if name and node.name.startswith(name)]
    found = exact or hosts or begin
    if not found:
        raise ValueError(_not_there("node", name, (node.name for node in snapshot.nodes)))
    return found


def _one_node(snapshot: Snapshot, name: str) -> str:
    found = _nodes_called(snapshot, name)
    if len(found) > 1:
        raise ValueError(f"{name!r} matches {len(found)} nodes; name one by its id")
    return found[0].name


def _not_there(what: str, name: str, known: Iterable[str]) -> str:
    some = sorted(known)
    others = f", and {len(some) - 5} more" if len(some) > 5 else ""
    return f"there is no {what} {name!r}; known: {', '.join(some[:5]) or 'none'}{others}"
