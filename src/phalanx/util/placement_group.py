"""Placement groups: bundles of resources of which all are reserved, or none."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.api.decorator import remote
from phalanx.api.runtime_context import get_runtime_context
from phalanx.api.session import engine_or_start
from phalanx.model.gpu_sharing import GPU, OPTIONS, sharing_amounts
from phalanx.model.ids import NodeID, PlacementGroupID
from phalanx.model.nearest import nearest
from phalanx.model.options import warn_of_object_store_memory
from phalanx.objects.reference import ObjectRef
from phalanx.runtime.engine.interface import PendingReply
from phalanx.scheduler.placement.labels import parse_selector
from phalanx.scheduler.placement.strategies import WHOLE_GROUP
from phalanx.util.scheduling_strategies import PlacementGroupSchedulingStrategy

VALID_PLACEMENT_GROUP_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")

_FRESH_S = 1.0
"""Seconds for which this process relies on an answer that a group is created. If this process
removes any group, the answer is no longer valid.
"""
_removals = 0
"""The number of groups that this process has removed."""


class PlacementGroup:
    """A handle of a placement group; it can be sent to tasks and actors.

    Example:
        group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="SPREAD")
        if group.wait(timeout_seconds=30):
            strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
            ref = square.options(scheduling_strategy=strategy).remote(4)
        remove_placement_group(group)
    """

    def __init__(self, id: PlacementGroupID, bundles: list[dict[str, float]] | None = None) -> None:
        self.id = id
        self._bundles = bundles
        self._created: PendingReply[bool] | None = None
        """The pending answer to the last request whether the group is created; None if no request
        is open.
        """
        self._asked = (0.0, 0)
        """The time of the last request whether the group is created, by the monotonic clock, and
        the number of groups that had been removed then.
        """
        self._removed: PendingReply[None] | None = None
        """The pending answer to the request to remove the group, if this process sent it without
        waiting.
        """
        self.may_be_used = True
        """Whether work may run in the group, as far as this process knows."""

    def __reduce__(self) -> tuple[Any, ...]:
        self.may_be_used = True
        return PlacementGroup, (self.id, self._bundles)

    @staticmethod
    def empty() -> PlacementGroup:
        """Return a handle for no group."""
        return PlacementGroup(PlacementGroupID.nil(), [])

    @property
    def is_empty(self) -> bool:
        """Whether this is a handle for no group."""
        return self.id.is_nil()

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources that each bundle reserves."""
        if self._bundles is None:
            rows = [r for r in _rows() if r["placement_group_id"] == self.id.hex()]
            self._bundles = list(rows[0]["bundles"].values()) if rows else []
        return self._bundles

    @property
    def bundle_count(self) -> int:
        """The number of bundles."""
        return len(self.bundle_specs)

    def ready(self) -> ObjectRef[Any]:
        """Return a reference to this group that becomes ready when all bundles are reserved."""
        if self._removed is not None:  # otherwise the task could reach its node before the removal
            self._removed.result()
        proof = engine_or_start().group_ready(self.id.binary())
        if proof is not None:
            waits: ObjectRef[Any] = _itself.remote(self, proof)
            return waits
        strategy = _OnceWhole(self)
        ready: ObjectRef[Any] = _itself.options(scheduling_strategy=strategy).remote(self)
        return ready

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait until all bundles are reserved. Returns False if that takes more than
        `timeout_seconds`.

        Raises ValueError for a group that was removed.
        """
        from phalanx.errors import GetTimeoutError

        asked = self._created
        if asked is None or (asked.is_there and not self._is_fresh()):
            asked = self.ask_created()
        try:
            created = asked.result(timeout_seconds)
        except GetTimeoutError:
            return False
        self._created = None
        if not created:
            raise ValueError(f"Placement group {self.id.hex()} does not exist: it was removed.")
        return True

    def ask_created(self) -> PendingReply[bool]:
        """Ask whether the group is created. Returns the pending answer."""
        asked = self._created = engine_or_start().group_created(self.id.binary())
        self._asked = (time.monotonic(), _removals)
        return asked

    def _is_fresh(self) -> bool:
        """Whether the last answer is still valid. The answer is invalid if a group may have been
        removed since then.
        """
        asked_at, removals = self._asked
        return removals == _removals and time.monotonic() - asked_at < _FRESH_S

    def as_strategy(self, index: int, capture: bool | None) -> PlacementGroupSchedulingStrategy:
        """Return the strategy that means the same as the older options `placement_group=`,
        `placement_group_bundle_index=` and so on. `capture`: whether child tasks run in the group,
        too.
        """
        return PlacementGroupSchedulingStrategy(self, index, capture)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id.hex()})"


class _OnceWhole(PlacementGroupSchedulingStrategy):
    """The strategy of a task that runs in any bundle, when all bundles of the group are placed."""

    def to_wire(self, resources: Mapping[str, float], name: str) -> dict[str, Any]:
        """Return the strategy in the form that the node reads. The index of the bundle is
        WHOLE_GROUP.
        """
        wire = super().to_wire(resources, name)
        return {**wire, "bundle": WHOLE_GROUP} if wire else wire


@remote(num_cpus=0, max_retries=0, enable_task_events=False)  # this is no task of the program
def _itself(group: PlacementGroup, proof: object = None) -> PlacementGroup:
    return group


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str = "PACK",
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
) -> PlacementGroup:
    """Reserve bundles of resources: all of them or none. Returns immediately.

    `strategy` is "PACK" (few nodes), "SPREAD" (many nodes), "STRICT_PACK" (one node) or
    "STRICT_SPREAD" (a node for each bundle). With `lifetime="detached"` the group outlives its
    driver. Each entry of `bundle_label_selector` limits the nodes of one bundle. In addition to
    amounts, a bundle may have `gpu_memory`, `gpu_memory_limit`, `gpu_share` and `gpu_compute`, as
    tasks have them. Raises ValueError for bundles or options that are not allowed.

    Example:
        group = placement_group([{"GPU": 1, "CPU": 4}] * 2, strategy="STRICT_PACK")
        assert group.wait(60)
    """
    bundles = _with_terms(bundles)
    validate_placement_group(
        bundles, strategy, lifetime, _soft_target_node_id, bundle_label_selector
    )
    engine = engine_or_start()
    group_id, made = engine.create_group(
        bundles,
        strategy,
        name,
        lifetime == "detached",
        bundle_label_selector or [],
        _soft_target_node_id,
    )
    group = PlacementGroup(PlacementGroupID(group_id), [dict(b) for b in bundles])
    group.ask_created()
    group.may_be_used = bool(name)
    if name or bundle_label_selector or not _is_plain(bundles):
        made.result()  # this raises the error with which the head refused the group
    return group


def _with_terms(bundles: Any) -> Any:
    """Return the bundles with their options for sharing GPUs, such as `gpu_memory`, replaced by
    amounts of resources.
    """
    if not isinstance(bundles, list):
        return bundles
    found = []
    for bundle in bundles:
        if isinstance(bundle, dict) and not bundle.keys().isdisjoint(OPTIONS):
            options = {name: bundle[name] for name in OPTIONS if name in bundle}
            rest = {name: bundle[name] for name in bundle if name not in (*OPTIONS, GPU)}
            options |= {"num_gpus": bundle.get(GPU, 0), "resources": rest}
            bundle = rest | sharing_amounts(options)
        found.append(bundle)
    return found


def _is_plain(bundles: list[dict[str, float]]) -> bool:
    return all(amount <= 1 or amount == int(amount) for b in bundles for amount in b.values())


def validate_placement_group(
    bundles: list[dict[str, float]],
    strategy: str = "PACK",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
) -> bool:
    """Raise ValueError for arguments that `placement_group` does not take."""
    _validate_bundles(bundles)
    if strategy not in VALID_PLACEMENT_GROUP_STRATEGIES:
        raise ValueError(
            f"Invalid placement group strategy {strategy!r}; valid ones are "
            f"{VALID_PLACEMENT_GROUP_STRATEGIES}"
            f"{nearest(str(strategy), VALID_PLACEMENT_GROUP_STRATEGIES) or '.'}"
        )
    if lifetime not in (None, "detached"):
        raise ValueError(
            f"lifetime of a placement group must be None or 'detached', got {lifetime!r}."
        )
    if _soft_target_node_id is not None:
        if strategy != "STRICT_PACK":
            raise ValueError("_soft_target_node_id is only allowed with STRICT_PACK.")
        _check_node_id(_soft_target_node_id)
    if bundle_label_selector is None:
        return True
    _validate_bundle_label_selector(bundle_label_selector)
    if len(bundle_label_selector) != len(bundles):
        raise ValueError(
            f"bundle_label_selector has {len(bundle_label_selector)} selectors for "
            f"{len(bundles)} bundles."
        )
    return True


def _validate_bundles(bundles: Any) -> None:
    if not isinstance(bundles, list):
        raise ValueError(f"Placement group bundles must be a list, got {type(bundles)}.")
    if not bundles:
        raise ValueError("Bundles must be a non-empty list of resource dictionaries.")
    for bundle in bundles:
        if not isinstance(bundle, dict) or not bundle or not all(map(_is_amount, bundle.items())):
            raise ValueError(
                "Bundles must be a non-empty list of resource dictionaries, from names to numbers "
                f"of at least 0. Got {bundle!r}."
            )
        if not any(bundle.values()):
            raise ValueError(
                f"Bundles cannot be an empty dictionary or have only 0 values: {bundle!r}."
            )
        if "object_store_memory" in bundle:
            warn_of_object_store_memory("bundles")
        if "bundle" in bundle:
            raise ValueError(
                "The resource 'bundle' stands for a place in a group: it cannot be requested."
            )


def _is_amount(entry: tuple[Any, Any]) -> bool:
    name, amount = entry
    is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
    return isinstance(name, str) and is_number and 0 <= amount < math.inf


def _validate_bundle_label_selector(selectors: Any) -> None:
    if not isinstance(selectors, list):
        raise ValueError(f"Bundle label selector must be a list, got {type(selectors)}.")
    for selector in selectors:
        if not isinstance(selector, dict) or not all(
            isinstance(text, str) for entry in selector.items() for text in entry
        ):
            raise ValueError(
                f"Bundle label selector must be a list of string dictionary, got {selector!r}."
            )
        try:
            parse_selector(selector)
        except ValueError as error:
            raise ValueError(f"Invalid label selector provided: {error}") from None


def _check_node_id(text: Any) -> None:
    try:
        NodeID.from_hex(text)
    except (ValueError, TypeError):
        raise ValueError(f"{text!r} is not a node's id in hex.") from None


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Remove the group. The work in its bundles ends, and their resources become free.

    Removing a group a second time does nothing. Raises ValueError for anything but a group.
    """
    if not isinstance(placement_group, PlacementGroup):
        raise ValueError(f"remove_placement_group takes a group, got {placement_group!r}.")
    global _removals
    _removals += 1
    removed = engine_or_start().remove_group(placement_group.id.binary())
    if placement_group.may_be_used:
        removed.result()
    else:
        placement_group._removed = removed


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """Return the living group of that name. Raises ValueError when there is none.

    Example:
        placement_group([{"CPU": 1}], name="trainers")
        group = get_placement_group("trainers")
    """
    if not placement_group_name:
        raise ValueError("Please supply a non-empty value to get_placement_group.")
    group, bundles = engine_or_start().named_group(placement_group_name)
    return PlacementGroup(PlacementGroupID(group), bundles)


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """Return facts about one group, or about all groups by their ids."""
    rows = {row["placement_group_id"]: row for row in _rows()}
    if placement_group is None:
        return rows
    return rows.get(placement_group.id.hex(), {})


def get_current_placement_group() -> PlacementGroup | None:
    """Return the group that the calling task or actor runs in, or None."""
    text = get_runtime_context().get_placement_group_id()
    return None if text is None else PlacementGroup(PlacementGroupID.from_hex(text))


def check_placement_group_index(placement_group: PlacementGroup, bundle_index: int) -> None:
    """Raise ValueError for an index that the group does not have (-1 means any bundle)."""
    count = placement_group.bundle_count
    if bundle_index < -1 or bundle_index >= count:
        raise ValueError(
            f"placement group bundle index {bundle_index} is invalid: valid are 0 to {count - 1}, "
            "and -1 for any."
        )


def _valid_resource_shape(
    resources: Mapping[str, float], bundle_specs: Iterable[Mapping[str, float]]
) -> bool:
    """Whether one of the bundles has all these resources. Ray's libraries call it by this name."""
    return any(
        all(bundle.get(name, 0) >= amount for name, amount in resources.items() if name != "bundle")
        for bundle in bundle_specs
    )


def _rows() -> list[dict[str, Any]]:
    return engine_or_start().groups()
