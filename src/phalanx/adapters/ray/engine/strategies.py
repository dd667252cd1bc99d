"""The translation of options of tasks and actors into options of Ray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray
from ray.util import scheduling_strategies as theirs
from ray.util.placement_group import PlacementGroup

from phalanx.model.ids import GroupId, group_id_of
from phalanx.model.options import named_strategy, required_resources

_NOT_PASSED = frozenset(
    {
        "queue",
        "priority",
        "timeout_s",
        "placement_group",
        "placement_group_bundle_index",
        "placement_group_capture_child_tasks",
    }
)
"""Options that Ray does not get: Phalanx handles them, or passes them in another form."""


def native_options(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the options that Ray gets.

    Raises ValueError for a strategy with which the work cannot be placed.
    """
    found = {key: value for key, value in options.items() if key not in _NOT_PASSED}
    strategy = named_strategy(options)
    if strategy is not None:
        found["scheduling_strategy"] = native_strategy(
            strategy, required_resources(options, default_cpus=1), name
        )
    return found


def native_strategy(strategy: Any, resources: Mapping[str, float], name: str) -> Any:
    """Translate one of Phalanx's scheduling strategies into Ray's."""
    if isinstance(strategy, str):
        return strategy
    if hasattr(strategy, "hard"):
        hard, soft = (_conditions(part) for part in (strategy.hard, strategy.soft))
        return theirs.NodeLabelSchedulingStrategy(hard, soft=soft)
    wire = strategy.to_wire(resources, name)
    if "group" in wire:
        return theirs.PlacementGroupSchedulingStrategy(
            native_group(group_id_of(wire["group"])), wire["bundle"], wire["capture"]
        )
    if "node_id" in wire:
        return theirs.NodeAffinitySchedulingStrategy(
            wire["node_id"],
            wire["soft"],
            _spill_on_unavailable=wire["spill_on_unavailable"],
            _fail_on_unavailable=wire["fail_on_unavailable"],
        )
    return "DEFAULT"


def native_group(group: GroupId) -> PlacementGroup:
    """Return Ray's placement group with this id."""
    return PlacementGroup(ray.PlacementGroupID(group))


def _conditions(conditions: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: getattr(theirs, type(one).__name__)(*one.values) for key, one in conditions.items()
    }
