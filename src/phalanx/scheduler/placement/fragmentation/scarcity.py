"""The policy scarcity: each pod takes as little as possible of the resources that are scarce for
later pods.

This policy is Phalanx's own. Like FGD it follows a gradient, but of another potential. For each
shape m seen so far, c_m is its share of the pods with GPUs, and d_m is this share times a pod's
request to the power 0.4. i_m(n) is the idle share of those GPUs of node n on which m fits; it is 0
if n cannot host m. u_m(n) is the same, but limited to the amount for which the node's cores and
memory are enough. U_m is the sum of u_m over all nodes. The worth of a node is

    V(n) = sum_m d_m / U_m * f(u_m(n)) + 1/2 * sum_m c_m * i_m(n)
    f(u) = (4 GPUs / p) * (u / 4 GPUs)^p,  p = 0.6

where the d_m / U_m are scaled to a sum of 1. A pod goes to the node where V falls least. d_m / U_m
is the gradient of the sum of d_m log U_m. Shapes that request a rare GPU model, a whole node or
many cores per GPU gain weight as the nodes that can host them run out. Because of f, the last room
for a shape on a node is worth more than the first. The second sum is FGD's measure with the
opposite sign. It distinguishes nodes on which nothing is scarce. Pods that differ only in memory
count as one shape, with their mean memory. Falls of V are rounded to steps of 40 thousandths, and
among equal nodes the first is taken. So nodes fill up one after another unless there is a reason
against it.

The mix is not known in advance but learned from arrivals. Weights are computed again when the
number of arrivals has doubled, or when 3 % of the cluster's GPUs have been requested since the last
time. With 10 % instead, shapes whose room ran out in between had a wrong weight for too long, and
some orders of arrival lost one or two percentage points.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from phalanx.scheduler.placement.fragmentation.mix import Mix, heaviest_mix
from phalanx.scheduler.placement.fragmentation.nodes import Flags, Floats, GpuNodes, Ints, Rows
from phalanx.scheduler.placement.fragmentation.potential import Potential
from phalanx.scheduler.placement.fragmentation.published import FirstFit, best_of, lowest_free
from phalanx.scheduler.placement.fragmentation.shape import WHOLE, Shape

POWER = 0.6
DEMAND_POWER = 0.4
"""The power to which a pod's request is raised in the demand of its shape."""
REFERENCE_MILLI = 4 * WHOLE
"""The room in thousandths of a GPU at which the slope of f is 1."""
COMMON_PART = 0.5
"""The weight of the second sum in the worth of a node."""
STEP_MILLI = 40
"""The step in thousandths of a GPU to which decreases of worth are rounded."""
MIN_ROOM_MILLI = 8 * WHOLE
"""The smallest room, in thousandths of a GPU, that weights are computed from. Without this limit, a
shape that fits nowhere would outweigh all others.
"""
TINY = 1e-12
RENEWED_AFTER = 0.03
"""The fraction of the cluster's GPUs that arrivals must request before weights are computed
again.
"""


class ScarcityDescent(FirstFit):
    """The policy that the module describes. It is recommended where pods share GPUs."""

    name = "scarcity"

    def __init__(
        self, nodes: GpuNodes, *, power: float | None = None, demand_power: float | None = None
    ) -> None:
        """`power`, `demand_power`: other values of POWER and DEMAND_POWER."""
        super().__init__(nodes)
        self._power = POWER if power is None else power
        self._demand_power = DEMAND_POWER if demand_power is None else demand_power
        self.generation = 0
        self._seen: Counter[Shape] = Counter()
        self._memory_mib: Counter[Shape] = Counter()
        self._arrivals = 0
        self._asked_milli = 0
        self._next_arrivals = 1
        self._next_milli = 0.0
        self._value: Potential | None = None

    def observe(self, shape: Shape, count: int = 1) -> None:
        self._arrivals += count
        if shape.num_gpu and count:
            if not self._seen:
                # before anything was learned, the scores were those of FirstFit
                self.generation += 1
            kind = replace(shape, memory_mib=0)
            self._seen[kind] += count
            self._memory_mib[kind] += count * shape.memory_mib
            self._asked_milli += shape.milli * count
        if self._arrivals >= self._next_arrivals or self._asked_milli >= self._next_milli:
            self._next_arrivals = 2 * self._arrivals
            self._next_milli = self._asked_milli + RENEWED_AFTER * self.nodes.capacity_milli
            self._value = None
            self.generation += 1

    def score(self, rows: Rows, shape: Shape) -> Floats:
        if not self._seen:
            return super().score(rows, shape)
        where, _, fall = self._learned().falls(rows, shape)
        return best_of(where, _steps(fall), len(rows))

    def pick_devices(self, row: int, shape: Shape) -> tuple[int, ...]:
        if not shape.is_shared:
            return lowest_free(self.nodes, row, shape)
        if not self._seen:
            return super().pick_devices(row, shape)
        _, device, fall = self._learned().falls(np.array([row], dtype=np.intp), shape)
        return (int(device[_steps(fall).argmax()]),)

    def _learned(self) -> Potential:
        """Return the potential. If it is out of date, it is computed again from the current mix and
        room.
        """
        if self._value is None:
            seen = {
                replace(kind, memory_mib=round(self._memory_mib[kind] / count)): count
                for kind, count in self._seen.items()
            }
            mix = heaviest_mix(seen, 1.0)
            usable = _Usable(mix, self._power, self._demand_power)
            self._value = Potential(self.nodes, mix, usable)
            room = self._value.room(np.arange(len(self.nodes), dtype=np.intp))
            usable.weigh(usable.fed(*room).sum(axis=0))
        return self._value


class _Usable:
    """The function V(n) of the module's docstring, for one mix."""

    def __init__(self, mix: Mix, power: float, demand_power: float) -> None:
        self._power = power
        asked = mix.num * mix.milli
        self._common: Floats = COMMON_PART * mix.share
        self._demand: Floats = mix.share * asked**demand_power
        self._weight = self._demand
        self._milli_per_core = asked / np.maximum(mix.cpu, 1)
        self._milli_per_mib = asked / np.maximum(mix.memory, 1)

    def weigh(self, room: Floats) -> None:
        """Set the shapes' weights by their scarcity. `room`: (M,), the cluster's room for each
        shape.
        """
        weight = np.where(room > 0, self._demand / np.maximum(room, MIN_ROOM_MILLI), 0.0)
        self._weight = weight / max(weight.sum(), TINY)

    def fed(self, cpu: Ints, memory: Ints, hosts: Flags, idle: Ints) -> Floats:
        """Return u_m of each node for each shape m, (T, M)."""
        fed = np.minimum(cpu[:, None] * self._milli_per_core, memory[:, None] * self._milli_per_mib)
        return np.where(hosts, np.minimum(idle, fed), 0.0)

    def __call__(self, cpu: Ints, memory: Ints, hosts: Flags, idle: Ints) -> Floats:
        fed = self.fed(cpu, memory, hosts, idle) / REFERENCE_MILLI
        scarce: Floats = fed**self._power @ self._weight
        common: Floats = np.where(hosts, idle, 0) @ self._common
        return scarce * (REFERENCE_MILLI / self._power) + common


def _steps(fall: Floats) -> Floats:
    """Return each fall of the worth as a score in whole steps. A tolerance is added, so that
    rounding errors do not decide.
    """
    return np.floor(-fall / STEP_MILLI + 1e-9)
