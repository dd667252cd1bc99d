"""Descriptions of tasks and actors that are about to start, in the form that Ray's hooks expect."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from phalanx.model.ids import PlacementGroupID
from phalanx.util.placement_group import PlacementGroup
from phalanx.util.scheduling_strategies import PlacementGroupSchedulingStrategy


def described(what: Any) -> SimpleNamespace:
    """Return a description of a function or a class, in the form of Ray's descriptors."""
    is_class = inspect.isclass(what)
    return SimpleNamespace(
        module_name=what.__module__,
        class_name=what.__name__ if is_class else "",
        function_name="__init__" if is_class else what.__name__,
    )


def strategy_in(group: str) -> PlacementGroupSchedulingStrategy:
    """Return the strategy of work that goes into this placement group."""
    return PlacementGroupSchedulingStrategy(PlacementGroup(PlacementGroupID.from_hex(group)))
