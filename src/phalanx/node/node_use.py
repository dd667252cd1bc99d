"""Remembers, over time, how much of a node's CPUs, GPUs and memory was in use, how much was
allocated, and how much there was in total. The page of the node shows this. The node answers the
page's requests, so that the head need not remember these amounts for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from phalanx.model.node_use import NodeUse, NumberOfNode, ProcessOfNode
from phalanx.node.dispatch import MessageTable
from phalanx.node.head_link import HeadLink
from phalanx.node.usage import Device
from phalanx.observe.series import Series
from phalanx.protocol.report_messages import NodeUseRead, ReadNodeUse

RESOURCES = ("GPU", "CPU", "memory")
MOST_PROCESSES = 500
"""The largest number of processes in an answer."""
Amounts = Mapping[str, float]


class NodeUsage:
    """The amounts of a node's resources over time."""

    def __init__(
        self,
        head: HeadLink,
        clock: Callable[[], float],
        holdings: Callable[[], tuple[Amounts, Amounts]],
        gpus: Callable[[], Mapping[int, Device]],
        processes: Callable[[], list[ProcessOfNode]],
    ) -> None:
        """`holdings` returns the total and the free amounts. `gpus` returns the readings by the
        numbers of GPUs. `processes` returns the processes that run now.
        """
        self._head = head
        self._clock = clock
        self._holdings = holdings
        self._gpus = gpus
        self._processes = processes
        self._series: dict[tuple[str, str], Series] = {}

    def handle_in(self, table: MessageTable) -> None:
        """Register the handler for the head's question."""
        table.on(ReadNodeUse, self._read)

    def add(self, now: float, used: Amounts) -> None:
        """Add the present amounts. `used`: the amounts in use on the machine, if they are known."""
        total, free = self._holdings()
        gpus = self._gpus()
        if gpus:
            used = {**used, "GPU": sum(busy for busy, _, _ in gpus.values())}
        for name in RESOURCES:
            if not total.get(name):
                continue
            held = max(total[name] - free.get(name, 0.0), 0.0)
            self._number("total", name).add(now, total[name])
            self._number("allocated", name).add(now, held)
            if name in used:
                self._number("used", name).add(now, used[name])

    def _number(self, what: str, name: str) -> Series:
        return self._series.setdefault((what, name), Series())

    def _read(self, message: ReadNodeUse) -> None:
        now = self._clock()
        numbers = [
            NumberOfNode(
                what=what,
                of=name,
                points=[
                    (round(now - one.at, 1), round(one.mean, 3))
                    for one in series.since(now - message.span_s, now)
                ],
            )
            for (what, name), series in self._series.items()
        ]
        use = NodeUse(
            numbers=[one for one in numbers if one.points],
            processes=self._processes()[:MOST_PROCESSES],
        )
        self._head.report(NodeUseRead(message.number, use))
