"""How a node's workers end: why, what they said last, who waits for it, what they printed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from phalanx.errors import ProtocolError
from phalanx.protocol.cluster_messages import ActorLost
from phalanx.protocol.node_messages import PREEMPTED, LogLine, WorkerDied
from phalanx.protocol.requests.node import DrainOutput
from phalanx.protocol.requests.request import LATER, Asker, Later
from phalanx.protocol.zygote_messages import Exited, ReadOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from phalanx.engines.embedded.connection import Connection
    from phalanx.engines.embedded.node.shell import NodeShell

_HOLD_STARTS_S = 1.0
_MEMORY_EVERY_S = 0.25


class NodeExits:
    """Turns the zygote's news into events of the machines."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self.reasons: dict[bytes, tuple[str, str]] = {}
        """Workers that were told to end: (why, kind)."""
        self._waiters: list[tuple[set[bytes], Callable[[], None]]] = []
        self._drain_waiters: list[Asker[None]] = []
        self._memory_looked_at = 0.0

    def relieve_memory(self, now: float) -> None:
        """End a worker when the machine's memory is used up; looked at now and then."""
        if now - self._memory_looked_at <= _MEMORY_EVERY_S:
            return
        self._memory_looked_at = now
        from phalanx.engines.embedded.node.memory import worker_to_end  # psutil: not at the start

        shell = self._shell
        found = worker_to_end(shell.leases.leases.values(), shell.config.memory_limit)
        if found is not None:
            worker_id, reason = found
            self.reasons[worker_id] = (reason, "oom")
            shell.kill(worker_id)

    def worker_exited(self, message: Exited, now: float) -> None:
        """The zygote has reaped a worker, or could not start it."""
        shell = self._shell
        worker_id = message.process
        if shell.members.exited(message):
            return
        worker = shell.leases.workers.get(worker_id)
        reason, kind = self._why(message, now)
        connection = shell.peers.get(worker_id)
        if connection is not None:
            self._read_last(connection)
        shell.peers.pop(worker_id, None)
        lease = shell.leases.worker_gone(worker_id, now)
        if connection is not None:
            shell.loop.forget(connection)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(shell.session.socket_of(worker_id))
        shell.jobs.worker_gone(worker_id)
        if worker is None:
            return
        self._answer(worker_id)
        died = WorkerDied(worker_id, reason, kind)
        owner = None if lease is None or lease.demand.actor else lease.demand.owner
        if lease is not None and lease.demand.actor:
            preempted = kind == PREEMPTED
            shell.control.tell(ActorLost(lease.demand.actor, worker_id, reason, preempted))
        elif owner is not None and owner in shell.peers:
            shell.peers[owner].post(died)
        shell.process_gone(worker_id, now)
        for peer, other in shell.peers.items():
            if peer != owner:
                other.post(died)
        shell.store.worker_gone(worker_id, set(shell.peers))

    def _why(self, message: Exited, now: float) -> tuple[str, str]:
        reason, kind = self.reasons.pop(message.process, ("", ""))
        if not kind and message.reason:
            reason, kind = message.reason, "crashed"
            if self._shell.leases.hold_starts(now, now + _HOLD_STARTS_S):
                print(f"phalanx: a worker is wanted, and {reason}", file=sys.stderr, flush=True)
        if not kind:
            code = message.code
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            reason, kind = f"worker process {message.pid} ended with {how}", "crashed"
        return reason, kind

    def _read_last(self, connection: Connection) -> None:
        """What a process said before it ended: that it left on its own will, for one."""
        with contextlib.suppress(ProtocolError):
            while last := connection.receive():
                for message in last:
                    self._shell.on_message(connection, message)

    def when_gone(self, workers: set[bytes], action: Callable[[], None]) -> None:
        """Do something once these processes have ended."""
        alive = {w for w in workers if self._shell.leases.workers.get(w) is not None}
        if alive:
            self._waiters.append((alive, action))
        else:
            action()

    def _answer(self, worker_id: bytes) -> None:
        waiters, self._waiters = self._waiters, []
        for alive, action in waiters:
            alive.discard(worker_id)
            if alive:
                self._waiters.append((alive, action))
            else:
                action()

    # ---- output ------------------------------------------------------------------------------

    def log(self, message: LogLine) -> None:
        """A worker printed a line: it goes to a file, and to its driver."""
        shell = self._shell
        for worker in shell.leases.workers.all():
            if worker.pid != message.pid:
                continue
            path = os.path.join(shell.session.logs, f"worker-{message.pid}.log")
            with open(path, "a", opener=_private) as file:
                file.write(message.line + "\n")
            known = shell.jobs.known.get(worker.job)
            driver = shell.jobs.driver_of(worker.job)
            if known is not None and known.log_to_driver and driver is not None:
                driver.post(message)
            return

    def drain_output(self, asker: Asker[None], request: DrainOutput) -> Later:
        """Answer once everything printed so far has been passed on."""
        self._drain_waiters.append(asker)
        self._shell.ask_zygote(ReadOutput())
        return LATER

    def drained(self) -> None:
        """The zygote has passed on all that was printed."""
        waiters, self._drain_waiters = self._drain_waiters, []
        for asker in waiters:
            asker.reply(None)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
