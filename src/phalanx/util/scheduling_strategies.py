"""Strategies for the option `scheduling_strategy`, which say where work should run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from phalanx.model.ids import NodeID, PlacementGroupID


class Bundles(Protocol):
    """The part of `phalanx.util.placement_group.PlacementGroup` that the strategies use."""

    id: PlacementGroupID
    may_be_used: bool
    """Whether work may run in the group, as far as this process knows."""

    @property
    def is_empty(self) -> bool:
        """Whether this is a handle for no group."""
        ...

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources that each bundle reserves."""
        ...


class PlacementGroupSchedulingStrategy:
    """The strategy to run inside a placement group: in one bundle, or in any (-1).

    With `placement_group_capture_child_tasks`, the tasks that the work starts run in the group,
    too.

    Example:
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
        ref = square.options(scheduling_strategy=strategy).remote(4)
    """

    def __init__(
        self,
        placement_group: Bundles | None,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        # As with Ray, None means no group, even if the parent is in one.
        if placement_group is not None:
            placement_group.may_be_used = True
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks

    def to_wire(self, resources: Mapping[str, float], name: str) -> dict[str, Any]:
        """Return the strategy in the form that the node reads.

        Raises ValueError when no bundle could ever hold the amounts for `name`.
        """
        group, index = self.placement_group, self.placement_group_bundle_index
        if group is None or group.is_empty:
            return {}
        bundles = group.bundle_specs
        if index < -1 or index >= len(bundles):
            raise ValueError(
                f"placement group bundle index {index} is invalid: valid are 0 to "
                f"{len(bundles) - 1}, and -1 for any."
            )
        for bundle in bundles if index < 0 else [bundles[index]]:
            if all(amount <= bundle.get(name, 0) for name, amount in resources.items()):
                break
        else:
            amounts = {key: int(x) if x == int(x) else x for key, x in resources.items()}
            have = [{key: float(amount) for key, amount in bundle.items()} for bundle in bundles]
            raise ValueError(
                f"Cannot schedule {name} with the placement group because the resource request "
                f"{amounts} cannot fit into any bundles for the placement group, {have}."
            )
        capture = bool(self.placement_group_capture_child_tasks)
        return {"group": group.id.hex(), "bundle": index, "capture": capture}


class NodeAffinitySchedulingStrategy:
    """The strategy to run on one node. With `soft`, the work runs elsewhere if that node is dead or
    can never run it.

    Raises ValueError for an id that is not a node's id in hex.

    Example:
        here = phalanx.get_runtime_context().get_node_id()
        ref = square.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=True)
        ).remote(4)
    """

    def __init__(
        self,
        node_id: str | NodeID,
        soft: bool,
        _spill_on_unavailable: bool = False,
        _fail_on_unavailable: bool = False,
    ) -> None:
        if isinstance(node_id, NodeID):
            node_id = node_id.hex()
        try:
            NodeID.from_hex(node_id)
        except (ValueError, TypeError):
            raise ValueError(f"{node_id!r} is not a node's id in hex.") from None
        if _spill_on_unavailable and not soft:
            raise ValueError("_spill_on_unavailable cannot be set when soft is False.")
        if _fail_on_unavailable and soft:
            raise ValueError("_fail_on_unavailable cannot be set when soft is True.")
        self.node_id: str = node_id
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable

    def to_wire(self, resources: Mapping[str, float], name: str) -> dict[str, Any]:
        """Return the strategy in the form that the node reads."""
        return {
            "node_id": self.node_id,
            "soft": self.soft,
            "spill_on_unavailable": self._spill_on_unavailable,
            "fail_on_unavailable": self._fail_on_unavailable,
        }


class _Operator:
    """A condition on a label. The kind of the condition is the name of its class."""

    def __init__(self, *values: str) -> None:
        self.values = values


class In(_Operator):
    """The label has one of these values."""

    def __init__(self, *values: str) -> None:
        _check_values("In", values)
        super().__init__(*values)


class NotIn(_Operator):
    """The label is absent or has another value."""

    def __init__(self, *values: str) -> None:
        _check_values("NotIn", values)
        super().__init__(*values)


class Exists(_Operator):
    """The node has the label."""

    def __init__(self) -> None:
        super().__init__()


class DoesNotExist(_Operator):
    """The node lacks the label."""

    def __init__(self) -> None:
        super().__init__()


def _wire(conditions: dict[str, _Operator]) -> list[tuple[str, str, list[str]]]:
    return [(k, type(op).__name__, sorted(op.values)) for k, op in sorted(conditions.items())]


def _check_values(name: str, values: tuple[Any, ...]) -> None:
    if not values:
        raise ValueError(f"{name} takes at least one value.")
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{name} takes strings, got {value!r}.")


class NodeLabelSchedulingStrategy:
    """The strategy to run on nodes with certain labels: the `hard` conditions must be met, the
    `soft` ones should be.

    Label selectors are the newer form of this. Raises ValueError without any condition.

    Example:
        strategy = NodeLabelSchedulingStrategy({"zone": In("a", "b")}, soft={"gpu": Exists()})
    """

    def __init__(
        self, hard: dict[str, _Operator], *, soft: dict[str, _Operator] | None = None
    ) -> None:
        self.hard = _checked("hard", hard)
        self.soft = _checked("soft", soft or {})
        if not self.hard and not self.soft:
            raise ValueError("The 'hard' and 'soft' conditions cannot both be empty.")

    def to_wire(self, resources: Mapping[str, float], name: str) -> dict[str, Any]:
        """Return the strategy in the form that the node reads: a list of conditions that are tried
        in order. First the hard and soft conditions must be met, then only the hard ones.
        """
        hard = _wire(self.hard)
        soft = _wire(self.soft)
        return {"labels": [hard + soft, hard] if soft else [hard]}


def _checked(name: str, conditions: Any) -> dict[str, _Operator]:
    if not isinstance(conditions, dict):
        raise ValueError(f"The {name} conditions must be a dict, got {conditions!r}.")
    for key, operator in conditions.items():
        if not isinstance(key, str):
            raise ValueError(f"The {name} conditions must have strings as keys, got {key!r}.")
        if not isinstance(operator, _Operator):
            raise ValueError(
                f"The {name} condition of {key!r} must be In, NotIn, Exists or DoesNotExist, got "
                f"{operator!r}."
            )
    return conditions


SchedulingStrategyT = (
    None
    | str
    | PlacementGroupSchedulingStrategy
    | NodeAffinitySchedulingStrategy
    | NodeLabelSchedulingStrategy
)
