"""A short notation for nodes, one per line: `"a 4/8CPU 1/2GPU zone=x !"` has 4 of 8 CPUs and 1 of 2
GPUs free, has a label, and drains.
"""

from __future__ import annotations

import random
import re

from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.labels import parse_selector
from phalanx.scheduler.placement.node_table import NodeState, NodeTable
from phalanx.scheduler.placement.outcome import Outcome, Placed
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.strategy import Asking, Strategy

_AMOUNT = re.compile(r"(?:([\d.]+)/)?([\d.]+)([A-Za-z_]\w*)")


def node(line: str) -> NodeState:
    """Return one node. An amount without a free part is wholly free."""
    name, *words = line.split()
    total, free, labels = {}, {}, {}
    for word in words:
        if "=" in word:
            key, _, labels[key] = word.partition("=")
            continue
        found = _AMOUNT.fullmatch(word)
        if found:
            total[found[3]] = float(found[2])
            free[found[3]] = float(found[1] or found[2])
    return NodeState(
        id=name,
        total=ResourceSet.from_mapping(total),
        available=ResourceSet.from_mapping(free),
        labels=labels,
        is_schedulable="!" not in words,
    )


def cluster(text: str) -> ClusterView:
    """Return a cluster of nodes, one per line."""
    return ClusterView(NodeTable(node(line) for line in text.splitlines() if line.strip()))


def resources(text: str) -> ResourceSet:
    """Return the resources of a text such as `"1CPU 0.5GPU"`."""
    found = [_AMOUNT.fullmatch(word) for word in text.split()]
    return ResourceSet.from_mapping({one[3]: float(one[2]) for one in found if one})


def request(text: str, **labels: str) -> Request:
    """Return a request, with a label selector made of `labels`."""
    return Request(resources=resources(text), selector=parse_selector(labels))


def asking(text: str = "") -> Asking:
    """Return the terms of a text such as `"local=a preferred=b now away"`."""
    words = dict(word.partition("=")[::2] for word in text.split())
    return Asking(
        local=words.get("local"),
        preferred=words.get("preferred"),
        require_available="now" in words,
        avoid_local="away" in words,
    )


def said(outcome: Outcome) -> str:
    """Return an outcome as text: `"a"`, `"a busy"`, `"infeasible"` or `"unavailable"`."""
    if isinstance(outcome, Placed):
        return outcome.node if outcome.is_available else f"{outcome.node} busy"
    return outcome.reason


def picks(
    strategy: Strategy, view: ClusterView, wanted: Request, terms: str = "", draws: int = 1
) -> str:
    """Return the strategy's distinct answers in `draws` draws from one random generator, sorted and
    joined by ` | `.
    """
    rng = random.Random(7)
    drawn = [said(strategy.pick(view, wanted, asking(terms), rng)) for _ in range(draws)]
    return " | ".join(dict.fromkeys(drawn)) if draws == 1 else " | ".join(sorted(set(drawn)))
