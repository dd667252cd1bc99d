"""The node's process: a thin shell around the machines of leases, actors and shared memory.

One thread, one epoll loop. It never unpickles anything: what users wrote passes through as bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import sys
import time
import traceback
from typing import Any, NoReturn

import msgspec

from phalanx.control.actors import ActorTable
from phalanx.engines.declared_topology import read_topology
from phalanx.engines.embedded import session as sessions
from phalanx.engines.embedded import zygote
from phalanx.engines.embedded.connection import Connection, listen
from phalanx.engines.embedded.node_actors import ActorShell
from phalanx.engines.embedded.node_loop import NodeLoop
from phalanx.engines.embedded.node_requests import NodeRequests
from phalanx.engines.embedded.node_store import NodeStore
from phalanx.errors import ProtocolError
from phalanx.model.lifecycle import DEAD
from phalanx.node.leases import Demand, Lease, LeaseMachine
from phalanx.node.workers import WorkerPool, WorkerRecord
from phalanx.protocol.messages import (
    PROTOCOL_VERSION,
    ActorFailed,
    ActorLeaving,
    ActorReady,
    ActorUnreferenced,
    Blocked,
    Claimed,
    Dropped,
    Events,
    Granted,
    Hello,
    JobSetup,
    KillWorker,
    LeaseDue,
    LeaseReturned,
    LeaseWanted,
    LogLine,
    Refused,
    Reply,
    Request,
    Sealed,
    Settled,
    Stop,
    Terminate,
    Unblocked,
    Used,
    WorkerDied,
)
from phalanx.resources.instances import NodeResources
from phalanx.resources.sets import ResourceSet

_HOLD_STARTS_S = 1.0
_KEEP_EVENTS = 40_000


class NodeConfig(msgspec.Struct, kw_only=True):
    """What a node is started with."""

    session: sessions.Session
    resources: dict[str, float]
    labels: dict[str, str]
    object_store_bytes: int
    node_id: str
    preload: list[str] = []
    unit_resources: tuple[str, ...] = ("GPU",)
    prestart: int = 0
    memory_limit: float = 0.95
    lives_with_driver: bool = True
    topology: str = ""
    """How the devices are wired, see `declared_topology`; empty: not known."""


class Job(msgspec.Struct, kw_only=True):
    """A driver and what its workers need to run its code."""

    number: int
    driver: bytes
    setup: JobSetup
    log_to_driver: bool
    config: dict[str, Any]
    started: float


class NodeShell:
    """Runs the machines' effects: sockets, processes, files."""

    def __init__(self, config: NodeConfig, zygote_sock: socket.socket) -> None:
        self.config = config
        self.session = config.session
        self.peers: dict[bytes, Connection] = {}
        self._zygote = Connection(zygote_sock)
        listener = listen(self.session.socket_of(b"node"))
        self._loop = NodeLoop(self, listener, self._zygote)
        pool = WorkerPool(
            max(1, int(config.resources.get("CPU", 1))), lambda job: secrets.token_bytes(12) + job
        )
        wiring = read_topology(config.topology) if config.topology else None
        if wiring is not None and len(wiring.numa) < config.resources.get("GPU", 0):
            wiring = None  # of fewer devices than this node declares
        self.resources = NodeResources(
            config.resources, frozenset(config.unit_resources), topology=wiring
        )
        self.leases = LeaseMachine(self.resources, self, pool, config.node_id, config.labels)
        self.actors = ActorTable(ActorShell(self))
        self.store = NodeStore(self)
        self.jobs: dict[bytes, Job] = {}
        self.job_count = 0
        self.events: list[tuple[Any, ...]] = []
        self._requests = NodeRequests(self)
        self._environments: dict[bytes, dict[str, str]] = {}
        self._set_up: set[bytes] = set()
        self._deaths: dict[bytes, tuple[str, str]] = {}
        self._warming: dict[bytes, tuple[Connection, Reply]] = {}
        self._drain_waiters: list[tuple[Connection, int]] = []
        self._exit_waiters: list[tuple[set[bytes], Connection, int]] = []
        self.group_waiters: dict[bytes, list[tuple[Connection, int]]] = {}
        self._memory_checked = 0.0

    def serve(self, driver: Connection | None) -> None:
        """Until told to stop, or the driver that it lives with is gone."""
        if driver is not None:
            self._loop.watch(driver)
        self._loop.serve()

    def on_lost(self, connection: Connection) -> None:
        """A connection has ended."""
        if connection is self._zygote:
            self._loop.is_stopping = True
            return
        if connection.peer and self.peers.get(connection.peer) is connection:
            del self.peers[connection.peer]
            if connection.tag == "driver":
                self._driver_gone(connection.peer)
            elif connection.tag == "worker":
                self._process_gone(connection.peer, time.monotonic())

    def _driver_gone(self, driver: bytes) -> None:
        now = time.monotonic()
        self._process_gone(driver, now)
        for job_id, job in list(self.jobs.items()):
            if job.driver != driver:
                continue
            keep = {a.worker for a in self.actors.all() if a.detached and a.state != DEAD}
            for worker in self.leases.workers.of_job(job_id):
                if worker.worker_id not in keep:
                    self.stop_worker(worker, "its job ended", True)
            del self.jobs[job_id]
        if self.config.lives_with_driver:
            self._loop.is_stopping = True

    def _process_gone(self, process: bytes, now: float) -> None:
        self.leases.owner_gone(process, now)
        self.actors.process_gone(process)
        self.store.process_gone(process)
        for group in self.leases.groups.of_creator(process):
            self._requests.remove_group(group.group)

    def on_tick(self, now: float) -> None:
        """Time has passed."""
        self.leases.tick(now)
        self.actors.tick(now)
        self._requests.place_groups()
        if now - self._memory_checked > 0.25:
            self._memory_checked = now
            self._relieve_memory()

    def _relieve_memory(self) -> None:
        from phalanx.engines.embedded.node_memory import worker_to_end  # psutil: not at the start

        found = worker_to_end(self.leases.leases.values(), self.config.memory_limit)
        if found is not None:
            worker_id, reason = found
            self._deaths[worker_id] = (reason, "oom")
            self._kill(worker_id)

    # ---- messages ----------------------------------------------------------------------------

    def on_message(  # noqa: PLR0912, PLR0915
        self, connection: Connection, message: Any
    ) -> None:
        """A message came."""
        # One line a message: this is the node's table of what it understands.
        now = time.monotonic()
        peer = connection.peer
        match message:
            case Request(method="drained") if connection is self._zygote:
                self._answer_drained()
            case Request() if connection is self._zygote:
                self._worker_exited(message.args, now)
            case _ if not peer and not _introduces(message) and connection is not self._zygote:
                self._loop.lose(connection)
            case LogLine():
                self._log(message)
            case Hello():
                self._hello(connection, message, now)
            case Request():
                self._requests.answer(connection, message)
            case LeaseWanted():
                self._lease_wanted(peer, message, now)
            case LeaseReturned():
                self.leases.returned(message.lease, message.reusable, now)
                self._requests.place_groups()
            case KillWorker():
                lease = self.leases.leases.get(message.lease)
                if lease is not None and lease.demand.owner == peer:
                    self._kill(lease.worker.worker_id)
            case Blocked():
                self.leases.blocked(peer, now)
            case Unblocked():
                self.leases.unblocked(peer)
            case Sealed():
                self.store.sealed(message.name, message.size, peer)
            case Claimed():
                self.store.ledger.claimed(message.name, peer)
            case Settled():
                self.store.settled(message.worker, peer)
            case Used():
                self.store.ledger.used(message.name)
            case Dropped():
                self.store.dropped(message.name, message.size, peer)
            case ActorReady():
                self.actors.ready(message.actor, peer, self._pid_of(peer))
            case ActorFailed():
                self.actors.failed(message.actor, message.error)
            case ActorLeaving():
                self.actors.leaving(message.actor, message.reason)
            case ActorUnreferenced():
                self.actors.unreferenced(message.actor)
            case Events():
                self.events += message.rows
                if len(self.events) > _KEEP_EVENTS:
                    del self.events[: _KEEP_EVENTS // 2]
            case Stop() if connection.tag == "driver":
                self._loop.is_stopping = True
            case _:
                self._loop.lose(connection)

    def _hello(self, connection: Connection, message: Hello, now: float) -> None:
        is_known = self.leases.workers.get(message.process) is not None
        if message.version != PROTOCOL_VERSION or not is_known or message.process in self.peers:
            self._loop.lose(connection)
            return
        connection.peer = message.process
        connection.tag = message.kind
        self.peers[message.process] = connection
        if message.kind == "worker":
            self.leases.worker_ready(message.process, message.pid, now)
            self._end_warming(message.process[12:])

    def _end_warming(self, job: bytes) -> None:
        waiting = self._warming.pop(job, None)
        if waiting is not None:
            waiting[0].post(waiting[1])

    def register_job(self, connection: Connection, args: dict[str, Any]) -> dict[str, Any]:
        """A driver introduces itself; it gets its job and its id."""
        self.job_count += 1
        job_id = self.job_count.to_bytes(4, "big")
        driver = secrets.token_bytes(12) + job_id
        connection.peer, connection.tag = driver, "driver"
        self.peers[driver] = connection
        setup = JobSetup(
            job_id, args["path"], args["directory"], {}, args["namespace"], args.get("hook", b"")
        )
        self.jobs[job_id] = Job(
            number=self.job_count,
            driver=driver,
            setup=setup,
            log_to_driver=args["log_to_driver"],
            config=args,
            started=time.time(),
        )
        for _ in range(self.config.prestart):
            self.start_worker(self.leases.workers.prestart(job_id))
        return {"process": driver, "node_id": self.config.node_id}

    def reply_when_warm(self, connection: Connection, token: int, answer: dict[str, Any]) -> None:
        """Answer a new driver once its first worker is there: its first task need not wait."""
        if self.config.prestart:
            self._warming[connection.peer[12:]] = (connection, Reply(token, answer))
        else:
            connection.post(Reply(token, answer))

    def _lease_wanted(self, peer: bytes, message: LeaseWanted, now: float) -> None:
        resources = ResourceSet.from_mapping(message.resources)
        strategy = message.strategy
        group = strategy.get("group")
        self.leases.want(
            now,
            owner=peer,
            scheduling_class=message.scheduling_class,
            place=resources,
            hold=resources,
            count=message.count,
            job=peer[12:],
            environment=message.environment,
            priority=message.priority,
            group=None if group is None else (bytes.fromhex(group), strategy.get("bundle", -1)),
            strategy=strategy,
            seen=message.seen,
        )

    def environment(self, key: bytes, variables: dict[str, str]) -> None:
        """Remember what an environment's key stands for."""
        self._environments[key] = variables

    def _pid_of(self, worker_id: bytes) -> int:
        worker = self.leases.workers.get(worker_id)
        return 0 if worker is None else worker.pid

    def _log(self, message: LogLine) -> None:
        for worker in self.leases.workers.all():
            if worker.pid == message.pid:
                job = self.jobs.get(worker.job)
                path = os.path.join(self.session.logs, f"worker-{message.pid}.log")
                with open(path, "a", opener=_private) as file:
                    file.write(message.line + "\n")
                if job is not None and job.log_to_driver and job.driver in self.peers:
                    self.peers[job.driver].post(message)
                return

    def _worker_exited(self, args: dict[str, Any], now: float) -> None:
        worker_id = args["worker"]
        self._end_warming(worker_id[12:])
        worker = self.leases.workers.get(worker_id)
        reason, kind = self._deaths.pop(worker_id, ("", ""))
        if not kind and "reason" in args:
            reason, kind = args["reason"], "crashed"
            if self.leases.hold_starts(now, now + _HOLD_STARTS_S):
                print(f"phalanx: a worker is wanted, and {reason}", file=sys.stderr, flush=True)
        if not kind:
            code = args["code"]
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            reason, kind = f"worker process {args['pid']} ended with {how}", "crashed"
        connection = self.peers.get(worker_id)
        if connection is not None:
            self._read_last(connection)
        self.peers.pop(worker_id, None)
        lease = self.leases.worker_gone(worker_id, now)
        if connection is not None:
            self._loop.forget(connection)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.session.socket_of(worker_id))
        self._set_up.discard(worker_id)
        if worker is None:
            return
        self._answer_exits(worker_id)
        died = WorkerDied(worker_id, reason, kind)
        if lease is not None:
            if lease.demand.actor:
                self.actors.worker_died(lease.demand.actor, worker_id, reason)
            elif lease.demand.owner in self.peers:
                self.peers[lease.demand.owner].post(died)
        self._process_gone(worker_id, now)
        for peer, other in self.peers.items():
            if lease is None or peer != lease.demand.owner or lease.demand.actor:
                other.post(died)
        self.store.worker_gone(worker_id, set(self.peers))

    def _read_last(self, connection: Connection) -> None:
        """What a process said before it ended: that it left on its own will, for one."""
        with contextlib.suppress(ProtocolError):
            while last := connection.receive():
                for message in last:
                    self.on_message(connection, message)

    def reply_when_drained(self, connection: Connection, token: int) -> None:
        """Answer a request once everything printed so far has been passed on."""
        self._drain_waiters.append((connection, token))
        self._zygote.post(Request(0, "drain"))

    def _answer_drained(self) -> None:
        waiters, self._drain_waiters = self._drain_waiters, []
        for connection, token in waiters:
            connection.post(Reply(token, None))

    def reply_when_gone(self, workers: set[bytes], connection: Connection, token: int) -> None:
        """Answer a request once these processes have ended."""
        alive = {w for w in workers if self.leases.workers.get(w) is not None}
        if alive:
            self._exit_waiters.append((alive, connection, token))
        else:
            connection.post(Reply(token, None))

    def _answer_exits(self, worker_id: bytes) -> None:
        for alive, connection, token in self._exit_waiters:
            alive.discard(worker_id)
            if not alive:
                connection.post(Reply(token, None))
        self._exit_waiters = [entry for entry in self._exit_waiters if entry[0]]

    # ---- effects of the lease machine --------------------------------------------------------

    def start_worker(self, worker: WorkerRecord) -> None:
        """Fork a worker."""
        worker.is_started = True
        variables = self._environments.get(worker.environment, {})
        args = {"worker": worker.worker_id, "environment": variables}
        self._zygote.post(Request(0, "fork", args))

    def stop_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker's process."""
        self._deaths.setdefault(worker.worker_id, (reason, "exited"))
        connection = self.peers.get(worker.worker_id)
        if force or connection is None:
            self._kill(worker.worker_id)
        else:
            connection.post(Terminate(reason))

    def end_worker(self, worker: WorkerRecord, reason: str, force: bool) -> None:
        """End a worker's process for this reason, whatever it was to end for before."""
        self._deaths.pop(worker.worker_id, None)
        self.stop_worker(worker, reason, force)

    def _kill(self, worker_id: bytes) -> None:
        args = {"worker": worker_id, "signal": int(signal.SIGKILL)}
        self._zygote.post(Request(0, "kill", args))

    def granted(self, lease: Lease) -> None:
        """A lease has its worker: tell the owner, or make the actor."""
        worker = lease.worker
        connection = self.peers.get(worker.worker_id)
        if connection is not None and worker.worker_id not in self._set_up:
            job = self.jobs.get(lease.demand.job)
            if job is not None:
                self._set_up.add(worker.worker_id)
                connection.send(job.setup)
        if lease.demand.actor:
            if not self.actors.placed(lease.demand.actor, worker.worker_id):
                self.leases.returned(lease.number, True, time.monotonic())
            return
        owner = self.peers.get(lease.demand.owner)
        if owner is None:
            self.leases.returned(lease.number, True, time.monotonic())
            return
        owner.post(
            Granted(
                lease.demand.scheduling_class,
                lease.number,
                worker.worker_id,
                lease.resources,
                lease.devices,
            )
        )

    def due(self, lease: Lease) -> None:
        """Ask for a lease back."""
        owner = self.peers.get(lease.demand.owner)
        if owner is not None:
            owner.post(LeaseDue(lease.number))

    def refused(self, demand: Demand, reason: str, error: str) -> None:
        """Tell who waits why."""
        if demand.actor:
            if error:
                self.actors.refused(demand.actor, reason, error.encode())
            else:
                self._warn_actor(demand, reason)
            return
        owner = self.peers.get(demand.owner)
        if owner is not None:
            owner.post(Refused(demand.scheduling_class, reason, bool(error), error))

    def _warn_actor(self, demand: Demand, reason: str) -> None:
        record = self.actors.get(demand.actor)
        job = self.jobs.get(demand.job)
        if record is not None and job is not None and job.driver in self.peers:
            text = f"Actor {record.class_name} cannot be placed now: {reason}."
            self.peers[job.driver].post(Refused(0, text, False, ""))


def _introduces(message: Any) -> bool:
    """Whether a stranger may begin with this message."""
    is_driver = isinstance(message, Request) and message.method == "register_driver"
    return is_driver or isinstance(message, Hello)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def main() -> NoReturn:
    """Read the configuration from standard input, fork the zygote, serve."""
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver_fd = int(sys.argv[1])
    config = msgspec.convert(json.loads(sys.stdin.readline()), NodeConfig)
    node_end, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork() == 0:
        node_end.close()
        if driver_fd >= 0:
            os.close(driver_fd)
        zygote.run(zygote_end, config.session, config.preload)
    zygote_end.close()
    shell = NodeShell(config, node_end)
    driver = None
    if driver_fd >= 0:
        driver = Connection(socket.socket(fileno=driver_fd))
    code = 0
    try:
        shell.serve(driver)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sessions.remove(config.session)
    os._exit(code)


if __name__ == "__main__":
    main()
