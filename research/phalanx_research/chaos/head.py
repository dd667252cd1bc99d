"""The simulated head: the production head with simulated connections and storage."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from phalanx.head.groups.record import KnownGroup
from phalanx.head.head import Head
from phalanx.head.jobs.probing import NoAnswers
from phalanx.head.outbox import Outbox
from phalanx.head.setup import HeadSetup, HeadShell
from phalanx.head.state_store import StateStore, read_state
from phalanx.model.holds import DRAIN, Hold
from phalanx.model.ids import CONTROL, PREFIX_BYTES, GroupId
from phalanx.model.lifecycle import ALIVE, CREATED, DEAD
from phalanx.model.own_time import OwnTime
from phalanx.protocol.bundle_messages import (
    CommitBundles,
    GiveBackBundles,
    MemberNews,
    PrepareBundles,
    RunNews,
)
from phalanx.protocol.frames import decode_body
from phalanx.protocol.membership_messages import Reported
from phalanx.protocol.messages import Hello
from phalanx.storage.memory import MemoryMark, MemoryShard
from phalanx.storage.storage import Storage
from phalanx_research.chaos.broken import Broken, group_name
from phalanx_research.chaos.cache_check import check_cache
from phalanx_research.chaos.disk import SimDisk, SimJournal
from phalanx_research.chaos.history import History
from phalanx_research.chaos.hosts import Host, raise_defect
from phalanx_research.chaos.network import End, Message, Network
from phalanx_research.chaos.options import Options
from phalanx_research.chaos.promises import Promises

_REPEATABLE = (PrepareBundles, CommitBundles, GiveBackBundles)
"""The messages that the head repeats until they are answered. They may be lost, delayed or
doubled.
"""
MIN_ROUND_S = 0.001
CHECK_EVERY = 5
"""Ticks between two checks of the scheduler's cache."""
_LATE_S = 3.0
_TROUBLE = 0.2
"""The probability of each fault of a message in `_REPEATABLE`."""


class HostClock:
    """The clocks of the head's machine. They may be ahead, or run at a wrong speed."""

    def __init__(self, host: Host) -> None:
        self.now, self.monotonic, self.wall = OwnTime(host.clock), host.clock, host.wall


