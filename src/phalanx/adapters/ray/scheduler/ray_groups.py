"""Ray's placement groups that hold reservations. They are created and removed outside the
scheduler's thread.
"""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from ray._raylet import PlacementGroupID
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from phalanx.adapters.ray.scheduler.options import GROUP
from phalanx.adapters.ray.scheduler.reservation import Amounts
from phalanx.model.ids import AttemptId, group_id_of
from phalanx.runtime.os.own_time import own_time

NODE_LABEL = "ray.io/node-id"
_THREADS = 32
_SHOWN_AFTER_S = 0.12
"""Seconds within which Ray's nodes report a new placement group. A group that lived for a shorter
time may never be reported.
"""
_FREE_WITHIN_S = 2.0
"""Seconds for which a removed placement group counts as holding amounts that Ray reports as taken.
After that, such amounts count as used by other work.
"""

Freed = Callable[[], None]


class _Going(msgspec.Struct, kw_only=True, eq=False):
    """A removed placement group whose amounts Ray may still report as taken."""

    group_id: str
    not_before: float
    until: float
    freed: Freed


class RayGroups:
    """The detached placement groups, by (group, attempt). No method waits for Ray."""

    def __init__(self, reserve_s: float) -> None:
        self._reserve_s = reserve_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="phalanx-reserve")
        self._made: dict[AttemptId, PlacementGroup] = {}
        self._born: dict[AttemptId, float] = {}
        self._lock = threading.Lock()
        self._under_way: dict[AttemptId, Freed | None] = {}
        """The placement groups about which Ray has not answered yet. The value is None or, if a
        group was withdrawn in the meantime, the callback for its removal.
        """
        self._going: list[_Going] = []
        self._strays: set[AttemptId] = set()

    def adopt(self) -> dict[AttemptId, str]:
        """Take over the placement groups that earlier schedulers have left. Returns their
        states.
        """
        found = {}
        for key, group, state in _living():
            self._made[key] = group
            found[key] = state
        return found

    def id_of(self, key: AttemptId) -> str:
        """Return a placement group's id in hex; empty if there is no group."""
        made = self._made.get(key)
        return "" if made is None else str(made.id.hex())

    def reserve(
        self, key: AttemptId, bundles: list[tuple[str, Amounts]], done: Callable[[bool], None]
    ) -> None:
        """Ask Ray to reserve these bundles, each given as (Ray's node, amounts).

        `done` is called, possibly in another thread, with True if all bundles are reserved, and
        with False if none is.
        """
        if not bundles:
            done(True)
            return
        with self._lock:
            self._under_way[key] = None
        self._threads.submit(self._reserve, key, bundles, done)

    def _reserve(
        self, key: AttemptId, bundles: list[tuple[str, Amounts]], done: Callable[[bool], None]
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
            self._born[key] = own_time()
            self._made[key] = made
            is_there = made.wait(self._reserve_s)
        except Exception:
            traceback.print_exc()  # for example while Ray's head is away: counts as refused
        with self._lock:
            withdrawn = self._under_way.pop(key, None)
        if withdrawn is not None:
            self._withdraw(key, withdrawn)
            return
        if not is_there:
            self._withdraw(key, lambda: None)
        done(is_there)

    def withdraw(self, key: AttemptId, freed: Freed) -> None:
        """Remove a reservation. `freed` is called in another thread when Ray reports its resources
        as available.
        """
        with self._lock:
            if key in self._under_way:
                self._under_way[key] = freed
                return
        self._threads.submit(self._withdraw, key, freed)

    def _withdraw(self, key: AttemptId, freed: Freed) -> None:
        born = self._born.pop(key, 0.0)
        made = self._made.pop(key, None)
        if made is None:
            freed()
            return
        try:
            remove_placement_group(made)
        except Exception:
            traceback.print_exc()  # `sweep` tries again
        now = own_time()
        self._going.append(
            _Going(
                group_id=made.id.hex(),
                not_before=born + _SHOWN_AFTER_S,
                until=now + _FREE_WITHIN_S,
                freed=freed,
            )
        )

    # ---- for the thread that watches nodes ---------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether any removed placement group may still hold amounts."""
        return bool(self._going)

    def seen(self, free: Mapping[str, Amounts], now: float) -> list[Freed]:
        """Compare the amounts of removed groups with the amounts that Ray reports as available.
        Returns the callbacks of the groups whose amounts are now available.
        """
        shown = " ".join(name for amounts in free.values() for name in amounts if "_group_" in name)
        over = [
            one
            for one in list(self._going)
            if now >= one.until or (now >= one.not_before and one.group_id not in shown)
        ]
        for one in over:
            self._going.remove(one)
        return [one.freed for one in over]

    def sweep(self, known: Iterable[AttemptId]) -> None:
        """Remove placement groups of Ray that are not in `known`, such as those whose removal
        failed.

        A group that was just requested must stay, so a group is removed only when two successive
        calls have found it.
        """
        strays = {key: group for key, group, _ in _living()}
        for key in [*known, *self._made, *self._under_way]:
            strays.pop(key, None)
        for key in self._strays & strays.keys():
            with contextlib.suppress(Exception):
                remove_placement_group(strays[key])
        self._strays = set(strays)


def _living() -> Iterable[tuple[AttemptId, PlacementGroup, str]]:
    rows: dict[str, dict[str, Any]] = placement_group_table()
    for row in rows.values():
        key = _key(row["name"])
        if key is not None and row["state"] != "REMOVED":
            group_id = PlacementGroupID.from_hex(row["placement_group_id"])
            yield key, PlacementGroup(group_id), row["state"]


def _key(name: str) -> AttemptId | None:
    if not name.startswith(GROUP):
        return None
    group, _, attempt = name.removeprefix(GROUP).partition("/")
    try:
        return group_id_of(group), int(attempt)
    except ValueError:
        return None
