"""Counts the nodes that turn a task away, and how many such tasks the other nodes can hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phalanx.scheduler.cycle.amounts import Counts, Flags
from phalanx.scheduler.cycle.apart import apart_over, held_apart
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Ask, Rows
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Match

STATIC = frozenset({"labels", "taints", "gpu-type", "node-group", "spread-label", "cpu-only"})
"""Filters whose answer about a node does not change when work comes and goes."""
_SCARCE_LAST = ("cpu", "memory", "pods")
"""Resources that are reported as the scarcest only if no device is equally scarce."""


class NodeCounts(NamedTuple):
    """Counts of nodes for one class of tasks.

    `away`: the reasons why nodes were turned away. If no node passes the static filters, these are
    only the reasons of the static filters. `room`: the number of nodes that can take one task now.
    `most`: the number of tasks that the nodes allowed by static filters would hold in total if they
    were empty. `scarce`: the resource that leaves room for the fewest tasks; "" if nothing is
    requested.
    """

    away: tuple[Rejection, ...]
    room: int = 0
    most: int = 0
    scarce: str = ""


def count_nodes(session: Session, ask: Ask) -> NodeCounts:
    """Count the nodes that each filter alone would turn away, and the nodes that lack each
    resource.
    """
    n = len(session.cluster.nodes)
    if n == 0:
        return NodeCounts((Rejection(reason="no-nodes"),))
    turned = list(_turned_away(session, ask))
    left, allowed = np.ones(n, dtype=np.bool_), np.ones(n, dtype=np.bool_)
    for rejection, passes in turned:
        left &= passes
        if rejection.reason in STATIC:
            allowed &= passes
    if not allowed.any():
        return NodeCounts(tuple(one for one, _ in turned if one.reason in STATIC))
    lacks = _lacks(session, ask, allowed)
    short = np.zeros(n, dtype=np.bool_)
    for r in ask.eq_class.asked:
        short |= session.cluster.future[:, r] < ask.eq_class.request[r]
    room = int((left & ~short).sum())
    out = [*(one for one, _ in turned), *lacks]
    if room == 0 and not any(x.count == x.detail["of"] for x in out):
        out.append(Rejection(reason="no-single-node", count=n, detail={"of": n}))
    most, scarce = _held_at_most(session, ask, allowed, left if left.any() else allowed)
    return NodeCounts(tuple(out), room, most, scarce)


def allowed_nodes(session: Session, ask: Ask) -> Flags:
    """Return the nodes that the static filters allow."""
    n = len(session.cluster.nodes)
    allowed = np.ones(n, dtype=np.bool_)
    rows = Rows(session.cluster, np.arange(n))
    for _, f in session.hooks.named("filter") if n else ():
        if f.reason in STATIC:
            allowed &= f.passes(rows, ask)
    return allowed


def _turned_away(session: Session, ask: Ask) -> list[tuple[Rejection, Flags]]:
    """Return the rejection of each filter that turns any node away, with a mask of the nodes that
    the filter accepts.
    """
    n = len(session.cluster.nodes)
    rows = Rows(session.cluster, np.arange(n))
    out = []
    for plugin, f in session.hooks.named("filter"):
        passes = f.passes(rows, ask)
        away = int((~passes).sum())
        more = f.detail(ask) if away and f.detail is not None else {}
        if away and more is not None:
            detail: dict[str, Any] = {"of": n, **more}
            if f.reason == "labels":
                detail["labels"] = _labels(session, ask)
            out.append(
                (Rejection(reason=f.reason, count=away, detail=detail, plugin=plugin), passes)
            )
    return out


def _labels(session: Session, ask: Ask) -> str:
    """Return a text that lists the conditions on labels, each with the number of nodes that meet
    it.
    """
    shape, cluster = ask.eq_class.shape, session.cluster
    conditions = [
        (f"{key}={value}", Match(key=key, op="In", values=(value,)))
        for key, value in shape.selector
    ]
    for matches in shape.affinity.node_required if shape.affinity else ():
        conditions += [(" ".join((m.key, m.op, ",".join(m.values))).strip(), m) for m in matches]
    return ", ".join(
        f"{text} ({int(cluster.labelled(match).sum())} nodes have it)" for text, match in conditions
    )


def _lacks(session: Session, ask: Ask, allowed: Flags) -> list[Rejection]:
    """Return a rejection for each resource that allowed nodes lack. Devices come before memory and
    CPUs.
    """
    cluster = session.cluster
    found = []
    for r in ask.eq_class.asked:
        lacks = allowed & (cluster.future[:, r] < ask.eq_class.request[r])
        if lacks.any() and cluster.dims.names[r] != "pods":
            found.append(_lack(session, ask, r, lacks, allowed))
    return sorted(found, key=lambda one: scarcity(one.detail["resource"]))


def _lack(session: Session, ask: Ask, r: int, lacks: Flags, allowed: Flags) -> Rejection:
    cluster = session.cluster
    dims = cluster.dims
    asked = float(ask.eq_class.request[r])
    largest = float(cluster.capacity[allowed, r].max())
    reason, most = "resource", max(0.0, float(cluster.future[lacks, r].max()))
    if largest < asked:
        of_others = float(cluster.capacity[:, r].max()) >= asked
        reason, most = "never-fits-there" if of_others else "never-fits", largest
    return Rejection(
        reason=reason,
        count=int(lacks.sum()),
        detail={
            "resource": dims.names[r],
            "asked": dims.written(r, asked),
            "most": dims.written(r, most),
            "of": int(allowed.sum()),
        },
    )


def _held_at_most(session: Session, ask: Ask, allowed: Flags, left: Flags) -> tuple[int, str]:
    """Return how many tasks the allowed nodes would hold if they were empty, and the scarcest
    resource: the one whose free amounts leave room for the fewest tasks.
    """
    cluster = session.cluster
    asked = ask.eq_class.asked
    request = ask.eq_class.request[asked]
    empty: Counts = cluster.capacity[allowed][:, asked] // request
    free: Counts = (np.maximum(cluster.future[left][:, asked], 0) // request).sum(axis=0)
    names = [cluster.dims.names[r] for r in asked]
    fewest = sorted(
        (int(count), scarcity(name), name) for count, name in zip(free, names, strict=True)
    )
    scarce = next((name for _, _, name in fewest if name != "pods"), "")
    each = empty.min(axis=1)
    if over := apart_over(ask.eq_class):
        labels = (cluster.labels[i] for i in np.flatnonzero(allowed))
        return held_apart(over, zip(labels, map(int, each), strict=True)), scarce
    return int(each.sum()), scarce


def scarcity(resource: str) -> int:
    """Return the sort key of a resource: devices come before CPUs, memory and pods."""
    return _SCARCE_LAST.index(resource) + 1 if resource in _SCARCE_LAST else 0
