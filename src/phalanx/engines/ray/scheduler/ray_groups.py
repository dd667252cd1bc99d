"""Reservations as Ray's placement groups: made and removed beside the brain's thread."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ray._raylet import PlacementGroupID
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from phalanx.engines.ray.scheduler.options import GROUP
from phalanx.engines.ray.scheduler.ray_calls import available_by_node
from phalanx.engines.ray.scheduler.reservation import Key

NODE_LABEL = "ray.io/node-id"
_THREADS = 16
_LOOK_EVERY_S = 0.02
_SHOWN_AFTER_S = 0.12
"""Ray's nodes report so late; a placement group that lived shorter was perhaps never shown."""
_FREE_WITHIN_S = 2.0
"""After so long a removed placement group is taken for free, whatever Ray shows: what is not free
counts as taken by others."""


class RayGroups:
    """Detached placement groups by (group, attempt). Calls return at once."""

    def __init__(self, reserve_s: float) -> None:
        self._reserve_s = reserve_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="phalanx-reserve")
        self._made: dict[Key, Any] = {}
        """Placement groups by reservation; None where Ray need not be asked for anything."""
        self._born: dict[Key, float] = {}
        self._lock = threading.Lock()
        self._under_way: dict[Key, Callable[[], None] | None] = {}
        """Those that Ray was asked for; with whom to tell when they were withdrawn meanwhile."""

    def adopt(self) -> dict[Key, str]:
        """The states of all that an earlier scheduler made and that are not removed."""
        found = {}
        for row in placement_group_table().values():
            key = _key(row["name"])
            if key is not None and row["state"] != "REMOVED":
                group_id = PlacementGroupID.from_hex(row["placement_group_id"])
                self._made[key] = PlacementGroup(group_id)
                self._born[key] = 0.0
                found[key] = row["state"]
        return found

    def id_of(self, key: Key) -> str:
        """The id in hex of the placement group; empty when there is none."""
        made = self._made.get(key)
        return "" if made is None else str(made.id.hex())

    def reserve(
        self, key: Key, bundles: list[tuple[str, dict[str, float]]], done: Callable[[bool], None]
    ) -> None:
        """Set these aside, (Ray's node, amounts) each; `done`, in a thread of its own, says whether
        they are. If not, nothing is held."""
        chosen = [(node, amounts) for node, amounts in bundles if amounts]
        if chosen:
            with self._lock:
                self._under_way[key] = None
            self._threads.submit(self._guarded, self._reserve, key, chosen, done)
        else:
            self._made[key] = None
            done(True)

    def _reserve(
        self, key: Key, bundles: list[tuple[str, dict[str, float]]], done: Callable[[bool], None]
    ) -> None:
        is_there = False
        try:
            made = placement_group(
                [amounts for _, amounts in bundles],
                strategy="PACK",
                name=f"{GROUP}{key[0].hex()}/{key[1]}",
                lifetime="detached",
                bundle_label_selector=[{NODE_LABEL: node} for node, _ in bundles],
            )
            self._born[key] = time.monotonic()
            self._made[key] = made
            is_there = made.wait(self._reserve_s)
            if not is_there:
                self._remove(key)
        finally:
            with self._lock:
                withdrawn = self._under_way.pop(key, None)
            if withdrawn is not None:
                self._withdraw(key, withdrawn)
            else:
                done(is_there)

    def withdraw(self, key: Key, freed: Callable[[], None]) -> None:
        """Take it back; `freed`, in a thread of its own, when Ray shows it as free."""
        with self._lock:
            if key in self._under_way:
                self._under_way[key] = freed
                return
        self._threads.submit(self._guarded, self._withdraw, key, freed)

    def _withdraw(self, key: Key, freed: Callable[[], None]) -> None:
        try:
            born = self._born.get(key, 0.0)
            group_id = self._remove(key)
            now = time.monotonic()
            until = now + _FREE_WITHIN_S
            if group_id:
                time.sleep(max(0.0, born + _SHOWN_AFTER_S - now))
            while group_id and _is_shown(group_id) and time.monotonic() < until:
                time.sleep(_LOOK_EVERY_S)
        finally:
            freed()

    def _remove(self, key: Key) -> str:
        made = self._made.pop(key, None)
        self._born.pop(key, None)
        if made is None:
            return ""
        remove_placement_group(made)
        return str(made.id.hex())

    def _guarded(self, action: Callable[..., None], *args: Any) -> None:
        try:
            action(*args)
        except Exception:
            traceback.print_exc()  # Ray's head is away, say: what waits hears a refusal


def _is_shown(group_id: str) -> bool:
    return any(group_id in name for amounts in available_by_node().values() for name in amounts)


def _key(name: str) -> Key | None:
    if not name.startswith(GROUP):
        return None
    group, _, attempt = name.removeprefix(GROUP).partition("/")
    try:
        return bytes.fromhex(group), int(attempt)
    except ValueError:
        return None
