"""The plugin predicates: kube-scheduler's filters for slots, labels, taints, ports and neighbours.

Source: Volcano's predicates plugin. Evictions may help on a node without a free slot, with a port
in use, or with a neighbour that keeps the task away. They cannot help on a node without the
required labels, or with taints that the task does not tolerate. Volcano's quirk, off with compat
"none": trial evictions change affinity only while `preemptable` or `allocatable` is switched on for
this plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle.accepted import FLAG, FOREIGN, Accepted
from phalanx.scheduler.cycle.amounts import PODS, Flags
from phalanx.scheduler.cycle.arguments import Arguments, flag
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.matching import tolerates
from phalanx.scheduler.cycle.rows import ALWAYS, NEVER, Ask, Filter, Rows, never, touched
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Match, NodeSpec, Taint
from phalanx.scheduler.plugin_parts.neighbours import Neighbours

_HARD = ("NoSchedule", "NoExecute")


class Predicates:
    """The plugin predicates. Arguments: `predicate.<Name>Enable` (true) for NodeAffinity,
    NodePorts, TaintToleration, PodAffinity and PodTopologySpread. Volumes are unknown here.
    `predicate.CacheEnable` has no effect: answers are always kept for each class.
    """

    name = "predicates"
    accepts: ClassVar[Accepted] = {
        "predicate.NodeAffinityEnable": FLAG,
        "predicate.NodePortsEnable": FLAG,
        "predicate.TaintTolerationEnable": FLAG,
        "predicate.PodAffinityEnable": FLAG,
        "predicate.PodTopologySpreadEnable": FLAG,
        "predicate.CacheEnable": FLAG,
        "predicate.NodeVolumeLimitsEnable": FOREIGN,
        "predicate.VolumeZoneEnable": FOREIGN,
        "predicate.VolumeBindingEnable": FOREIGN,
    }

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def _on(self, name: str) -> bool:
        return flag(self._arguments, f"predicate.{name}Enable", True)

    def open(self, session: Session) -> None:
        cluster = session.cluster
        hard = cluster.described("hard taints", _hard_taints)
        tainted = any(hard)
        shut = cluster.described("unschedulable", _unschedulable)

        def slots(rows: Rows, _: Ask) -> Flags:
            return rows.seats() < rows.capacity(PODS)

        def schedulable(rows: Rows, _: Ask) -> Flags:
            return ~shut[rows.index]

        def labelled(rows: Rows, ask: Ask) -> Flags:
            shape = ask.eq_class.shape
            any_of = shape.affinity.node_required if shape.affinity else ()
            if not shape.selector and not any_of:
                return np.ones(len(rows), dtype=np.bool_)
            good = np.ones(len(cluster.nodes), dtype=np.bool_)
            for key, value in shape.selector:
                good &= cluster.labelled(Match(key=key, op="In", values=(value,)))
            if any_of:
                some = np.zeros(len(cluster.nodes), dtype=np.bool_)
                for matches in any_of:
                    some |= cluster.labelled(*matches)
                good &= some
            return good[rows.index]

        def tolerated(rows: Rows, ask: Ask) -> Flags:
            if not tainted:
                return np.ones(len(rows), dtype=np.bool_)
            given = ask.eq_class.shape.tolerations
            good = [all(tolerates(given, t) for t in hard[n]) for n in rows.index]
            return np.array(good, dtype=np.bool_)

        is_victim_aware = session.is_on(self.name, "preemptable") or session.is_on(
            self.name, "allocatable"
        )
        unaware = not (is_victim_aware or session.hooks.strict)

        def add(
            reason: str,
            passes: Callable[[Rows, Ask], Flags],
            changes: Callable[[EquivalenceClass], int],
            curable: bool = False,
            frozen: bool = False,
            lasting: bool = False,
        ) -> None:
            rule = Filter(
                reason=reason,
                passes=passes,
                changes=changes,
                curable=curable,
                frozen=frozen,
                lasting=lasting,
            )
            session.add("filter", self.name, rule)

        add("slots", slots, touched, curable=True, lasting=True)
        if shut.any():
            add("unschedulable", schedulable, never, lasting=True)
        if self._on("NodeAffinity"):
            add("labels", labelled, never, lasting=True)
        if self._on("TaintToleration") and tainted:
            add("taints", tolerated, never, lasting=True)
        neighbours = Neighbours(session)
        if self._on("NodePorts") and any(k.shape.ports for k in cluster.eq_classes):
            add(
                "ports",
                neighbours.ports_free,
                lambda k: ALWAYS if k.shape.ports else NEVER,
                curable=True,
            )
        if self._on("PodAffinity") and neighbours.any_required:
            changes = neighbours.required_changes
            add("pod-affinity", neighbours.near, changes, frozen=unaware)
            add("pod-anti-affinity", neighbours.apart, changes, curable=True, frozen=unaware)
        if self._on("PodTopologySpread") and any(k.shape.spread for k in cluster.eq_classes):
            add("spread-label", neighbours.spread_labelled, never)
            add("spread", neighbours.spread_within, neighbours.spread_changes, curable=True)


def _hard_taints(nodes: Sequence[NodeSpec]) -> list[list[Taint]]:
    return [[t for t in n.taints if t.effect in _HARD] for n in nodes]


def _unschedulable(nodes: Sequence[NodeSpec]) -> Flags:
    return np.array([n.unschedulable for n in nodes], dtype=np.bool_)
