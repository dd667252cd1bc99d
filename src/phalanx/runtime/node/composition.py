"""Builds a node from its machines and the processes, sockets and files that they use.

One loop runs in one thread. It never unpickles: user data is only passed on as bytes.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from phalanx.errors import ProtocolError
from phalanx.model.node_deaths import PARENT_KILLED
from phalanx.node.devices import DeviceReading, NoDeviceReading
from phalanx.node.directories import DirectoryReading, NoDirectories
from phalanx.node.effects import NodeEffects
from phalanx.node.kept_members import NotKeeping
from phalanx.node.node import Membership, Node
from phalanx.node.object_store import ObjectStore
from phalanx.node.peers import ACCOUNT
from phalanx.node.taking_over import TakingOver
from phalanx.observe.devices import DeviceSample
from phalanx.observe.metrics.catalogue import NODE
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.fork_messages import Began, Exited, OutputRead
from phalanx.protocol.gateway_messages import Pulled
from phalanx.protocol.handshake import Status
from phalanx.protocol.node_messages import LogLine
from phalanx.runtime.devices.client import DeviceProcess
from phalanx.runtime.devices.mps import MpsControl
from phalanx.runtime.node.config import NodeConfig
from phalanx.runtime.node.fork_servers import ForkServers, NodeForks
from phalanx.runtime.node.logs import NodeLogFiles
from phalanx.runtime.node.object_files import SessionFiles, ThreadedSpill
from phalanx.runtime.node.reach import NodeConnections, Reach
from phalanx.runtime.node.setup import node_setup
from phalanx.runtime.node.taking_over import EarlierProcesses
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.adopted_commands import AdoptedCommands
from phalanx.runtime.os.check_programs import CheckCommands
from phalanx.runtime.os.connection import Connection, listen
from phalanx.runtime.os.connection_loop import ConnectionLoop
from phalanx.runtime.os.directory_space import DirectorySpace, Watched
from phalanx.runtime.os.fork_client import CommandClient, how_it_ended
from phalanx.runtime.os.job_files import JobDirectories
from phalanx.runtime.os.kept_records import KeptRecords
from phalanx.runtime.os.machine_counters import read_machine
from phalanx.runtime.os.memory_use import SessionMemory
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.ports import is_port_free
from phalanx.runtime.os.session_keeper import SessionKeeper
from phalanx.runtime.os.system import log_defect, say, since_boot
from phalanx.runtime.os.usage_meter import ThreadUsageMeter

if TYPE_CHECKING:
    from phalanx.node.member_effects import CommandEffects
    from phalanx.runtime.node.cluster_part import ClusterPart
    from phalanx.runtime.node.memory import MemoryMonitor
    from phalanx.runtime.node.user_forks import UserForks
    from phalanx.runtime.os.owned_job_files import OwnedJobDirectories

LOOK_AT_MEMORY_EVERY_S = 0.25


class EmbeddedNode:
    """The node's process: passes events of sockets, pipes and clocks to the machines."""

    def __init__(
        self,
        config: NodeConfig,
        fork_server: socket.socket,
        fork_server_pid: int,
        servers: ForkServers,
    ) -> None:
        """`fork_server`: the socket to the fork server. `servers` starts the next fork server."""
        self._config = config
        self._forks = NodeForks(
            fork_server, fork_server_pid, servers, config.session.socket_of, own_time
        )
        listener = listen(config.session.socket_of(b"node"))
        self.loop = ConnectionLoop(self, listener, self._forks.connection)
        self._look_at_memory_at = 0.0
        self._keeper = SessionKeeper(config.session)
        self._head_wakes_at = math.inf
        """The time when a head in this process next has something to do."""
        self._memory: MemoryMonitor | None = None
        self._reader: DeviceProcess | None = None
        self._devices = self._device_reading()
        self._checks = CheckCommands(config.checks, config.session.logs)
        self._adopted = AdoptedCommands(self._command_exited)
        self._commands = CommandClient(self._forks, JobDirectories(config.session.jobs))
        self._users: UserForks | None = None
        self._job_files = JobDirectories(config.session.jobs)
        if config.launch:
            self._users, self._job_files = self._owned_work()
        self._records = self._kept_records()
        self.is_restarting = False
        """Whether the process ends so that the node's next process continues with its commands."""
        self._mps = MpsControl(config.session.directory)
        self.has_lost_fork_server = False
        """Whether the fork server has ended for good."""
        self._cluster: ClusterPart | None = None
        self.node: Node[Membership]
        setup = node_setup(config)
        if config.member is None:
            from phalanx.runtime.node.alone import NoReach, node_alone

            effects = self._effects(NoReach(self._pulled))
            self.node = node_alone(setup, effects, self._head_wakes, config.spilling)
        else:
            # Imported only in a cluster: these modules would take a third of a node's start.
            from phalanx.runtime.node.cluster_part import ClusterPart, ClusterReach

            reach = ClusterReach(config, config.member, self.loop)
            effects = self._effects(reach)
            self._cluster = ClusterPart(
                config, config.member, self.loop, reach, setup, effects, self._keeper.remember
            )
            self.node = self._cluster.node
        self._forks.ordered = self.node.fork_watch.ordered
        if self._records is not None:
            self._take_over(self._records)

    def _take_over(self, records: KeptRecords) -> None:
        """Continue with the members of an earlier process of this node."""
        if self._users is not None:
            from phalanx.runtime.node.earlier_accounts import EarlierAccounts

            of_accounts = EarlierAccounts(records, self._config.session.kept, self._users)
            TakingOver(self.node, of_accounts, own_time).take_over()
            of_accounts.settle()
            return
        self._forks.adopted = self._adopted
        earlier = EarlierProcesses(records, self._adopted)
        TakingOver(self.node, earlier, own_time).take_over()
        self.loop.read_from(self._adopted.fileno, self._adopted.step)

    def _kept_records(self) -> KeptRecords | None:
        if not self._config.keeps_commands:
            return None
        kept = self._config.session.kept
        if self._users is not None:
            return KeptRecords(kept, self._users.run_kept, own_time, self._users.forget)
        return KeptRecords(kept, self._commands.run_kept, own_time)

    def _owned_work(self) -> tuple[UserForks, OwnedJobDirectories]:
        """Return the parts that run jobs under the accounts of their submitters."""
        # This is not needed where jobs run as the node's account.
        from phalanx.runtime.daemons.shared_sockets import SHARED_DIR
        from phalanx.runtime.node.user_forks import UserForks
        from phalanx.runtime.os.owned_job_files import OwnedJobDirectories

        files = OwnedJobDirectories(self._config.session.jobs)
        config, variables = self._config, {}
        if config.shared_dir:  # there, commands in jobs find the head by their accounts
            variables = {SHARED_DIR: config.shared_dir}
        kept = config.session.kept if config.keeps_commands else ""
        here = sorted(os.sched_getaffinity(0))
        is_real = config.resources.get("CPU", 0.0) <= len(here)
        users = UserForks(
            self.loop,
            config.launch,
            files,
            own_time,
            self._command_exited,
            say,
            variables,
            kept,
            here if is_real else (),
        )
        files.admit = users.admit
        return users, files

    def _effects(self, reach: Reach) -> NodeEffects:
        session, loop, forks = self._config.session, self.loop, self._forks
        commands: CommandEffects = self._users or self._commands
        return NodeEffects(
            clock=own_time,
            monotonic=since_boot,
            wall=time.time,
            make_unique=token_bytes,
            connections=NodeConnections(loop, reach),
            forks=forks,
            fork_server=forks,
            commands=commands,
            keeping=self._records or NotKeeping(),
            job_files=self._job_files,
            directories=self._directories,
            memory=SessionMemory(),
            usage=ThreadUsageMeter(),
            process_usage=ThreadUsageMeter(),
            read_machine=read_machine,
            devices=self._devices,
            checks=self._checks,
            mps=self._mps,
            store_files=SessionFiles(session),
            spill_files=ThreadedSpill(session, loop.call),
            transfers=reach,
            logs=NodeLogFiles(session.logs, time.time),
            is_port_free=is_port_free,
            drain_output=forks.drain_output,
            know_addresses=reach.know_addresses,
            sweep=_sweeping(os.path.dirname(session.directory)),
            look=self._look,
            report_defect=log_defect,
            note=say,
        )

    def _directories(self, store: ObjectStore) -> DirectoryReading:
        """Return the object that checks whether the directories of the node can be used.

        For a program's own node, return an object that checks nothing: there is no other node that
        could run the work in place of this one. The code that uses a directory then reports its
        errors.
        """
        if self._config.member is None:
            return NoDirectories()
        session, accounting = self._config.session, store.accounting
        return DirectorySpace(
            (
                Watched("sockets", session.directory),
                Watched("what jobs print", session.disk, has_logs=True),
                Watched("spilled objects", session.spill, lambda: accounting.spilled_bytes),
                Watched(
                    "objects in memory",
                    session.shared,
                    lambda: accounting.used_bytes + store.file_pool.total_bytes,
                ),
            )
        )

    def _look(self, meter: Meter) -> None:
        """Put the numbers into the meter that only this process knows."""
        meter.set("phalanx_loop_lag_seconds", self.loop.take_lag(), NODE)
        meter.set("phalanx_frames_rejected_total", self.loop.rejected, NODE)

    def _device_reading(self) -> DeviceReading:
        if not self._config.resources.get("GPU"):
            return NoDeviceReading()
        self._reader = DeviceProcess(
            self._config.devices,
            self.loop,
            self._devices_seen,
            self._devices_ended,
        )
        return self._reader

    def _devices_seen(self, samples: Sequence[DeviceSample], trouble: str) -> None:
        self.node.devices.seen(samples, trouble)

    def _devices_ended(self, reason: str) -> None:
        self.node.devices.ended(reason)

    def serve(self, driver: Connection | None) -> None:
        """Run until a stop is requested, or the node's driver is gone. Then end the node's helpers
        and all its work, except for commands that continue, and tell the head that the node leaves.
        """
        self._driver = driver
        if driver is not None:
            self.loop.watch(driver)
        if self._config.parent_fd >= 0:
            self.loop.read_from(self._config.parent_fd, self.loop.stop)
        self.loop.serve()
        if not self.goes_on:
            self._forks.end_kept()
        if self._forks.keeper is not None:
            self._forks.keeper.end_everything()
        if self._users is not None:
            if self.goes_on:
                self._users.leave()
            else:
                self._users.end_everything()
        self._devices.end()
        self._mps.end_all()
        self._checks.kill()
        if self._cluster is not None and not self.is_restarting:
            self._cluster.leave(self._forks.how_lost if self.has_lost_fork_server else "")

    def restart(self) -> None:
        """End this process, so that the node's next process continues with the commands of jobs."""
        self.is_restarting = True
        self.loop.stop()

    @property
    def goes_on(self) -> bool:
        """Whether commands of jobs continue after the end of this process. They do if the process
        restarts and the head has not declared the node dead.

        A head that has declared the node dead has placed the node's members elsewhere.
        """
        return self.is_restarting and not self.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether the head has declared this node dead, so that it must come back as another
        node.
        """
        return self._cluster is not None and self._cluster.is_stale

    @property
    def heads(self) -> tuple[str, ...]:
        """The addresses at which the cluster's head can be. They include the addresses of standbys
        that the head has told the node; empty for a cluster of one machine.
        """
        return self._cluster.heads if self._cluster is not None else ()

    def _pulled(self, message: Pulled) -> None:
        self.node.store.pulled(message)

    # ---- the loop's calls ------------------------------------------------------------------------

    def on_message(self, connection: Connection, message: Any) -> None:
        """Handle a message, according to the connection over which it came."""
        if connection is self._forks.connection or connection is self._forks.kept:
            self._from_fork_server(connection, message)
        elif self._users is not None and connection.tag == ACCOUNT:
            self._from_account(self._users.heard(connection, message))
        elif self._cluster is not None and self._cluster.is_gateway(connection):
            self._cluster.on_gateway(message)
        else:
            self.node.on_message(connection, message)

    def on_lost(self, connection: Connection) -> None:
        """Handle the end of a connection."""
        if connection is self._forks.connection:
            self._fork_server_lost()
        elif self._cluster is not None and self._cluster.is_gateway(connection):
            self._cluster.gateway_lost()
        elif self._users is not None and connection.tag == ACCOUNT:
            self._users.server_lost(connection)
        else:
            is_about_token = connection.refusal_status == Status.WRONG_TOKEN
            is_given_up = connection.refusal_status == Status.GIVEN_UP
            self.node.on_lost(connection, connection.refusal, is_about_token, is_given_up)
            if connection is self._driver:
                self.loop.stop()

    def on_tick(self, now: float) -> None:
        """Do the work that is due."""
        self._keeper.tick(now)
        if self._forks.keeper is not None:
            self._forks.keeper.step()
        if self._users is not None:
            self._users.tick(now)
        if self._records is not None:
            self._adopted.step()
        self.node.on_tick(now)
        if now >= self._look_at_memory_at:
            self._look_at_memory_at = now + LOOK_AT_MEMORY_EVERY_S
            self._relieve_memory()

    def on_round(self) -> None:
        """Finish a round: all messages that had arrived are handled."""
        if self._users is not None:
            self._users.report()
        self.node.on_round()
        self.loop.wake_at(min(self._head_wakes_at, self.node.leases.look_at))

    def _head_wakes(self, when: float) -> None:
        self._head_wakes_at = when

    def _relieve_memory(self) -> None:
        """End a worker if more memory is used than `memory_limit` allows."""
        if self._memory is None:
            # this needs psutil, which is not imported at the start
            from phalanx.runtime.node.memory import MemoryMonitor

            self._memory = MemoryMonitor(self.node.leases, self._config.memory_limit)
        found = self._memory.worker_to_end()
        if found is not None:
            self.node.workers.kill_for_memory(*found)

    # ---- the fork server ---------------------------------------------------------------------

    def _fork_server_lost(self) -> None:
        """Start another fork server. The processes that the old one had started continue."""
        had_keeper = self._forks.keeper
        ended = self._forks.start_again(self._helpers)
        if ended is None:
            self.has_lost_fork_server = True
            self.loop.stop()
            return
        self.loop.watch(self._forks.connection)
        keeper, kept = self._forks.keeper, self._forks.kept
        if had_keeper is None and keeper is not None and kept is not None:
            self.loop.watch(kept)
            self.loop.read_from(keeper.fileno, keeper.step)
        self.node.fork_watch.restarted()
        self.node.killed_parts.killed(
            "fork server", f"{self._forks.kept_text} went on", how=self._forks.how_lost
        )
        for message in ended:
            self._from_fork_server(self._forks.connection, message)

    def _helpers(self) -> set[int]:
        """Return the pids of the node's own children that run no work of users."""
        gateway = 0 if self._cluster is None else self._cluster.gateway_pid
        reader = 0 if self._reader is None else self._reader.pid
        return {self._forks.pid, gateway, reader, self._checks.pid}

    def _from_fork_server(self, connection: Connection, message: Any) -> None:
        if connection is self._forks.connection:
            self.node.fork_watch.heard()
        self._forks.heard(message)
        match message:
            case OutputRead():
                self._forks.output_read(connection)
            case Began():
                self.node.members.began(message.process, message.pid)
            case Exited():
                if not self.node.members.exited(message.process, how_it_ended(message)):
                    self._worker_exited(message)
            case LogLine():
                self.node.output.printed(message)

    def _from_account(self, message: Began | Exited | None) -> None:
        match message:
            case Began():
                self.node.members.began(message.process, message.pid)
            case Exited():
                self._command_exited(message)

    def _command_exited(self, message: Exited) -> None:
        self.node.members.exited(message.process, how_it_ended(message))

    def _worker_exited(self, message: Exited) -> None:
        worker = message.process
        connection = self.node.peers.get(worker)
        if isinstance(connection, Connection):
            self._read_rest(connection)
        if message.reason:
            self.node.processes.start_failed(worker, message.reason)
        else:
            how = _how_worker_ended(message.pid, message.code)
            if message.is_parent_killed:
                how = f"worker process {message.pid}: {PARENT_KILLED}"
            self.node.processes.exited(worker, how, message.is_parent_killed)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._config.session.socket_of(worker))

    def _read_rest(self, connection: Connection) -> None:
        """Handle the remaining messages of a process that has ended, for example the reason why it
        left.
        """
        with contextlib.suppress(ProtocolError):
            while messages := connection.receive():
                for message in messages:
                    self.on_message(connection, message)


def _how_worker_ended(pid: int, code: int) -> str:
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"worker process {pid} ended with {how}"


def _sweeping(root: str) -> Callable[[], None]:
    """Return a function that deletes the remains of dead sessions below this root.

    A thread deletes them, because there may be many.
    """

    def sweep() -> None:
        threading.Thread(target=sessions.sweep, args=(root,), daemon=True).start()

    return sweep
