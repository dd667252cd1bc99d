"""Refuses jobs whose members must be on different nodes if the cluster has too few nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phalanx.errors import GangInfeasibleError
from phalanx.head.gangs.feasibility import most_members
from phalanx.head.nodes.record import NodeRecord
from phalanx.manifests.shapes import shape_of
from phalanx.model.jobs.spec import JobSpec
from phalanx.scheduler.cycle.apart import NODE_KEYS, keeps_away, places_over
from phalanx.scheduler.cycle.specs import PodTerm, Shape

Part = tuple[Shape, dict[str, float], int]
"""Members of one shape: the shape, the amounts that each member requests, and how many of these
members the job needs at once.
"""


def check_apart(what: str, parts: Sequence[Part], nodes: Sequence[NodeRecord]) -> None:
    """Raise GangInfeasibleError if more of these members must be kept apart than there are nodes
    that could hold one of them, even if nothing else ran there. `nodes`: all nodes that the cluster
    has or may get.
    """
    for key, kept in _kept_apart(parts):
        needed = sum(count for _, _, count in kept)
        needs = [amounts for _, amounts, _ in kept]
        if needed <= 1 or (most := _domains(key, needs, nodes, needed)) >= needed:
            continue
        there = _domains(key, [{}], nodes, len(nodes))
        here = f"the cluster has {there}"
        if most < there:
            here += f", of which {most} could hold a member"
        raise GangInfeasibleError(
            f"{what} could never start here: it needs {needed} {places_over(key)} at once, one for "
            f"each member, and {here}."
        )


def check_job_apart(spec: JobSpec, nodes: Sequence[NodeRecord]) -> None:
    """Raise GangInfeasibleError if the cluster has too few nodes for the members that the job needs
    at once. Raises BatchFileError for an invalid placement.
    """
    tied = [
        g for g in spec.groups if g.template.placement or any(p.ports for p in g.template.processes)
    ]
    if not tied:
        return
    begun = [group for group in spec.groups if group.depends_on is None]
    if spec.min_available >= sum(group.min_available for group in begun):
        together = [[group for group in tied if group.depends_on is None]]
        together += [[group] for group in tied if group.depends_on is not None]
    else:
        together = [[group] for group in tied]
    for groups in together:
        parts = [
            (shape_of(spec, g), g.template.needs, min(g.min_available, spec.min_available))
            for g in groups
        ]
        check_apart(f"job {spec.name}", parts, nodes)


def _kept_apart(parts: Sequence[Part]) -> Iterable[tuple[str, list[Part]]]:
    """Yield, for each condition of the members, the label over whose values it spreads them and the
    members that it keeps apart from each other.
    """
    terms: list[PodTerm] = []
    for shape, _, _ in parts:
        terms += shape.affinity.pod_anti_required if shape.affinity else ()
    for term in dict.fromkeys(terms):
        kept = [one for one in parts if _is_bound(one[0], term)]
        yield term.topology_key, kept
    for port in sorted({port for shape, _, _ in parts for port in shape.ports}):
        yield NODE_KEYS[0], [one for one in parts if port in one[0].ports]


def _is_bound(shape: Shape, term: PodTerm) -> bool:
    mine = shape.affinity.pod_anti_required if shape.affinity else ()
    return term in mine and keeps_away(term, shape, shape)


def _domains(
    key: str, needs: Sequence[dict[str, float]], nodes: Sequence[NodeRecord], enough: int
) -> int:
    """Return over how many places nodes of the cluster could spread members, and at least `enough`
    if they could spread that many. A place is a node, or the nodes with one value of the label. No
    condition holds between members on nodes without the label.
    """
    found: set[str] = set()
    for node in nodes:
        if len(found) >= enough:
            break
        value = node.node_id if key in NODE_KEYS else node.labels.get(key)
        if value in found or not any(most_members([need], [node.whole]) for need in needs):
            continue
        if value is None:
            return enough
        found.add(value)
    return len(found)
