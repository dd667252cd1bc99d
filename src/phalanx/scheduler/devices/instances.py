"""The resources of one node: its totals, the amounts that are taken, and the numbered devices of
each holder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from phalanx.model.gpu_sharing import CARDS, COMPUTE, GPU, LIMIT, MEMORY, MPS, PROFILE, TERMS, TIME
from phalanx.scheduler.devices.cards import PLAIN, CardAsk, Cards, card_ask, pick_cards
from phalanx.scheduler.devices.devices import DeviceChooser, LowestIndex, check_whole, take
from phalanx.scheduler.devices.quantities import SCALE, from_units, to_units
from phalanx.scheduler.devices.sets import ResourceSet

IMPLICIT_PREFIX = "node:__internal_implicit_resource_"
"""The prefix of resources that exist once on every node without being declared."""


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """The amounts that one holder has.

    `instances` has an entry for each numbered resource: a list of (device number, units),
    ascending.
    """

    resources: ResourceSet
    instances: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


_LOWEST = LowestIndex()


class NodeResources:
    """The resources of one node. A request gets everything that it names, or nothing.

    Numbered resources (GPU and the names in `unit_resources`) are handed out as whole devices or as
    a share of one device. Every other resource is one divisible amount. GPUs can also be requested
    by their memory (`cards`).
    """

    def __init__(
        self,
        total: Mapping[str, float],
        unit_resources: frozenset[str] = frozenset({"GPU"}),
        topology: DeviceChooser | None = None,
        cards: Cards = PLAIN,
    ) -> None:
        """`topology` chooses which whole GPUs go together; without one, GPUs with the lowest
        numbers are taken. `cards`: facts about the GPUs, in addition to the memory in `total`.

        Raises ValueError for a negative or infinite total, and for part of a numbered device.
        """
        self._unit_resources = unit_resources
        self._chooser: DeviceChooser = topology if topology is not None else _LOWEST
        self._total: dict[str, int] = {}
        # may be divided; negative after the total was lowered (set_total)
        self._left: dict[str, int] = {}
        self._devices: dict[str, dict[int, int]] = {}  # the free units of each present device
        self._counts: dict[str, int] = {}  # the wanted number of devices, with closed ones
        self._closed: dict[str, frozenset[int]] = {}
        self._cards = cards
        self._modes: dict[int, str] = {}
        """The mode in which each shared GPU is shared."""
        self._withheld: dict[int, int] = {}
        """Units of GPUs that no holder has but whose memory is not free yet."""
        self.gpu_released: Callable[[int], None] = lambda number: None
        """A function that is called with the number of a GPU after one of its sharers has released
        its part.
        """
        for name in sorted(total):
            self.set_total(name, total[name])

    def acquire(self, request: ResourceSet) -> Allocation | None:
        """Take everything that `request` names. If any of it is not free, take nothing and return
        None. Raises ValueError if the request names a fractional number of devices above one.
        """
        instances = self._choose(request)
        if instances is None:
            return None
        for name, taken in instances.items():
            for index, units in taken:
                self._devices[name][index] -= units
        if GPU in instances and (ask := card_ask(request)) is not None and ask.mode:
            self._modes.update(dict.fromkeys((index for index, _ in instances[GPU]), ask.mode))
        self._subtract({n: u for n, u in request.items() if n not in instances and not _is_term(n)})
        return Allocation(resources=request, instances=instances)

    def retake(self, allocation: Allocation) -> bool:
        """Take again the exact amounts and devices of a holder that had them from an earlier
        process of this node.

        Returns False, and takes nothing, if an amount is not free or a device does not exist here.
        """
        for name, taken in allocation.instances.items():
            devices = self._devices.get(name, {})
            if any(devices.get(index, 0) < units for index, units in taken):
                return False
        amounts = {n: u for n, u in allocation.resources.items() if n not in allocation.instances}
        if any(units > self._left_of(name) for name, units in amounts.items()):
            return False
        for name, taken in allocation.instances.items():
            for index, units in taken:
                self._devices[name][index] -= units
        self._subtract(amounts)
        return True

    def force_acquire(self, request: ResourceSet) -> Allocation:
        """Take the amounts of `request` even if they are not free, because a blocked task that
        resumes does not wait again. The available amounts may fall below zero, and are reported as
        zero until other holders release enough. Raises ValueError if `request` names a numbered
        resource, because a device cannot be lent twice.
        """
        numbered = [name for name in request if name in self._unit_resources]
        if numbered:
            raise ValueError(f"numbered devices are never taken by force: {', '.join(numbered)}")
        self._subtract(request)
        return Allocation(resources=request)

    def release(self, allocation: Allocation) -> None:
        """Release the amounts that `acquire` or `force_acquire` returned. If more would then be
        free than the node has, changes nothing and raises ValueError.
        """
        self._check_return(allocation)
        for name, taken in allocation.instances.items():
            for index, units in taken:
                self._devices[name][index] += units
                if name == GPU and self._devices[name][index] == SCALE:
                    self._modes.pop(index, None)
            self._retire(name)
        for name, units in allocation.resources.items():
            if name not in allocation.instances and not _is_term(name):
                self._left[name] = self._left_of(name) + units
        ask = card_ask(allocation.resources) if GPU in allocation.instances else None
        if ask is not None and ask.mode:
            for index, _ in allocation.instances[GPU]:
                self.gpu_released(index)

    def can_ever(self, request: ResourceSet) -> bool:
        """Whether `request` is feasible here: the node could hold it if nothing ran. Closed devices
        count, because they may be reopened.
        """
        check_whole(request, self._unit_resources)
        has = self._total.get
        for name, units in request.items():
            if units > has(name, 0) and units > self._most_of(name):
                return False
        ask = card_ask(request) if GPU in request else None
        return ask is None or self._can_cards_ever(ask)

    def _can_cards_ever(self, ask: CardAsk) -> bool:
        """Whether this node, if nothing ran, would have the cards that a request needs."""
        empty = dict.fromkeys(self._kept_devices(GPU), SCALE)
        free = msgspec.structs.replace(self._cards, modes=())
        return pick_cards(empty, ask, free, self._card_memory) is not None

    def can_now(self, request: ResourceSet) -> bool:
        """Whether `acquire` would succeed now."""
        return self._choose(request) is not None

    def available(self) -> dict[str, float]:
        """Return the free amount of each of the node's resources, never below zero."""
        return {name: from_units(max(0, self._free(name))) for name in self._total}

    def total_units(self) -> Mapping[str, int]:
        """Return `total` in units of 1/10000."""
        return self._total

    def total(self) -> dict[str, float]:
        """Return the total of each of the node's resources, without those whose total is zero."""
        return {name: from_units(units) for name, units in self._total.items()}

    def devices_left(self) -> dict[str, list[int]]:
        """Return the units of 1/10000 that each device has left, by resource and device number; 0
        for a closed device.
        """
        return {
            name: [offered.get(index, 0) for index in kept]
            for name in self._devices
            if (kept := self._kept_devices(name))
            for offered in (self._open_devices(name),)
        }

    @property
    def cards(self) -> Cards:
        """The facts about the GPUs, including the mode of each shared GPU. The modes are left out
        if all shared GPUs are shared by time.
        """
        if not any(mode != TIME for mode in self._modes.values()):
            return self._cards
        modes = tuple(self._modes.get(index, "") for index in range(max(self._modes) + 1))
        return msgspec.structs.replace(self._cards, modes=modes)

    def modes(self) -> Mapping[int, str]:
        """Return the mode of each GPU that has sharers."""
        return self._modes

    def card_memory(self, number: int) -> int:
        """Return the memory of a GPU in bytes; 0 if it is unknown."""
        return self._cards.memory_of(number, self._card_memory)

    def card_sizes(self) -> list[int]:
        """Return the memory in bytes of each GPU that the node has, including closed ones."""
        return [self.card_memory(number) for number in self._kept_devices(GPU)]

    def set_cards(self, memory: tuple[int, ...], profiles: tuple[str, ...] = ()) -> bool:
        """Set the memory of each GPU in bytes, and the profile of each part of a split GPU, as the
        driver reports them. Empty values mean that the facts are unknown, as before the first call.
        Returns whether anything changed.
        """
        before = (self._cards, self._card_memory)
        cards = self._cards
        if memory and all(memory):
            kept = memory if min(memory) != max(memory) else ()
            cards = msgspec.structs.replace(cards, memory=kept)
            if max(memory) != self._card_memory:
                self.set_total(MEMORY, max(memory))
        if profiles and profiles != cards.profiles:
            cards = msgspec.structs.replace(cards, profiles=profiles)
            for profile in sorted({*profiles} - {""}):
                self.set_total(PROFILE + profile, profiles.count(profile))
        self._cards = cards
        return before != (self._cards, self._card_memory)

    def withhold(self, units: Mapping[int, int]) -> bool:
        """Withhold these units of GPUs, whose memory is not free yet, in addition to the units that
        holders have. A GPU with withheld units and without sharers gets no work at all. Returns
        whether anything changed.
        """
        if units == self._withheld:
            return False
        self._withheld = dict(units)
        return True

    def close(self, name: str, devices: frozenset[int]) -> bool:
        """Close exactly these devices of `name`, and open all others. A closed device is not handed
        out.

        Returns whether anything changed. The total shrinks by each closed device. A holder keeps
        its amounts of a closed device. When the holder has released them, they are not handed out
        again.
        """
        if self._closed.get(name, frozenset()) == devices:
            return False
        self._closed[name] = devices
        if name in self._counts:
            self._count(name)
        return True

    def set_total(self, name: str, amount: float) -> None:
        """Set the total of `name`. Holders keep their amounts.

        If the new total is below the taken amount, nothing of `name` is handed out until enough is
        released. Of numbered devices, free ones with the highest numbers are removed first. If the
        total grows, missing devices come back, those with the lowest numbers first. `amount`
        includes closed devices, although `total` does not.

        Raises ValueError for a negative or infinite amount, and for part of a numbered device.
        """
        try:
            units = to_units(amount)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if name in self._unit_resources:
            if units % SCALE:
                raise ValueError(
                    f"{name}: a node has a whole number of devices, not {amount:g}; "
                    f"a request may ask for a share of one"
                )
            self._set_devices(name, units // SCALE)
            return
        self._left[name] = self._left_of(name) + units - self._total_of(name)
        self._put_total(name, units)
        if name == MEMORY:
            self._put_total(LIMIT, units)
            self._put_total(CARDS, self._total.get(GPU, 0) if units else 0)
        elif name == MPS:
            self._put_total(COMPUTE, units)

    def _choose(self, request: ResourceSet) -> dict[str, tuple[tuple[int, int], ...]] | None:
        """Return the devices to take for each numbered resource of `request`; None if the node
        lacks any requested amount.
        """
        check_whole(request, self._unit_resources)
        chosen = {}
        by_memory = MEMORY in request
        for name, units in request.items():
            if _is_term(name):
                if units > self._total_of(name):
                    return None
                continue
            if units > self._free(name) and not (by_memory and name == GPU):
                return None
            if name in self._unit_resources:
                taken = self._take(name, units, request)
                if taken is None:
                    return None
                chosen[name] = taken
        return chosen

    def _take(
        self, name: str, units: int, request: ResourceSet
    ) -> tuple[tuple[int, int], ...] | None:
        left = self._open_devices(name)
        if name != GPU:
            return take(left, units, _LOWEST)
        ask = card_ask(request)
        if ask is None:
            return take(left, units, self._chooser)
        return pick_cards(left, ask, self.cards, self._card_memory, self._chooser)

    def _subtract(self, amounts: Mapping[str, int]) -> None:
        for name, units in amounts.items():
            self._left[name] = self._left_of(name) - units
            if name.startswith(IMPLICIT_PREFIX):
                self._total.setdefault(name, SCALE)  # now reported like any other device

    def _check_return(self, allocation: Allocation) -> None:
        for name, taken in allocation.instances.items():
            devices = self._devices.get(name, {})
            for index, units in taken:
                if devices.get(index, SCALE) + units > SCALE:
                    raise ValueError(f"{name} {index} was given back twice")
        for name, units in allocation.resources.items():
            if name in allocation.instances or _is_term(name):
                continue
            if self._left_of(name) + units > self._total_of(name):
                raise ValueError(f"{name}: {from_units(units):g} was given back twice")

    @property
    def _card_memory(self) -> int:
        """The memory of the largest GPU in bytes; 0 if it is unknown."""
        return self._total.get(MEMORY, 0) // SCALE

    def _total_of(self, name: str) -> int:
        return self._total.get(name, SCALE if name.startswith(IMPLICIT_PREFIX) else 0)

    def _most_of(self, name: str) -> int:
        count = self._counts.get(GPU if name == CARDS and self._card_memory else name, 0)
        return max(self._total_of(name), count * SCALE)

    def _left_of(self, name: str) -> int:
        return self._left.get(name, self._total_of(name))

    def _free(self, name: str) -> int:
        if name not in self._unit_resources:
            return self._left_of(name)
        closed = self._closed.get(name, ())
        taken = sum(
            SCALE - left
            for index, left in self._devices.get(name, {}).items()
            if index not in closed
        )
        return self._total_of(name) - taken - (self._kept_back(closed) if name == GPU else 0)

    def _kept_back(self, closed: Collection[int]) -> int:
        """Return the units that are withheld on open GPUs and that no holder has."""
        devices = self._devices.get(GPU, {})
        return sum(
            devices[index] - self._offered(index, devices[index])
            for index in self._withheld
            if index in devices and index not in closed
        )

    def _offered(self, index: int, left: int) -> int:
        """Return how many of a GPU's remaining units can be handed out."""
        withheld = self._withheld.get(index, 0)
        if not withheld:
            return left
        return max(left - withheld, 0) if index in self._modes else 0

    def _backlog(self, name: str) -> int:
        return len(self._devices[name]) - self._counts[name]

    def _kept_devices(self, name: str) -> dict[int, int]:
        """Return the units left on each device that remains in the total. If the total has shrunk,
        the devices with the highest numbers are missing.
        """
        devices = self._devices.get(name, {})
        return {index: devices[index] for index in sorted(devices)[: self._counts.get(name, 0)]}

    def _open_devices(self, name: str) -> dict[int, int]:
        """Return the units left on each open device that remains in the total, without the withheld
        units of GPUs.
        """
        closed = self._closed.get(name, ())
        kept = {i: left for i, left in self._kept_devices(name).items() if i not in closed}
        if name == GPU and self._withheld:
            return {index: self._offered(index, left) for index, left in kept.items()}
        return kept

    def _set_devices(self, name: str, count: int) -> None:
        devices = self._devices.setdefault(name, {})
        self._counts[name] = count
        index = 0
        while len(devices) < count:
            devices.setdefault(index, SCALE)
            index += 1
        self._retire(name)

    def _count(self, name: str) -> None:
        """Set the total of a numbered resource to the number of its open devices."""
        self._put_total(name, len(self._open_devices(name)) * SCALE)
        if name == GPU:
            self._put_total(CARDS, self._total.get(GPU, 0) if self._card_memory else 0)

    def _put_total(self, name: str, units: int) -> None:
        before = self._total.get(name, 0)
        if not units:
            self._total.pop(name, None)
            return
        last = next(reversed(self._total), "")
        self._total[name] = units
        if not before and name < last:
            self._total = dict(sorted(self._total.items()))

    def _retire(self, name: str) -> None:
        """Remove devices that are entirely free, those with the highest numbers first, while there
        are more devices than the total.
        """
        devices = self._devices[name]
        for index in sorted(devices, reverse=True):
            if self._backlog(name) <= 0:
                break
            if devices[index] == SCALE:
                del devices[index]
        self._count(name)


def _is_term(name: str) -> bool:
    """Return whether this is the name of a term. A card meets a term or does not meet it; an
    amount, in contrast, is used up.
    """
    return name in TERMS
