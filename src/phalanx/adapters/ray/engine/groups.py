"""Placement groups that programs create. They are Ray's own groups, with Phalanx's handles."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from ray.util.placement_group import get_placement_group, placement_group, placement_group_table

from phalanx.adapters.ray.engine.strategies import native_group
from phalanx.errors import GetTimeoutError
from phalanx.model.ids import GroupId

R = TypeVar("R")


class Known(Generic[R]):
    """A pending reply with an answer that is already known."""

    def __init__(self, value: R) -> None:
        self._value = value
        self.is_there = True

    def result(self, timeout_s: float | None = None) -> R:
        """Return the answer."""
        return self._value


class Later(Generic[R]):
    """A pending reply that the scheduler will give."""

    def __init__(self, future: Future[R]) -> None:
        self._future = future

    @property
    def is_there(self) -> bool:
        """Whether the scheduler has answered."""
        return self._future.done()

    def result(self, timeout_s: float | None = None) -> R:
        """Wait for the scheduler's answer and return it.

        Raises GetTimeoutError after `timeout_s`.
        """
        try:
            return self._future.result(timeout_s)
        except TimeoutError:
            if self._future.done():
                raise
            raise GetTimeoutError(f"the scheduler did not answer in {timeout_s} s") from None


class Created:
    """A pending reply that arrives when a placement group is created."""

    def __init__(self, group: GroupId) -> None:
        self._group = native_group(group)
        self.is_there = False

    def result(self, timeout_s: float | None = None) -> bool:
        """Wait until the group is created. Raises Ray's error for a group that was removed."""
        if not self._group.wait(1e9 if timeout_s is None else timeout_s):
            raise GetTimeoutError(f"the group was not created in {timeout_s} s")
        return True


def create(
    bundles: list[dict[str, float]],
    strategy: str,
    name: str,
    detached: bool,
    selectors: list[dict[str, str]],
    soft_target: str | None,
) -> tuple[GroupId, Known[None]]:
    """Create a placement group of Ray, and return its id."""
    made = placement_group(
        bundles,
        strategy=strategy,
        name=name,
        lifetime="detached" if detached else None,
        _soft_target_node_id=soft_target,
        bundle_label_selector=selectors or None,
    )
    return GroupId(made.id.binary()), Known(None)


def named(name: str) -> tuple[GroupId, list[dict[str, float]]]:
    """Return the id and the bundles of the living group of this name. Raises ValueError if no such
    group lives.
    """
    found = get_placement_group(name)
    return GroupId(found.id.binary()), found.bundle_specs


def table() -> list[dict[str, Any]]:
    """Return one row for each group."""
    rows = placement_group_table()
    return list(rows.values())
