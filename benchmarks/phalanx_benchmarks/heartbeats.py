"""The cost of nodes' heartbeats for the head, without the network.

`run(clock)` measures this. Every simulated node reports once a second. `a core` is the fraction of
a core that the head needs to handle the reports, to look for silent nodes, and to compute the
changes for the other nodes. Each report is first decoded from bytes, as in a real head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.holds import Hold
from phalanx.protocol.report_messages import NodeReport

Clock = Callable[[], float]
Row = dict[str, Any]

SIZES = (100, 1_000, 10_000)
ROUNDS = 10
"""The number of simulated seconds. The fastest second counts, because other work on the machine can
only make a second slower.
"""
GIB = 2.0**30


class _Nobody:
    """A shell of the head that stores and sends nothing."""

    def node_changed(self, record: NodeRecord) -> None: ...

    def node_held(self, record: NodeRecord, kind: str, hold: Hold | None) -> None: ...

    def node_dead(self, record: NodeRecord, reason: str) -> None: ...


def run(clock: Clock, sizes: Sequence[int] = SIZES) -> list[Row]:
    """Measure nodes whose amounts all change each second, and nodes whose amounts never change."""
    return [_measure(clock, size, is_busy=is_busy) for size in sizes for is_busy in (True, False)]


def _measure(clock: Clock, size: int, *, is_busy: bool) -> Row:
    directory = NodeDirectory(_Nobody())
    for at in range(size):
        totals = {"CPU": 64.0, "GPU": 8.0, "memory": 512 * GIB, "object_store_memory": 128 * GIB}
        directory.join(
            0.0,
            NodeRecord(
                node_id=f"{at:056x}",
                prefix=at.to_bytes(6, "big"),
                host="10.0.0.1",
                port=6380,
                totals=totals,
            ),
        )
    decoder = msgspec.msgpack.Decoder(NodeReport)
    version, rounds_s = 0, []
    for second in range(1, ROUNDS + 1):
        frames = [_report(at, second if is_busy else 0) for at in range(size)]
        start = clock()
        for at, frame in enumerate(frames):
            directory.report(float(second), f"{at:056x}", decoder.decode(frame))
        directory.tick(float(second))
        version, rows = directory.changes_since(version)
        msgspec.msgpack.encode(rows)
        rounds_s.append(clock() - start)
    least_s = min(rounds_s)
    return {
        "heartbeats": "all changes" if is_busy else "nothing changes",
        "nodes": size,
        "µs each": 1e6 * least_s / size,
        "of a core": least_s,
    }


def _report(node: int, second: int) -> bytes:
    used = (node + second) % 64
    report = NodeReport(
        available={
            "CPU": 64.0 - used,
            "GPU": float(8 - used % 8),
            "memory": (512 - used) * GIB,
            "object_store_memory": (128 - used) * GIB,
        },
        devices={"GPU": [0] * (used % 8) + [10_000] * (8 - used % 8)},
        queued=[({"CPU": 1.0}, used), ({"CPU": 4.0, "GPU": 1.0}, 3)],
        running=used,
        run_s=0.01 * used,
        bandwidth=1e9,
    )
    return msgspec.msgpack.encode(report)
