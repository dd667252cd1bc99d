"""The plugins by name, and the function that makes each of them. Other distributions add plugins
through an entry point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.config import Known
from phalanx.scheduler.cycle.session import Plugin

GROUPS = ("phalanx.batch.plugins", "phalanx.scheduler.plugins")
"""The entry-point groups in which plugins are looked up. An entry has the form
`name = "module:maker"`. The first group is the one of version 0.1. If both groups have an entry of
the same name, the entry of the second group counts.
"""

BUILT_IN: dict[str, str] = {
    "priority": "priority:Priority",
    "gang": "gang:GangPlugin",
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
    "gpu-sharing": "gpu_sharing:GpuSharing",
    "selector": "selector:Selector",
    "fragmentation": "fragmentation:Fragmentation",
    "resource-strategy-fit": "strategy_fit:StrategyFit",
    "usage": "usage:Usage",
    "rescheduling": "rescheduling:Rescheduling",
    "resourcequota": "resourcequota:ResourceQuota",
    "pdb": "pdb:DisruptionBudgets",
    "cdp": "cdp:Cooldown",
    "extender": "extender:Extender",
    "half-life": "half_life:HalfLife",
    "fair-tree": "fair_tree:FairTree",
    "multifactor": "multifactor:Multifactor",
    "min-runtime": "min_runtime:MinRuntime",
    "limits": "limits:Limits",
    "cohort": "cohort:Cohort",
    "virtual-clusters": "virtual_clusters:VirtualClusters",
    "whole-gang": "whole_gang:WholeGang",
    "reservation": "reservation:Reservation",
    "calendar": "calendar:CalendarPlugin",
    "licenses": "licenses:Licenses",
    "fifo": "fifo:FirstInFirstOut",
    "sjf": "sjf:ShortestJobFirst",
    "srtf": "srtf:ShortestRemainingTimeFirst",
    "srsf": "srsf:ShortestRemainingServiceFirst",
    "tiresias": "tiresias:Tiresias",
}
"""The module and maker of each plugin, by name."""


@cache
def _outside() -> dict[str, Any]:
    return {e.name: e for group in GROUPS for e in entry_points(group=group)}


class _Known(Mapping[str, "Accepted | None"]):
    """The names that a configuration may use. A plugin is imported when its arguments are looked
    up.
    """

    def __getitem__(self, name: str) -> Accepted | None:
        accepted: Accepted | None = getattr(_maker(name), "accepts", None)
        return accepted

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in _outside()

    def __iter__(self) -> Iterator[str]:
        return iter((*BUILT_IN, *(n for n in _outside() if n not in BUILT_IN)))

    def __len__(self) -> int:
        return len(BUILT_IN.keys() | _outside().keys())


def known_plugins() -> Known:
    """Return the names that a configuration may use, each with the arguments that the plugin's
    attribute `accepts` declares.

    A plugin without that attribute takes any argument; its value is None.
    """
    return _Known()


@cache
def _maker(name: str) -> Any:
    target = BUILT_IN.get(name)
    if target is None:
        return _outside()[name].load()
    module, _, maker = target.partition(":")
    return getattr(import_module(f"phalanx.scheduler.plugins.{module}"), maker)


def make_plugin(name: str, arguments: Mapping[str, Any]) -> Plugin:
    """Build a plugin with the arguments of its entry. Raises KeyError for an unknown name."""
    made: Plugin = _maker(name)(arguments)
    return made
