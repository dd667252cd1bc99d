"""What Ray's hooks are told of a task or an actor that is to be started."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from phalanx.model.ids import PlacementGroupID
from phalanx.util.placement_group import PlacementGroup
from phalanx.util.scheduling_strategies import PlacementGroupSchedulingStrategy


def described(what: Any) -> SimpleNamespace:
    """A function or a class, as Ray's descriptors have it."""
    is_class = inspect.isclass(what)
    return SimpleNamespace(
        module_name=what.__module__,
        class_name=what.__name__ if is_class else "",
        function_name="__init__" if is_class else what.__name__,
    )


def strategy_in(group: str) -> PlacementGroupSchedulingStrategy:
    """The strategy of what goes into this placement group."""
    return PlacementGroupSchedulingStrategy(PlacementGroup(PlacementGroupID.from_hex(group)))
