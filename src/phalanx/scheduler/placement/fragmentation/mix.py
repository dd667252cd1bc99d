"""The pods that a cluster typically gets: their shapes, and how frequent each shape is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from phalanx.scheduler.placement.fragmentation.nodes import Flags, Floats, Ints, Rows
from phalanx.scheduler.placement.fragmentation.shape import Shape

COVERED = 0.95
"""The fraction of all pods that the typical shapes must cover (FGD, USENIX ATC 2023)."""


class Mix:
    """M typical shapes with their frequencies, as arrays.

    `share`: (M,), the frequencies, whose sum is 1. `cpu`, `memory`, `num`, `milli`: (M,), what a
    pod of each shape requests. `thresholds`: (K,), the different values of `milli` above 0 in
    ascending order. `level`: (M,), each shape's index in `thresholds`.
    """

    def __init__(self, shares: Mapping[Shape, float]) -> None:
        """`shares`: the frequency of each shape. The mix keeps their order. Raises ValueError if it
        is empty.
        """
        if not shares:
            raise ValueError("a mix needs at least one shape")
        self.shapes = tuple(shares)
        weights = np.array(list(shares.values()), dtype=np.float64)
        self.share: Floats = weights / weights.sum()
        self.cpu: Ints = np.array([s.cpu_milli for s in self.shapes], dtype=np.int64)
        self.memory: Ints = np.array([s.memory_mib for s in self.shapes], dtype=np.int64)
        self.num: Ints = np.array([s.num_gpu for s in self.shapes], dtype=np.int64)
        self.milli: Ints = np.array([s.gpu_milli for s in self.shapes], dtype=np.int64)
        self.thresholds: Ints = np.unique(self.milli[self.num > 0])
        self.level: Rows = np.searchsorted(self.thresholds, self.milli).astype(np.intp)

    def accepted(self, model_names: tuple[str, ...]) -> Flags:
        """Return which shapes can run on which GPU model, (models, M). Shapes without GPUs run on
        no model.
        """
        table = [
            [s.num_gpu > 0 and (not s.models or name in s.models) for s in self.shapes]
            for name in model_names
        ]
        return np.array(table, dtype=np.bool_).reshape(len(model_names), len(self.shapes))


def typical_mix(pods: Iterable[Shape] | Mapping[Shape, int], covered: float = COVERED) -> Mix:
    """Return the most frequent shapes that together make up the fraction `covered` of all pods.
    Equally frequent shapes are in the order of their numbers. Shapes that differ only in memory
    count as one.
    """
    counts: Counter[Shape] = Counter()
    for shape, count in Counter(pods).items():
        counts[replace(shape, memory_mib=0)] += count
    return heaviest_mix(counts, covered)


def heaviest_mix(weights: Mapping[Shape, int], covered: float) -> Mix:
    """Return the shapes with the most weight that together have the fraction `covered` of the total
    weight, heaviest first.
    """
    ranked = sorted(weights.items(), key=lambda item: (-item[1], *_numbers(item[0])))
    enough = covered * sum(weights.values())
    chosen: dict[Shape, float] = {}
    reached = 0
    for shape, weight in ranked:
        if reached >= enough:
            break
        chosen[shape] = weight
        reached += weight
    return Mix(chosen)


def _numbers(shape: Shape) -> tuple[int, int, int, tuple[str, ...], int]:
    return (shape.num_gpu, shape.gpu_milli, shape.cpu_milli, shape.models, shape.memory_mib)
