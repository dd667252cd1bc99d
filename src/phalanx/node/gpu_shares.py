"""The part of a shared GPU that a holder may use, and the variables that tell programs about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from phalanx.model.gpu_sharing import BY_MPS, COMPUTE, GPU
from phalanx.node.bundle_pool import BundlePool
from phalanx.scheduler.devices.cards import card_ask
from phalanx.scheduler.devices.instances import Allocation, NodeResources
from phalanx.scheduler.devices.quantities import SCALE

_MIB = 2**20
CardMemory = Callable[[int], int]
"""Returns the bytes of memory of a GPU, by its number; 0 if unknown."""


class MpsDaemons(Protocol):
    """The MPS daemons of this node's GPUs: one for each GPU that is shared by MPS."""

    def directory(self, number: int, name: str) -> str:
        """Return the directory with the pipes of a GPU's daemon. If the daemon does not run, it is
        started.

        `name` is the GPU's UUID. Raises OSError if it cannot be started.
        """
        ...

    def end(self, number: int) -> None:
        """End the daemon of a GPU, if it runs."""
        ...

    def ended(self) -> dict[int, str]:
        """Return the GPUs whose daemons have ended of their own accord, each with how its daemon
        ended. Each end is returned once.
        """
        ...


class NoMpsDaemons:
    """The MPS daemons of a node that has none."""

    def directory(self, number: int, name: str) -> str:
        """Raise OSError, because the node has no MPS daemons."""
        raise OSError("nvidia-cuda-mps-control was not found")

    def end(self, number: int) -> None:
        """Do nothing."""

    def ended(self) -> dict[int, str]:
        """Return no GPUs, because the node has no MPS daemons."""
        return {}


def memory_of(held: Allocation, card_memory: CardMemory, is_limit: bool) -> dict[int, int]:
    """Return the bytes that are set aside for the holder on each shared GPU. Whole GPUs are left
    out.

    `is_limit`: return instead the bytes that the holder may use, which may be more.
    """
    ask = card_ask(held.resources)
    if ask is None or not ask.mode:
        return {}
    found: dict[int, int] = {}
    for number, _ in held.instances.get(GPU, ()):
        most = max(ask.limit, ask.memory) if is_limit else ask.memory
        size = most or ask.share * card_memory(number) // SCALE
        if size:
            found[number] = size
    return found


def memory_in(
    held: Allocation,
    pool: NodeResources | BundlePool,
    card_memory: CardMemory,
    is_limit: bool = True,
) -> dict[int, int]:
    """Return the result of `memory_of` for a holder in `pool`. `is_limit` is as in `memory_of`.

    A holder in a bundle has at most the bundle's memory on each GPU. If the holder requested no
    amount of its own, it has all of the bundle's memory.
    """
    own = memory_of(held, card_memory, is_limit)
    if not isinstance(pool, BundlePool):
        return own
    of_bundle = memory_of(pool.reservation, card_memory, is_limit)
    numbers = [number for number, _ in held.instances.get(GPU, ())]
    both = {n: min(own.get(n, most), most) for n, most in of_bundle.items() if n in numbers}
    return own | both


def mode_in(held: Allocation, pool: NodeResources | BundlePool) -> str:
    """Return how the holder's GPUs are shared; "" for whole GPUs."""
    outer = pool.reservation if isinstance(pool, BundlePool) else held
    ask = card_ask(outer.resources)
    return "" if ask is None else ask.mode


class GpuShares:
    """Makes the variables that tell programs which share of a GPU they may use."""

    def __init__(self, daemons: MpsDaemons, card_memory: CardMemory = lambda number: 0) -> None:
        self.daemons = daemons
        self.card_memory = card_memory
        self.names: dict[int, str] = {}
        """The UUIDs of GPUs by number, as far as they are known."""

    def variables(
        self, held: Allocation, pool: NodeResources | BundlePool, *, is_limited: bool = True
    ) -> dict[str, str]:
        """Return the variables for the programs of a holder; empty unless the holder shares GPUs.
        `is_limited`: whether the holder may use only its share of the memory.

        If the MPS daemon of the GPU does not run, it is started. Raises OSError if it cannot be
        started.
        """
        numbers = [number for number, _ in held.instances.get(GPU, ())]
        mode = mode_in(held, pool) if numbers else ""
        if not mode:
            return {}
        limits = memory_in(held, pool, self.card_memory) if is_limited else {}
        variables: dict[str, str] = {}
        if limits:
            parts = [limit / (self.card_memory(n) or limit) for n, limit in limits.items()]
            variables["PHALANX_GPU_MEMORY_LIMIT"] = str(min(limits.values()))
            variables["PHALANX_GPU_MEMORY_FRACTION"] = f"{min(parts):.4f}"
            variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{min(parts):.4f}"
        return variables | (self._of_mps(numbers[0], limits, held) if mode == BY_MPS else {})

    def _of_mps(self, number: int, limits: Mapping[int, int], held: Allocation) -> dict[str, str]:
        # The daemon sees one GPU, which it would number 0. So the GPU is named by its UUID.
        name = self.names.get(number, "")
        if not name:
            raise OSError(f"the UUID of GPU {number} has not been read yet")
        directory = self.daemons.directory(number, name)
        variables = {
            "CUDA_VISIBLE_DEVICES": name,
            "CUDA_MPS_PIPE_DIRECTORY": directory,
            "CUDA_MPS_LOG_DIRECTORY": directory,
        }
        if number in limits:
            variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={limits[number] // _MIB}M"
        if compute := held.resources.get(COMPUTE):
            variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(compute * 100 // SCALE, 1))
        return variables
