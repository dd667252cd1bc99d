"""Ray's nodes and their Runners as the scheduler's thread knows them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from phalanx.engines.ray.scheduler.control import RayControl
from phalanx.engines.ray.scheduler.options import SchedulerOptions
from phalanx.engines.ray.scheduler.ray_groups import NODE_LABEL
from phalanx.engines.ray.scheduler.reservation import Amounts
from phalanx.engines.ray.scheduler.runner import RunnerSetup
from phalanx.engines.ray.scheduler.view import Naming, RayNode, merged
from phalanx.head.nodes import NodeRecord
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import DEAD
from phalanx.protocol.cluster_messages import NodeReport
from phalanx.protocol.frames import encode_body

RESTART_S = 5.0
"""A Runner that was started and did not join is started again so much later."""
SILENT_S = 2.0
"""A Runner that has said nothing for so long is looked for, and started anew if it has ended."""


class Runners:
    """Those that have joined, what is to be told to them, and what Ray shows of their nodes."""

    def __init__(
        self,
        control: RayControl,
        options: SchedulerOptions,
        naming: Naming,
        start: Callable[[RunnerSetup], None],
        call: Callable[[Callable[[], None]], None],
    ) -> None:
        """`start` a Runner; `call` does something in this thread, from any other."""
        self._control = control
        self._options = options
        self._naming = naming
        self._start = start
        self._call = call
        self._handles: dict[bytes, Any] = {}
        self._outbox: dict[bytes, list[Any]] = {}
        self._living: dict[str, RayNode] = {}
        self._free: dict[str, Amounts] = {}
        self._reports: dict[bytes, NodeReport] = {}
        """What each Runner reported last, and when it was heard last."""
        self._heard: dict[bytes, float] = {}
        self._started: dict[str, float] = {}

    # ---- words -------------------------------------------------------------------------------

    def post(self, prefix: bytes, message: Any) -> None:
        """Tell a Runner something, with all else that this round has for it."""
        self._outbox.setdefault(prefix, []).append(message)

    def flush(self, epoch: int) -> None:
        """Send what was posted."""
        outbox, self._outbox = self._outbox, {}
        for prefix, messages in outbox.items():
            runner = self._handles.get(prefix)
            if runner is not None:
                sent = runner.receive.remote(epoch, encode_body(messages)).future()
                sent.add_done_callback(partial(self._sent, prefix, runner))

    def _sent(self, prefix: bytes, runner: Any, sent: Any) -> None:
        """What was sent has arrived, or is lost; in a thread of Ray's."""
        if sent.exception() is not None:
            self._call(lambda: self._lost(prefix, runner))

    def _lost(self, prefix: bytes, runner: Any) -> None:
        """A Runner was not reached: one that lives joins again, and is told anew."""
        if self._handles.get(prefix) is runner:
            del self._handles[prefix]
            self._control.on_lost(prefix)

    def may_speak(self, prefix: bytes, handle: Any) -> bool:
        """A Runner calls; `handle` is there when it joins. False when Ray has given its node up:
        then its lease is to run out."""
        node = self.ray_node(prefix)
        if node and self._living and node not in self._living:
            return False
        if handle is not None:
            self._handles[prefix] = handle
        return True

    def heard(self, prefix: bytes) -> None:
        """A Runner that has joined has said something."""
        self._heard[prefix] = time.monotonic()
        self._started.pop(self.ray_node(prefix), None)

    def reported(self, prefix: bytes, report: NodeReport) -> NodeReport:
        """A Runner's report as the control store is to hear it: what is free there, Ray knows."""
        self._reports[prefix] = msgspec.structs.replace(report, total=None)
        return merged(report, self._free.get(self.ray_node(prefix)))

    # ---- nodes -------------------------------------------------------------------------------

    def ray_node(self, prefix: bytes) -> str:
        """The id by which Ray knows a node of ours; empty for one that has never joined."""
        record = self._control.nodes.of_prefix(prefix)
        return "" if record is None else record.labels.get(NODE_LABEL, record.node_id)

    def viewed(self, rows: list[dict[str, Any]], free: dict[str, Amounts]) -> None:
        """What Ray shows of its nodes now."""
        self._living = self._naming.living(rows)
        self._free = {node: self._naming.ours(amounts) for node, amounts in free.items()}
        joined = set()
        now = time.monotonic()
        for record in self._control.nodes.living():
            node = self.ray_node(record.prefix)
            if not self._control.is_connected(record.prefix):
                continue
            if node not in self._living:
                self._handles.pop(record.prefix, None)
                self._control.on_lost(record.prefix)  # given up once its Runner must have ended all
                continue
            if now < self._heard.get(record.prefix, now) + SILENT_S:
                joined.add(node)  # else its Runner has perhaps ended
            self._report_again(record)
        for node_id, there in self._living.items():
            if node_id not in joined:
                self._want(there, now)

    def _report_again(self, record: NodeRecord) -> None:
        """Tell the control store what Ray has free now, if that has changed."""
        last = self._reports.get(record.prefix)
        if last is None:
            return
        whole = msgspec.structs.replace(last, total=record.totals)
        report = merged(whole, self._free.get(self.ray_node(record.prefix)))
        if report.available != self._control.nodes.row(record.node_id).available:
            report.total = None
            self._control.free_changed(record.prefix, report, self._heard[record.prefix])

    def _want(self, node: RayNode, now: float) -> None:
        if now < self._started.get(node.node_id, 0.0) + RESTART_S:
            return
        self._started[node.node_id] = now
        known = self._control.nodes.get(node.node_id)
        is_dead = known is not None and known.state == DEAD
        self._start(
            RunnerSetup(
                ray_node=node.node_id,
                node_id=_another(node.node_id) if is_dead else node.node_id,
                host=node.host,
                totals=node.totals,
                labels={**node.labels, NODE_LABEL: node.node_id},
                options=self._options,
            )
        )

    @property
    def are_all_here(self) -> bool:
        """Whether every node that Ray shows has a Runner that has joined."""
        here = {
            self.ray_node(record.prefix)
            for record in self._control.nodes.living()
            if self._control.is_connected(record.prefix)
        }
        return bool(self._living) and set(self._living) <= here


def _another(node_id: str) -> str:
    """An id for a node that was given up, and comes back as another that holds nothing: only the
    part that names its processes differs."""
    return os.urandom(PREFIX_BYTES).hex() + node_id[2 * PREFIX_BYTES :]
