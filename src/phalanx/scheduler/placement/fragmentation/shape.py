"""A pod's request, as placement on GPU nodes reads it."""

from __future__ import annotations

from dataclasses import dataclass

WHOLE = 1000
"""The thousandths of one whole GPU."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A request: thousandths of a core, MiB, a number of GPUs, and thousandths of each of these
    GPUs.

    `gpu_milli`: the share of the GPU if `num_gpu` is 1, 1000 for several GPUs, and 0 without GPUs.
    `models`: the allowed GPU models, sorted by name; empty if any model is allowed. Raises
    ValueError if an amount is negative, or if `num_gpu` and `gpu_milli` contradict each other.
    """

    cpu_milli: int
    memory_mib: int = 0
    num_gpu: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if self.num_gpu == 0 and self.gpu_milli:
            raise ValueError(f"gpu_milli is {self.gpu_milli}, but num_gpu is 0")
        if self.num_gpu == 1 and not 1 <= self.gpu_milli <= WHOLE:
            raise ValueError(f"gpu_milli is {self.gpu_milli}; for one GPU it must be 1 to 1000")
        if self.num_gpu > 1 and self.gpu_milli != WHOLE:
            raise ValueError(f"gpu_milli is {self.gpu_milli}; with several GPUs it must be 1000")

    @property
    def is_shared(self) -> bool:
        """Whether the pod takes a part of one GPU."""
        return self.num_gpu == 1 and self.gpu_milli < WHOLE

    @property
    def kind(self) -> int:
        """The number of whole GPUs that the pod takes; 0 for a part of one GPU and for no GPU."""
        return 0 if self.is_shared else self.num_gpu

    @property
    def milli(self) -> int:
        """The thousandths of a GPU that the pod takes of all its GPUs together."""
        return self.num_gpu * self.gpu_milli
