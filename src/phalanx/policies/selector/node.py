"""A node as the selector sees it: countable resources, installed devices as a mask, ports."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from phalanx.resources.devices import DeviceChooser, LowestIndex
from phalanx.resources.ports import Ports


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """Memory in MB, CPU cores, GPUs as a count and, where known, as a mask of device numbers.

    With both masks known, sums and differences are those of the masks (a bit is held once), and
    the count is their number of bits; otherwise the counts are added and subtracted.
    """

    memory_mb: int = 0
    cpu: int = 0
    gpus: int = 0
    mask: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        mask = self.mask | other.mask
        return Amounts(
            memory_mb=self.memory_mb + other.memory_mb,
            cpu=self.cpu + other.cpu,
            gpus=mask.bit_count() if self.mask and other.mask else self.gpus + other.gpus,
            mask=mask,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        mask = self.mask & ~other.mask
        return Amounts(
            memory_mb=self.memory_mb - other.memory_mb,
            cpu=self.cpu - other.cpu,
            gpus=mask.bit_count() if self.mask and other.mask else self.gpus - other.gpus,
            mask=mask,
        )


NOTHING = Amounts()


@dataclass(frozen=True, kw_only=True)
class SelectorNode:
    """One node: what it has, what is used, what was asked of it and is not running yet.

    `tried`: what was asked here before in vain. `rack`: where it stands. `chooser`: how devices
    are picked; a topology is one.
    """

    name: str
    total: Amounts
    used: Amounts = NOTHING
    reserved: Amounts = NOTHING
    tried: Amounts = NOTHING
    ports: Ports = field(default_factory=Ports)
    used_ports: Ports = field(default_factory=Ports)
    labels: tuple[str, ...] = ()
    gpu_type: str | None = None
    rack: str | None = None
    chooser: DeviceChooser = field(default_factory=LowestIndex)

    def available(self, skip_tried: bool = False) -> Amounts:
        """Total less used and reserved; with `skip_tried` also less what was tried in vain."""
        left = self.total - self.used - self.reserved
        return left - self.tried if skip_tried else left

    @property
    def free_ports(self) -> Ports:
        return self.ports - self.used_ports

    def reported(self, fresh: SelectorNode) -> SelectorNode:
        """This node after it reported anew: reservations and tried places stay."""
        return replace(fresh, reserved=self.reserved, tried=self.tried)

    def reserve(self, amounts: Amounts) -> SelectorNode:
        """This node after `amounts` were asked of it."""
        return replace(self, reserved=self.reserved + amounts)

    def choose_mask(self, count: int, skip_tried: bool = False) -> int:
        """The mask of `count` free devices by the node's rule; 0 when there are too few."""
        return choose_mask(self.available(skip_tried).mask, count, self.chooser)


def choose_mask(free: int, count: int, chooser: DeviceChooser) -> int:
    """`count` bits out of the mask `free` as `chooser` picks them; 0 when there are too few."""
    if not 0 < count <= free.bit_count():
        return 0
    numbers = [index for index in range(free.bit_length()) if free >> index & 1]
    return sum(1 << index for index in chooser.pick(numbers, count))
