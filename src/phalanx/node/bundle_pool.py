"""A bundle of a placement group on this node: resources that were set aside for the work in the
bundle.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.model.gpu_sharing import COMPUTE, GPU, LIMIT, MEMORY, MPS
from phalanx.model.jobs.gang_view import NO_VIEW
from phalanx.scheduler.devices.instances import Allocation, NodeResources
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet

_OF_CARDS = frozenset({LIMIT, MPS, COMPUTE})


class BundlePool:
    """A reserved bundle. Work takes parts of it like parts of a small node. The devices keep their
    numbers on the real node.
    """

    def __init__(self, reservation: Allocation) -> None:
        self.reservation = reservation
        self.gang = NO_VIEW
        """The gang to which the bundle belongs, as work in the bundle sees it; empty for a bundle
        that belongs to no gang.
        """
        self._numbers = {name: [i for i, _ in taken] for name, taken in _items(reservation)}
        whole = dict(reservation.resources.to_mapping())
        shares: dict[str, int] = {}
        for name, taken in _items(reservation):
            whole[name] = float(len(taken))
            # parts of a split card count as whole cards then
            is_by_memory = name == GPU and MEMORY in whole
            if len(taken) == 1 and taken[0][1] < SCALE and not is_by_memory:
                shares[name] = SCALE - taken[0][1]
        for term in _OF_CARDS:
            whole.pop(term, None)
        self._inner = NodeResources(whole, frozenset(self._numbers))
        if shares:
            # The part of a shared device that is not the bundle's counts as taken for ever.
            self._inner.acquire(ResourceSet(shares))
        self._takers = 0

    @property
    def resources(self) -> ResourceSet:
        """The resources that the bundle reserves."""
        return self.reservation.resources

    @property
    def devices(self) -> dict[str, list[int]]:
        """The numbers of the bundle's devices, by resource."""
        return {name: list(numbers) for name, numbers in self._numbers.items()}

    @property
    def is_idle(self) -> bool:
        """Whether no work holds a part of the bundle."""
        return not self._takers

    def can_ever(self, request: ResourceSet) -> bool:
        """Whether the bundle could hold `request` if nothing ran in it."""
        return request.is_subset(self.resources)

    def can_now(self, request: ResourceSet) -> bool:
        """Whether `acquire` would succeed now."""
        return self.can_ever(request) and self._inner.can_now(_inside(request))

    def acquire(self, request: ResourceSet) -> Allocation | None:
        """Take a part of the bundle. If the part is not free, return None and take nothing."""
        if not self.can_ever(request):
            return None
        inner = self._inner.acquire(_inside(request))
        if inner is None:
            return None
        self._takers += 1
        outside = {
            name: tuple((self._numbers[name][i], units) for i, units in taken)
            for name, taken in inner.instances.items()
        }
        return Allocation(resources=request, instances=outside)

    def force_acquire(self, request: ResourceSet) -> Allocation:
        """Take CPUs for a task that continues after a wait, even if they are not free."""
        self._takers += 1
        return self._inner.force_acquire(request)

    def release(self, allocation: Allocation) -> None:
        """Undo `acquire` or `force_acquire`."""
        inside = {
            name: tuple((self._numbers[name].index(i), units) for i, units in taken)
            for name, taken in allocation.instances.items()
        }
        self._takers -= 1
        self._inner.release(Allocation(resources=_inside(allocation.resources), instances=inside))


def _inside(request: ResourceSet) -> ResourceSet:
    """Return a request without its terms, because the cards of the bundle already meet them."""
    if _OF_CARDS.isdisjoint(request):
        return request
    return ResourceSet({name: units for name, units in request.items() if name not in _OF_CARDS})


def _items(allocation: Allocation) -> list[tuple[str, tuple[tuple[int, int], ...]]]:
    instances: Mapping[str, tuple[tuple[int, int], ...]] = allocation.instances
    return list(instances.items())
