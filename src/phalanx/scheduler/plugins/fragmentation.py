"""The plugin fragmentation: places tasks so that the free parts of GPUs stay usable for later
tasks.

The policies are those of `phalanx.scheduler.placement.fragmentation`; `phalanx simulate` tries them
on traces. A task requests a part of a device (0.25) or whole devices. A filter turns away nodes on
which no single GPU has the requested part left. The scorer returns the policy's score.

The plugin does not read which GPU a placed task uses. Instead it assigns placed tasks to the GPUs
of their node by best fit, tasks with whole GPUs first. It learns what typical pods request from the
tasks of the snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import NUMBER, TEXT, Accepted, one_of
from phalanx.scheduler.cycle.amounts import CPU, MEMORY, Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, number, text
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.rows import BY_ONE, Ask, Change, Filter, Rows, Scorer
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.placement.fragmentation.catalogue import POLICIES, RECOMMENDED, maker_of
from phalanx.scheduler.placement.fragmentation.nodes import GpuNodes
from phalanx.scheduler.placement.fragmentation.placer import NodePolicy
from phalanx.scheduler.placement.fragmentation.published import FirstFit, Random
from phalanx.scheduler.placement.fragmentation.shape import WHOLE, Shape
from phalanx.scheduler.plugin_parts.devices import numbered_devices

MIB = 2**20
MAX_GPUS = 64
"""The largest number of GPUs of a node. Further GPUs are ignored."""
SEED = 0
"""The seed of the policy's random choices. The same snapshot always gives the same choices."""


class Fragmentation:
    """The plugin fragmentation. Arguments: `fragmentation.policy` (scarcity, fgd, bestfit, ...),
    `fragmentation.weight` (1), `fragmentation.resource` (nvidia.com/gpu), and
    `fragmentation.model-label` (gpu-model), the node label that names the GPU model. Raises
    UnknownPolicyError.
    """

    name = "fragmentation"
    accepts: ClassVar[Accepted] = {
        "fragmentation.policy": one_of(*POLICIES),
        "fragmentation.weight": NUMBER,
        "fragmentation.resource": TEXT,
        "fragmentation.model-label": TEXT,
    }

    def __init__(self, arguments: Arguments) -> None:
        self._maker = maker_of(text(arguments, "fragmentation.policy", RECOMMENDED))
        self._weight = number(arguments, "fragmentation.weight", 1.0)
        self._resource = text(arguments, "fragmentation.resource", "nvidia.com/gpu")
        self._label = text(arguments, "fragmentation.model-label", "gpu-model")

    def open(self, session: Session) -> None:
        cluster = session.cluster
        gpu = cluster.dims.index.get(self._resource)
        if gpu is None or not cluster.eq_classes:
            return
        self._shapes = {k.index: self._shape(k, gpu) for k in cluster.eq_classes}
        self._nodes = GpuNodes(
            cluster.capacity[:, CPU],
            cluster.capacity[:, MEMORY] // MIB,
            numbered_devices(session, self.name, cluster.capacity[:, gpu] // WHOLE, MAX_GPUS),
            [labels.get(self._label, "") for labels in cluster.labels],
        )
        self._held: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._settle(cluster)
        seen = Counter(k.index for k in cluster.eq_class)
        past = Counter(dict.fromkeys(self._shapes.values(), 0))
        for index, count in sorted(seen.items()):
            past[self._shapes[index]] += count
        draws = np.random.Generator(np.random.PCG64(SEED))
        self._policy = self._maker(self._nodes, past, draws)
        for shape, count in past.items():
            self._policy.observe(shape, count)

        def always_one(_: EquivalenceClass) -> int:
            return BY_ONE

        session.add("changed", self.name, self._changed)
        session.add(
            "filter",
            self.name,
            Filter(reason="devices", passes=self._passes, changes=always_one, curable=True),
        )
        if self._weight:
            session.add(
                "scorer", self.name, Scorer(name=self.name, score=self._score, changes=always_one)
            )
        if isinstance(self._policy, Random):
            session.add("best_node", self.name, self._best_node)

    def _shape(self, eq_class: EquivalenceClass, gpu: int) -> Shape:
        """Return a class's request in the form that the policies read. A request for more than one
        GPU is rounded up to whole GPUs.
        """
        milli = int(eq_class.request[gpu])
        count = -(-milli // WHOLE)
        return Shape(
            int(eq_class.request[CPU]),
            -(-int(eq_class.request[MEMORY]) // MIB),
            count,
            milli if count == 1 else WHOLE if count else 0,
            self._models(eq_class) if count else (),
        )

    def _models(self, eq_class: EquivalenceClass) -> tuple[str, ...]:
        """Return the GPU models that the class's selector or required affinity names; empty if any
        model is allowed.
        """
        for key, value in eq_class.shape.selector:
            if key == self._label:
                return (value,)
        affinity = eq_class.shape.affinity
        if affinity is None or not affinity.node_required:
            return ()
        named: set[str] = set()
        for matches in affinity.node_required:
            one_of = [m.values for m in matches if m.key == self._label and m.op == "In"]
            if not one_of:
                return ()
            named.update(one_of[0])
        return tuple(sorted(named))

    def _settle(self, cluster: Cluster) -> None:
        """Book the tasks that are on nodes. Leaving tasks are not booked, because their GPUs may be
        promised already.
        """
        standing = [
            t
            for t, node in enumerate(cluster.node_of)
            if node >= 0 and cluster.status[t] in j.HOLDING
        ]
        standing.sort(key=lambda t: -self._shapes[cluster.eq_class[t].index].milli)
        packer = FirstFit(self._nodes)
        for t in standing:
            self._book(t, cluster.node_of[t], self._shapes[cluster.eq_class[t].index], packer)

    def _book(self, task: int, node: int, shape: Shape, policy: NodePolicy) -> None:
        """Take GPUs for a task on a node. If the task does not fit, it gets none: it was promised
        GPUs that other tasks still hold.
        """
        if self._nodes.fits(np.array([node]), shape)[0]:
            devices = policy.pick_devices(node, shape)
            self._nodes.take(node, devices, shape)
            self._held[task] = (node, devices)

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes on which enough single GPUs have the requested share left. The
        session checks the totals.
        """
        shape = self._shapes[ask.eq_class.index]
        left = self._nodes.gpu_left[rows.index]
        good = (left >= max(shape.gpu_milli, 1)).sum(axis=1) >= shape.num_gpu
        return np.asarray(good, dtype=np.bool_)

    def _score(self, rows: Rows, ask: Ask) -> Vector:
        shape = self._shapes[ask.eq_class.index]
        fits = self._nodes.fits(rows.index, shape)
        out = np.zeros(len(rows))
        if fits.any():
            out[fits] = self._policy.score(rows.index[fits], shape) * self._weight
        return out

    def _best_node(self, task: int, nodes: Sequence[int], scores: Vector) -> int:
        return int(nodes[self._policy.pick_node(scores)])

    def _changed(self, change: Change) -> None:
        shape = self._shapes[change.eq_class.index]
        for task, node in zip(change.tasks, change.nodes, strict=True):
            if change.sign > 0:
                self._book(task, node, shape, self._policy)
            elif task in self._held:
                row, devices = self._held.pop(task)
                self._nodes.give_back(row, devices, shape)