class SimHead:
    """One process of the head, which does the work of `head.process` without sockets."""

    name = "head"

    def __init__(
        self,
        host: Host,
        network: Network,
        options: Options,
        promises: Promises,
        history: History,
        trouble: Collection[str],
        disk: SimDisk,
        mark: MemoryMark,
        life: int,
    ) -> None:
        """Start the head. `trouble` has the faults that may affect messages now. `life` is the
        number of this head, from 1. Raises StorageError if the head cannot start on this disk.
        """
        self._host = host
        self._write_s = options.write_s
        self._promises = promises
        self._history = history
        self._trouble = trouble
        self._life = life
        self._rng = host.kernel.rng(f"head {life}")
        self._nodes: dict[bytes, End] = {}
        self._since: dict[bytes, float] = {}
        """The time when each connection was made."""
        self._woken_at = 0.0
        self._ticks = 0
        self._clock = HostClock(host)
        storage = Storage([MemoryShard(disk)], marks=[mark])
        stored = read_state(storage)
        parts = host.kernel.rng(f"parts of head {life}") if options.has_parts else None
        self._journal = SimJournal(
            storage, disk, host, self._rng, self._write_s, self._round, parts
        )
        state_store = StateStore(self._journal)
        self.control = Head(
            Outbox(self._send, state_store),
            state_store,
            HeadShell(
                clock=self._clock,
                boot="simulated",
                rng=self._rng,
                prober=NoAnswers(),
                report_defect=raise_defect,
            ),
            stored=stored,
            setup=HeadSetup(cluster=storage.cluster, limits=options.limits),
        )
        network.add_process(host, CONTROL, self)
        host.every(options.head_tick_s, partial(host.guard, self._tick))

    def crash(self) -> None:
        """End the process. Only a first part of its pending data is written."""
        self._journal.crash()

    def _send(self, prefix: bytes, message: Any) -> None:
        end = self._nodes.get(prefix)
        if end is None:
            return
        if isinstance(message, PrepareBundles):
            self._promises.usage.asked(prefix, message, self._life)
        elif isinstance(message, CommitBundles):
            group = self.control.group_table.get(message.group)
            placed = sum(map(bool, group.nodes)) if group is not None else 0
            self._promises.gangs.begins(message.group, message.attempt, placed)
            self._job_begins(group, message.attempt)
        if isinstance(message, _REPEATABLE):
            self._send_repeatable(end, message)
        else:
            end.post(message)

    def _job_begins(self, group: KnownGroup | None, attempt: int) -> None:
        scheduler = self.control.gangs_if_used
        if scheduler is None or group is None:
            return
        gang = scheduler.registry.gangs.get(group.group)
        record = None if gang is None else scheduler.jobs.table.get(gang.job)
        if record is not None:
            self._promises.jobs.gang_begins(record, group, attempt)

    def _send_repeatable(self, end: End, message: Any) -> None:
        trouble = self._trouble
        if "twice" in trouble and self._rng.random() < _TROUBLE:
            self._host.later(self._rng.uniform(0.0, _LATE_S), partial(end.post, message))
        if "lose" in trouble and self._rng.random() < _TROUBLE:
            return
        if "late" in trouble and self._rng.random() < _TROUBLE:
            self._host.later(self._rng.uniform(0.0, _LATE_S), partial(end.post, message))
            return
        end.post(message)

    def drain(self, node_id: str) -> None:
        """Drain a node."""
        self.control.nodes.hold(node_id, DRAIN, Hold(reason="it is to be stopped"))
        self._round()

    def _tick(self) -> None:
        self.control.on_tick(self._clock.now())
        self._round()
        self._ticks += 1
        if self.control.gangs_if_used is not None and not self._ticks % CHECK_EVERY:
            check_cache(self.control.gangs_if_used)

    def _round(self) -> None:
        wake_at = self.control.on_round(self._clock.now())
        if wake_at < float("inf"):
            self._wake_in(max(wake_at - self._clock.now(), MIN_ROUND_S))
        self.control.state_store.flush()
        self._look()

    def _look(self) -> None:
        """Check the invariants against the head's present reports."""
        control, history = self.control, self._history
        for record in control.actor_table.all():
            if record.state == ALIVE:
                self._promises.actor_alive(record.actor, record.incarnation, record.worker)
        for node in control.nodes.all():
            if node.state == DEAD:
                history.dead_nodes.add(node.node_id)
        for group_id in sorted(history.groups):
            group = control.group_table.get(GroupId(group_id))
            if group is not None and group.state == CREATED:
                _check_places(control, group)

    def _wake_in(self, delay_s: float) -> None:
        """Run the head's next step after this delay, unless an earlier step is already planned."""
        at = self._host.kernel.now + delay_s
        if at >= self._woken_at > self._host.kernel.now:
            return
        self._woken_at = at
        self._host.later(delay_s, partial(self._host.guard, self._round))

    def on_message(self, end: End, message: Message) -> None:
        """Handle a message over a connection."""
        if end.tag == "node":
            prefix = end.peer[:PREFIX_BYTES]
            for news in decode_body(message.body) if isinstance(message, Reported) else ():
                if isinstance(news, MemberNews | RunNews):
                    self._promises.jobs.heard(prefix, news, self._since.get(prefix, 0.0))
            self.control.on_message(prefix, message)
        elif isinstance(message, Hello):
            prefix = message.process[:PREFIX_BYTES]
            before = self._nodes.get(prefix)
            if before is not None:
                before.close()
                self.on_end(before)
            end.peer, end.tag = message.process, "node"
            self._nodes[prefix], self._since[prefix] = end, self._host.kernel.now
        self._round()

    def on_end(self, end: End) -> None:
        """Handle the end of a connection."""
        prefix = end.peer[:PREFIX_BYTES]
        if end.tag == "node" and self._nodes.get(prefix) is end:
            del self._nodes[prefix]
            self._promises.jobs.cut_off(prefix, self._since.pop(prefix))
            self.control.on_lost(prefix)
        self._round()


def _check_places(control: Head, group: KnownGroup) -> None:
    """Raise Broken if a group counts as created although one of its bundles is not on a living
    node.
    """
    gone = [node for node in group.nodes if not control.nodes.is_alive(node)]
    if gone:
        raise Broken(
            f"group {group_name(group.group)} counts as created, but bundles of it are on "
            f"nodes that do not live: {', '.join(node[:12] or 'no node' for node in gone)}",
            ["head"],
        )
