"""GPU nodes as arrays: the cores and memory that are left, and what is left of each GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from phalanx.scheduler.placement.fragmentation.shape import WHOLE, Shape

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


class GpuNodes:
    """N nodes with up to G GPUs each, in the order in which equal nodes are preferred.

    `cpu_left`, `memory_left`: (N,), thousandths of a core and MiB. `gpu_left`: (N, G), thousandths
    of each GPU; 0 if a node has no such GPU, so that nothing ever fits there. `model`: (N,), an
    index into `model_names`. `hosted`: (N, G + 1), the number of pods that use 1, 2, … GPUs; column
    0 counts the pods that share a GPU. `version`: (N,), the number of the change that last touched
    a row. `changes`: the number of changes so far. A cache of answers compares these two to find
    the rows that it must compute again.
    """

    def __init__(
        self,
        cpu_milli: Sequence[int] | Ints,
        memory_mib: Sequence[int] | Ints,
        gpus: Sequence[int] | Ints,
        models: Sequence[str],
    ) -> None:
        self.cpu_total: Ints = np.array(cpu_milli, dtype=np.int64)
        self.memory_total: Ints = np.array(memory_mib, dtype=np.int64)
        self.gpus: Ints = np.array(gpus, dtype=np.int64)
        self.cpu_left = self.cpu_total.copy()
        self.memory_left = self.memory_total.copy()
        width = int(self.gpus.max(initial=0))
        self.gpu_left: Ints = np.where(np.arange(width) < self.gpus[:, None], WHOLE, 0)
        self.gpu_sum: Ints = self.gpus * WHOLE
        self.hosted: Ints = np.zeros((len(self.gpus), width + 1), dtype=np.int64)
        self.model_names = tuple(sorted(set(models)))
        index = {name: i for i, name in enumerate(self.model_names)}
        self.model: Rows = np.array([index[name] for name in models], dtype=np.intp)
        self.version: Ints = np.zeros(len(self.gpus), dtype=np.int64)
        self.changes = 0
        self._accepting: dict[tuple[str, ...], Flags] = {}

    def __len__(self) -> int:
        return len(self.gpus)

    @property
    def capacity_milli(self) -> int:
        """The thousandths of a GPU that all nodes have in total."""
        return int(self.gpus.sum()) * WHOLE

    @property
    def largest(self) -> tuple[int, int]:
        """The most thousandths of cores that any node has, and the most thousandths of GPUs.
        Policies divide amounts by them.
        """
        return int(self.cpu_total.max(initial=1)), int(self.gpus.max(initial=1)) * WHOLE

    def accepting(self, models: tuple[str, ...]) -> Flags:
        """Return a mask of the nodes whose GPU model is one of `models`, (N,); of all nodes if
        `models` is empty.
        """
        known = self._accepting.get(models)
        if known is None:
            wanted = np.array(
                [not models or name in models for name in self.model_names], dtype=bool
            )
            known = self._accepting[models] = wanted[self.model]
        return known

    def fits(self, rows: Rows, shape: Shape) -> Flags:
        """Return which nodes in `rows` can take a pod of this shape now."""
        good = (self.cpu_left[rows] >= shape.cpu_milli) & (
            self.memory_left[rows] >= shape.memory_mib
        )
        if shape.models:
            good &= self.accepting(shape.models)[rows]
        if shape.num_gpu:
            free = (self.gpu_left[rows] >= shape.gpu_milli).sum(axis=1)
            good &= free >= shape.num_gpu
        return np.asarray(good, dtype=np.bool_)

    def take(self, row: int, devices: Sequence[int], shape: Shape) -> None:
        """Book a pod on a node and its GPUs. Raises ValueError if the pod does not fit there."""
        self._check(row, devices, shape)
        left = self.gpu_left[row, list(devices)]
        if (
            self.cpu_left[row] < shape.cpu_milli
            or self.memory_left[row] < shape.memory_mib
            or (left < shape.gpu_milli).any()
        ):
            raise ValueError(f"{shape} does not fit on row {row}, devices {tuple(devices)}")
        self._book(row, devices, shape, -1)

    def give_back(self, row: int, devices: Sequence[int], shape: Shape) -> None:
        """Undo a booking. Raises ValueError if more would be given back than was taken."""
        self._check(row, devices, shape)
        left = self.gpu_left[row, list(devices)]
        if (
            self.cpu_left[row] + shape.cpu_milli > self.cpu_total[row]
            or self.memory_left[row] + shape.memory_mib > self.memory_total[row]
            or (left + shape.gpu_milli > WHOLE).any()
        ):
            raise ValueError(f"{shape} was not booked on row {row}, devices {tuple(devices)}")
        self._book(row, devices, shape, +1)

    def _check(self, row: int, devices: Sequence[int], shape: Shape) -> None:
        if len(set(devices)) != len(devices) or len(devices) != shape.num_gpu:
            raise ValueError(f"{shape} needs {shape.num_gpu} devices, not {tuple(devices)}")
        if any(not 0 <= d < self.gpus[row] for d in devices):
            raise ValueError(f"row {row} has {self.gpus[row]} GPUs, not {tuple(devices)}")

    def _book(self, row: int, devices: Sequence[int], shape: Shape, sign: int) -> None:
        self.cpu_left[row] += sign * shape.cpu_milli
        self.memory_left[row] += sign * shape.memory_mib
        for device in devices:
            self.gpu_left[row, device] += sign * shape.gpu_milli
        self.gpu_sum[row] += sign * shape.milli
        if shape.num_gpu:
            self.hosted[row, shape.kind] -= sign
        self.changes += 1
        self.version[row] = self.changes
