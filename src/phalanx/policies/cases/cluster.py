"""Nodes, requests and options as cases write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from phalanx.policies.cases.compare import Case, Unusable, need
from phalanx.policies.labels import LabelSelector, condition, parse_selector
from phalanx.policies.node_table import NodeState, NodeTable
from phalanx.policies.request_class import ClusterView, Request
from phalanx.policies.strategy import Asking
from phalanx.resources.quantities import SCALE, from_units
from phalanx.resources.sets import ResourceSet

LOCAL = "local"
"""The name of the node that decides."""

_SEVERAL = re.compile(r"(.*?)\s*\(x(\d+)\)")


class Cluster:
    """The nodes of one case; the order in the file is the order of node ids."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        named = [pair for name, node in (nodes or {}).items() for pair in _several(name, node)]
        width = len(str(len(named)))
        self._id_of = {name: f"{at:0{width}}:{name}" for at, (name, _) in enumerate(named)}
        states = [_state(self._id_of[name], node or {}) for name, node in named]
        self.view = ClusterView(NodeTable(states))

    def id_of(self, name: str | None) -> str | None:
        """The id behind a name; the name itself where there is no such node."""
        return self._id_of.get(name, name) if name is not None else None

    def name_of(self, node_id: str) -> str:
        """The name behind an id."""
        return node_id.partition(":")[2]

    def asking(self, options: Mapping[str, Any]) -> Asking:
        """The terms of the case's options; the local node is preferred when none is named."""
        preferred = options.get("preferred", LOCAL)
        return Asking(
            local=self.id_of(LOCAL),
            preferred=self.id_of(preferred) if preferred not in (None, "none") else None,
            require_available=bool(options.get("require_available", False)),
            avoid_local=bool(options.get("avoid_local", False)),
        )


def amounts(given: Mapping[str, float] | None) -> ResourceSet:
    """A set of resources; amounts below zero are allowed, as differences of sets have them."""
    return ResourceSet({name: units(amount) for name, amount in (given or {}).items()})


def units(amount: float) -> int:
    """Units of an amount that may be negative."""
    return round(float(amount) * SCALE)


def told(given: Mapping[str, int]) -> dict[str, float]:
    """Units as amounts."""
    return {name: from_units(one) for name, one in given.items()}


def request_of(case: Case, key: str = "request") -> Request:
    """The request, with its label selector, as Ray compares it: by sums, not device by device."""
    return Request(
        resources=amounts(need(case, key)),
        selector=selector_of(case.get("label_selector")),
        exact_devices=False,
    )


def selector_of(given: Any) -> LabelSelector:
    """A selector as `{key: value}`, or as conditions `{key: {op: In, values: [...]}}`."""
    if given is None:
        return parse_selector(None)
    if not isinstance(given, Mapping):
        raise Unusable(f"a label selector is a mapping, not {given!r}")
    texts = {key: value for key, value in given.items() if not isinstance(value, Mapping | list)}
    conditions = tuple(
        condition(key, *_operator(value)) for key, value in given.items() if key not in texts
    )
    parsed = parse_selector({key: str(value) for key, value in texts.items()})
    return LabelSelector((*parsed.conditions, *conditions))


def _operator(value: Any) -> tuple[str, tuple[str, ...]]:
    if isinstance(value, list):
        return "In", tuple(map(str, value))
    words = {"in": "In", "notin": "NotIn", "exists": "Exists", "doesnotexist": "DoesNotExist"}
    said = str(value.get("op", value.get("operator", "")))
    name = words.get(re.sub(r"[^a-z]", "", said.lower()), said)
    return name, tuple(map(str, value.get("values", ())))


def _several(name: str, node: Any) -> list[tuple[str, Any]]:
    found = _SEVERAL.fullmatch(str(name))
    if not found:
        return [(str(name), node)]
    count = int(found[2])
    return [(f"{found[1]}#{at:0{len(str(count))}}", node) for at in range(count)]


def _state(node_id: str, node: Mapping[str, Any]) -> NodeState:
    total = node.get("total") or {}
    available = {**total, **(node.get("available") or {})}
    return NodeState(
        id=node_id,
        total=amounts(total),
        available=amounts(available),
        load=amounts(node.get("load")),
        labels={key: str(value) for key, value in (node.get("labels") or {}).items()},
        is_schedulable=not (
            node.get("draining") or node.get("dead") or not node.get("alive", True)
        ),
    )
