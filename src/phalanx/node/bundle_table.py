"""Bundles of placement groups on this node: they are reserved for an attempt, kept, and given back.

The head places a group by attempts, one after another, with rising numbers. Its messages may come
twice, late or never. So a reservation that nobody confirms is given back after a while, and an
attempt that ended here never begins again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from phalanx.errors import TaskPlacementGroupRemoved
from phalanx.model.ids import AttemptId, BundleId, GroupId
from phalanx.node.bundle_pool import BundlePool
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.wire_errors import code_of
from phalanx.scheduler.devices.instances import Allocation, NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

UNCONFIRMED_S = 30.0
"""Seconds for which a prepared bundle waits to be committed."""
REMEMBERED = 10_000
"""The number of removed groups whose ended attempts are remembered."""


class _Reservation(msgspec.Struct, kw_only=True, eq=False):
    attempt: int
    pool: BundlePool
    until: float
    is_committed: bool = False


class BundleTable:
    """This node's bundles of all placement groups."""

    def __init__(self, resources: NodeResources) -> None:
        self._resources = resources
        self._groups: dict[GroupId, dict[int, _Reservation]] = {}
        self._ended: dict[GroupId, int] = {}
        self._removed: dict[GroupId, None] = {}
        self._going: dict[AttemptId, list[BundlePool]] = {}
        """By (group, attempt): the bundles that were given back and are not free yet, because work
        still runs in one of them.
        """
        self._unconfirmed: dict[AttemptId, float] = {}
        """By (group, attempt): the time when an attempt that is not committed is given back,
        earliest first.
        """

    def prepare(
        self, group: GroupId, attempt: int, bundles: Mapping[int, ResourceSet], now: float
    ) -> bool:
        """Reserve all of these bundles or none. A repeated call gives the same answer.

        Raises ValueError for a bundle with a fractional number of devices above one.
        """
        if attempt <= self._ended.get(group, -1):
            return False
        held = self._of_attempt(group, attempt)
        if held:
            return {i: r.pool.resources for i, r in held.items()} == dict(bundles)
        self._supersede(group, attempt, bundles)
        taken: dict[int, Allocation] = {}
        for index, bundle in bundles.items():
            allocation = self._resources.acquire(bundle)
            if allocation is None:
                for other in taken.values():
                    self._resources.release(other)
                self._end_attempts(group, attempt)
                return False
            taken[index] = allocation
        self._end_attempts(group, attempt - 1)
        reservations = self._groups.setdefault(group, {})
        until = now + UNCONFIRMED_S
        for index, allocation in taken.items():
            pool = BundlePool(allocation)
            reservations[index] = _Reservation(attempt=attempt, pool=pool, until=until)
        self._unconfirmed[group, attempt] = until
        return True

    def commit(self, group: GroupId, attempt: int) -> bool:
        """Keep the bundles that the attempt reserved. Returns False if the reservation is gone."""
        held = self._of_attempt(group, attempt)
        for reservation in held.values():
            reservation.is_committed = True
        self._unconfirmed.pop((group, attempt), None)
        return bool(held)

    def take_over(self, place: BundleId, attempt: int, allocation: Allocation) -> bool:
        """Reserve a bundle of an earlier process of this node again, with the same devices. Returns
        False if the node has no room for it.
        """
        group, index = place
        if index in self._groups.get(group, {}) or not self._resources.retake(allocation):
            return False
        self._end_attempts(group, attempt - 1)
        held = _Reservation(attempt=attempt, pool=BundlePool(allocation), until=0.0)
        held.is_committed = True
        self._groups.setdefault(group, {})[index] = held
        return True

    def holding(self, place: BundleId) -> tuple[int, Allocation] | None:
        """Return (attempt, allocation) of a bundle on this node; None if it is not here."""
        held = self._groups.get(place[0], {}).get(place[1])
        return None if held is None else (held.attempt, held.pool.reservation)

    def give_back(self, group: GroupId, attempt: int, indexes: Iterable[int]) -> list[BundlePool]:
        """Take these bundles back from the group, together with the uncommitted bundles of all
        attempts up to this attempt.

        If a later attempt has reserved the bundles, this order was late, and the reservation stays.
        Returns the bundles in which work still runs; the caller must end that work. `settle`
        reports when they are free.
        """
        asked = set(indexes)
        reservations = self._groups.get(group, {})
        going = [
            index
            for index, held in reservations.items()
            if held.attempt <= attempt and (index in asked or not held.is_committed)
        ]
        if any(reservations[index].is_committed for index in going):
            _remember(self._removed, group, None)
        self._end_attempts(group, attempt)
        key = (group, attempt)
        self._going.setdefault(key, [])
        self._drop(group, going, key)
        return [pool for pool in self._going[key] if not pool.is_idle]

    def settle(self) -> list[AttemptId]:
        """Find each (group, attempt) whose returned bundles are all without work, and free these
        bundles. Returns each such (group, attempt), one time only.

        The bundles of an attempt become free in one step, because one message tells the head of all
        of them. Otherwise another bundle could get a device that the head still counts as held.
        Call this after `give_back`, and whenever a lease has ended.
        """
        settled = [key for key, pools in self._going.items() if all(pool.is_idle for pool in pools)]
        for key in settled:
            for pool in self._going.pop(key):
                self._resources.release(pool.reservation)
        return settled

    def tick(self, now: float) -> bool:
        """Give back bundles that were prepared and never committed. Returns whether resources
        became free.
        """
        late = [key for key, until in self._unconfirmed.items() if now >= until]
        for group, attempt in late:
            self._end_attempts(group, attempt)
            self._drop(group, list(self._of_attempt(group, attempt)), (group, attempt))
            self._release_idle((group, attempt))
        return bool(late)

    def pools(self, place: BundleId) -> Iterator[BundlePool]:
        """Yield the committed bundles on this node that work in `place` may use. `place` is (group,
        index); a negative index stands for all bundles of the group.
        """
        group, index = place
        for at, held in sorted(self._groups.get(group, {}).items()):
            # A single bundle must hold all resources of a task, while Ray may combine bundles.
            if held.is_committed and (index < 0 or index == at):
                yield held.pool

    def devices(self, group: GroupId, indexes: Iterable[int]) -> dict[int, dict[str, list[int]]]:
        """Return the numbers of the devices that are set aside for these bundles, by bundle and
        resource.
        """
        held = self._groups.get(group, {})
        return {index: held[index].pool.devices for index in indexes if index in held}

    def refusal(self, place: BundleId, request: ResourceSet) -> tuple[str, str] | None:
        """Return (reason, code of an error) if this node knows that a task with this request can
        never run in the bundle; otherwise None.
        """
        group = place[0]
        pools = list(self.pools(place))
        if pools and not any(pool.can_ever(request) for pool in pools):
            asked = request.to_mapping()
            return (f"no bundle of the placement group here holds {asked}", code_of(ValueError))
        if not pools and group in self._removed and group not in self._groups:
            return ("its placement group was removed", code_of(TaskPlacementGroupRemoved))
        return None

    def inventory(self) -> BundleInventory:
        """Return the bundles that this node holds, and the attempts that ended here."""
        held = [
            (group, index, one.attempt, one.is_committed)
            for group, reservations in self._groups.items()
            for index, one in sorted(reservations.items())
        ]
        return BundleInventory(held, dict(self._ended))

    def _of_attempt(self, group: GroupId, attempt: int) -> dict[int, _Reservation]:
        reservations = self._groups.get(group, {})
        return {i: held for i, held in reservations.items() if held.attempt == attempt}

    def _supersede(self, group: GroupId, attempt: int, bundles: Mapping[int, ResourceSet]) -> None:
        """Give back bundles of earlier attempts, because a group has one attempt at a time. These
        are the bundles that are not committed, and the bundles that the new attempt reserves again.
        """
        old = [
            index
            for index, held in self._groups.get(group, {}).items()
            if held.attempt < attempt and (not held.is_committed or index in bundles)
        ]
        self._drop(group, old, (group, attempt - 1))
        self._release_idle((group, attempt - 1))

    def _drop(self, group: GroupId, indexes: list[int], key: AttemptId) -> None:
        if not indexes:
            return
        reservations = self._groups.get(group, {})
        for index in indexes:
            held = reservations.pop(index)
            self._unconfirmed.pop((group, held.attempt), None)
            self._going.setdefault(key, []).append(held.pool)
        if not reservations:
            self._groups.pop(group, None)

    def _release_idle(self, key: AttemptId) -> None:
        """Free the idle bundles of an attempt immediately, without waiting for its other bundles.
        This is right for bundles that the head does not count as held.
        """
        pools = self._going.get(key, [])
        for pool in [pool for pool in pools if pool.is_idle]:
            pools.remove(pool)
            self._resources.release(pool.reservation)

    def _end_attempts(self, group: GroupId, attempt: int) -> None:
        _remember(self._ended, group, max(attempt, self._ended.get(group, -1)))


def _remember(
    memory: dict[GroupId, int] | dict[GroupId, None], group: GroupId, what: int | None
) -> None:
    memory.pop(group, None)
    memory[group] = what  # type: ignore[assignment]
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
