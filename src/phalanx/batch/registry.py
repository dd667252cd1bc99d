"""Names of plugins and how they are made; plugins of one's own come in by an entry point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from phalanx.batch.session import Plugin

GROUP = "phalanx.batch.plugins"
"""The entry-point group that is looked up: `name = "module:maker"`."""

BUILT_IN: dict[str, str] = {
    "priority": "priority:Priority",
    "gang": "gang:Gang",
    "conformance": "conformance:Conformance",
    "overcommit": "overcommit:Overcommit",
    "drf": "drf:DominantShare",
    "predicates": "predicates:Predicates",
    "proportion": "proportion:Proportion",
    "nodeorder": "nodeorder:NodeOrder",
    "binpack": "binpack:Binpack",
    "capacity": "capacity:Capacity",
    "sla": "sla:WaitingTime",
    "tdm": "tdm:TimeDivision",
    "task-topology": "task_topology:TaskTopology",
    "numa-aware": "numa_aware:NumaAware",
    "network-topology-aware": "network_topology:NetworkTopologyAware",
    "nodegroup": "nodegroup:NodeGroup",
    "deviceshare": "deviceshare:DeviceShare",
    "resource-strategy-fit": "strategy_fit:StrategyFit",
    "usage": "usage:Usage",
    "rescheduling": "rescheduling:Rescheduling",
    "resourcequota": "resourcequota:ResourceQuota",
    "pdb": "pdb:DisruptionBudgets",
    "cdp": "cdp:Cooldown",
    "extender": "extender:Extender",
    "half-life": "half_life:HalfLife",
    "min-runtime": "min_runtime:MinRuntime",
    "limits": "limits:Limits",
    "cohort": "cohort:Cohort",
    "whole-gang": "whole_gang:WholeGang",
    "reservation": "reservation:Reservation",
}
"""One line a plugin."""


@cache
def _outside() -> dict[str, Any]:
    return {e.name: e for e in entry_points(group=GROUP)}


def known_plugins() -> frozenset[str]:
    """Names that a configuration may use."""
    return frozenset(BUILT_IN) | frozenset(_outside())


def make_plugin(name: str, arguments: Mapping[str, Any]) -> Plugin:
    """Build a plugin with the arguments of its entry. Raises KeyError for an unknown name."""
    target = BUILT_IN.get(name)
    if target is not None:
        module, _, maker = target.partition(":")
        made: Plugin = getattr(import_module(f"phalanx.batch.plugins.{module}"), maker)(arguments)
        return made
    outside: Plugin = _outside()[name].load()(arguments)
    return outside
