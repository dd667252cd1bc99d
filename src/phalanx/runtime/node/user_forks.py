"""The fork servers of the accounts that have work on a node, where jobs run as their submitters.

phalanx-launch starts a fork server when an account's first member comes with the head's grant. The
node keeps the fork server for a while after its last command, so that the next command does not
wait for another start.

If the node keeps commands, fork servers with commands continue when the node's process ends. The
node's next process reaches them through the sockets in the directory of its records.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from phalanx.node.notes import Note
from phalanx.node.peers import ACCOUNT
from phalanx.protocol.bundle_messages import Command, Grant, Receivers, StartMember
from phalanx.protocol.fork_messages import (
    Began,
    EndKept,
    Exited,
    ForgetEnds,
    RunCommand,
    SendSignal,
    SignalCommand,
    decode_body,
)
from phalanx.runtime.node.account_shares import AccountShares
from phalanx.runtime.node.earlier_accounts import MOST_BYTES, Reached
from phalanx.runtime.os import account_doors
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.fork_client import run_command
from phalanx.runtime.os.job_files import JobDirectories

KEPT_S = 900.0
"""Seconds for which a fork server without commands is kept."""
KILLED_S = 5.0
"""Seconds within which the fork server of an account must carry out a kill. If it does not, the
account loses all its work here, because it may have stopped its fork server.
"""
MOST_CPU_S = 1e12
LAUNCH = "/run/phalanx-launch/socket"
_BEGUN, _NO_ACCOUNT = b"begun", b"no account"
_TERM, _KILL = 15, 9
NO_LAUNCH = "phalanx-launch does not start work on this node"
NO_GRANT = "its head has not granted it an account: start the head with --system"
STREAMS = "a program with its streams over a connection runs only as the account of its node"


class Watching(Protocol):
    """The part of the node's loop that this module uses."""

    def watch(self, connection: Connection) -> None:
        """Read a connection from now on, and deliver its messages to the node."""
        ...

    def forget(self, connection: Connection) -> bool:
        """Close a connection. Its end is not reported."""
        ...

    def read_from(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever the descriptor can be read."""
        ...

    def unregister(self, fd: int) -> bool:
        """Stop reading from a descriptor."""
        ...


class _Server:
    """The fork server of one account."""

    def __init__(self, grant: Grant, connection: Connection, door: socket.socket) -> None:
        self.grant = grant
        self.connection = connection
        self.door = door
        """The connection to phalanx-launch. When it closes, all work of the account on this node
        ends.
        """
        self.processes: set[bytes] = set()
        self.begun: set[bytes] = set()
        self.kept_until = 0.0
        self.remembered: set[bytes] = set()
        """The processes whose ends the fork server remembers until the head knows them."""
        self.killed_since: dict[bytes, float] = {}
        """For each process that was ordered to be killed and still lives: the time of the order."""
        self.why = NO_LAUNCH
        """Why no command can begin; "" once the fork server has begun."""
        self.is_jobs_fault = False


class UserForks:
    """Starts and ends the commands of members, each under the account of its grant."""

    def __init__(
        self,
        loop: Watching,
        launch: str,
        directories: JobDirectories,
        clock: Callable[[], float],
        exited: Callable[[Exited], None],
        note: Note,
        variables: dict[str, str] | None = None,
        kept: str = "",
        cpus: Sequence[int] = (),
    ) -> None:
        """`launch`: the socket of phalanx-launch. `exited` is called with the ends of processes.
        `variables`: the variables that commands get in addition to their own. `kept`: the directory
        of the node's records; "" if all commands end with the node. `cpus`: see AccountShares.
        """
        self._variables = variables or {}
        self._kept = kept
        self._loop = loop
        self._launch = launch
        self._directories = directories
        self._clock = clock
        self._exited = exited
        self._note = note
        self._servers: dict[int, _Server] = {}
        self._of_process: dict[bytes, _Server] = {}
        self._failed: list[Exited] = []
        self._shares = AccountShares(launch, cpus)

    # ---- orders ----------------------------------------------------------------------------------

    def admit(self, order: StartMember) -> None:
        """Start the fork server of a member's account, unless it runs already. Do nothing if the
        member has no grant, or if the grant is refused.

        The fork server is kept at least until the time when the member should have begun.
        """
        grant = order.grant
        if grant is None or grant.refusal:
            return
        server = self._servers.get(grant.uid) or self._open(grant)
        if server is not None:
            server.kept_until = self._clock() + order.rest_s + KEPT_S

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Run a command of a member under the member's account. The command ends with the node."""
        self._run(process, order, command, log, is_kept=False)

    def run_kept(
        self, process: bytes, order: StartMember, command: Command, log: str, exit_file: str
    ) -> None:
        """Run a command that continues when the node's process ends.

        The account's fork server remembers how the command ends, so the command needs no exit file.
        """
        self._run(process, order, command, log, is_kept=True)

    def _run(
        self, process: bytes, order: StartMember, command: Command, log: str, *, is_kept: bool
    ) -> None:
        grant = order.grant
        server = None if grant is None else self._servers.get(grant.uid)
        if grant is None or grant.refusal:
            self._fail(process, NO_GRANT if grant is None else grant.refusal)
        elif command.streams is not None:
            self._fail(process, STREAMS)
        elif server is None:
            self._fail(process, NO_LAUNCH, is_nodes=True)
        else:
            self._know(server, process)
            self._shares.begins(grant.uid, process, command.cpus)
            server.kept_until = max(server.kept_until, self._clock() + KEPT_S)
            run = run_command(self._directories, process, order, command, log)
            run.variables = self._variables | run.variables
            run.is_kept = is_kept
            server.connection.post(run)

    def terminate(self, process: bytes) -> None:
        """Ask a command to end, by SIGTERM."""
        self._post(process, SendSignal(process, _TERM))

    def kill(self, process: bytes) -> None:
        """Kill a command and all its children. They get no grace period."""
        server = self._of_process.get(process)
        if server is not None:
            server.killed_since.setdefault(process, self._clock())
        self._post(process, SendSignal(process, _KILL))

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """Send a command a signal."""
        self._post(process, SignalCommand(process, number, to))

    def forget(self, processes: Collection[bytes]) -> None:
        """Let the fork servers forget how these processes ended, because the head knows it."""
        for server in self._servers.values():
            if ended := server.remembered.intersection(processes):
                server.remembered -= ended
                server.connection.post(ForgetEnds(sorted(ended)))

    def _know(self, server: _Server, process: bytes) -> None:
        server.processes.add(process)
        self._of_process[process] = server

    def _post(self, process: bytes, order: RunCommand | SendSignal | SignalCommand) -> None:
        server = self._of_process.get(process)
        if server is not None:
            server.connection.post(order)

    def _fail(self, process: bytes, reason: str, is_nodes: bool = False) -> None:
        self._failed.append(Exited(process, 0, 1, reason, is_shortage=is_nodes))

    # ---- fork servers ----------------------------------------------------------------------------

    def _open(self, grant: Grant) -> _Server | None:
        """Ask phalanx-launch for the fork server of an account. Returns None if phalanx-launch
        cannot be reached.
        """
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door.setblocking(False)
        theirs: tuple[socket.socket, ...] = ()
        try:
            ours, theirs = self._sockets(grant.uid)
            door.connect(self._launch)
            socket.send_fds(door, [grant.signed], [one.fileno() for one in theirs])
        except OSError as error:
            self._note(f"{NO_LAUNCH}: {error.strerror}")
            if theirs:
                ours.close()
            door.close()
            return None
        finally:
            for one in theirs:
                one.close()
        connection = Connection(ours, decode=decode_body, limit=MOST_BYTES)
        return self._add(_Server(grant, connection, door))

    def _sockets(self, uid: int) -> tuple[socket.socket, tuple[socket.socket, ...]]:
        """Return this node's connection to the fork server of an account, and the sockets that
        phalanx-launch gets. Raises OSError.
        """
        if not self._kept:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            return ours, (theirs,)
        sockets = account_doors.listen(self._kept, uid)
        return account_doors.connect_to_server(self._kept, uid), sockets

    def _add(self, server: _Server) -> _Server:
        server.connection.tag = ACCOUNT
        self._servers[server.grant.uid] = server
        self._loop.watch(server.connection)
        self._loop.read_from(server.door.fileno(), partial(self._told, server))
        return server

    def take_over(self, grant: Grant, found: Reached, wanted: Collection[bytes]) -> None:
        """Continue with the fork server of an account that an earlier process of this node has
        started. Only the wanted commands of that fork server continue.
        """
        server = self._add(_Server(grant, found.connection, found.door))
        server.why = ""
        server.kept_until = self._clock() + KEPT_S
        for began in found.commands.running:
            self._know(server, began.process)
            if began.pid:
                server.begun.add(began.process)
            if began.process not in wanted:
                self.kill(began.process)
        self._shares.take_over(grant.uid, {one.process for one in found.commands.running})
        for ended in found.commands.ended:
            server.remembered.add(ended.process)
            if ended.process in wanted:
                self._failed.append(_believable(ended))
        self.forget([one.process for one in found.commands.ended if one.process not in wanted])

    def _told(self, server: _Server) -> None:
        """Read the answer of phalanx-launch, or its message that the fork server and all its
        descendants have ended.
        """
        told = b""
        with contextlib.suppress(OSError):
            told = server.door.recv(64)
        if told == _BEGUN:
            server.why = ""
            self._shares.set()
            return
        if told == _NO_ACCOUNT:
            user, uid = server.grant.user, server.grant.uid
            server.why = f"this node has no account {user} with the number {uid}"
            server.is_jobs_fault = True
        self._end(server)

    def lost(self, processes: Iterable[bytes]) -> None:
        """Report that these processes were killed together with their fork server."""
        self._failed += [Exited(one, -1, -_KILL, is_parent_killed=True) for one in processes]

    def _end(self, server: _Server) -> None:
        """Close all connections to an account's fork server. Then phalanx-launch ends all work of
        the account on this node.
        """
        if self._servers.get(server.grant.uid) is not server:
            return
        del self._servers[server.grant.uid]
        self._shares.forget(server.grant.uid)
        self._loop.unregister(server.door.fileno())
        if self._kept:  # otherwise the end of the connections ends the work
            server.connection.send(EndKept())
            with contextlib.suppress(OSError):  # it has ended already
                server.door.send(account_doors.END)
            account_doors.forget(self._kept, server.grant.uid)
        server.door.close()
        self._loop.forget(server.connection)
        for process in sorted(server.processes):
            del self._of_process[process]
            if server.why:
                self._fail(process, server.why, is_nodes=not server.is_jobs_fault)
            else:
                self.lost([process])

    def server_lost(self, connection: Connection) -> None:
        """Handle the end of a connection to a fork server of an account."""
        server = self._of(connection)
        if server is not None and not server.why:
            self._end(server)  # before the fork server has begun, phalanx-launch says why it failed

    def _of(self, connection: Connection) -> _Server | None:
        servers = self._servers.values()
        return next((one for one in servers if one.connection is connection), None)

    def heard(self, connection: Connection, message: Any) -> Began | Exited | None:
        """Return a message of an account's fork server, reduced to what the account may report.

        The account can make its fork server send anything. So only messages about the beginning
        and the end of the account's own processes are accepted, each one time per process. A fork
        server that sends anything else is ended.
        """
        server = self._of(connection)
        if server is None:
            return None
        is_known = isinstance(message, Began | Exited)
        if not is_known or self._of_process.get(message.process) is not server:
            self._lied(server)
            return None
        if isinstance(message, Began):
            if message.process in server.begun:
                self._lied(server)
                return None
            server.begun.add(message.process)
            return message
        self._ended(server, message.process)
        if self._kept:
            server.remembered.add(message.process)
        return _believable(message)

    def _lied(self, server: _Server) -> None:
        self._note(
            f"the fork server of {server.grant.user} sent a message that it may not send: it is "
            "ended"
        )
        self._end(server)

    def _ended(self, server: _Server, process: bytes) -> None:
        del self._of_process[process]
        server.processes.discard(process)
        self._shares.ended(server.grant.uid, process)
        server.begun.discard(process)
        server.killed_since.pop(process, None)
        server.kept_until = self._clock() + KEPT_S

    def tick(self, now: float) -> None:
        """End fork servers that nobody needs, and those that do not carry out a kill in time.
        Report failed starts.
        """
        for server in list(self._servers.values()):
            late = any(since < now - KILLED_S for since in server.killed_since.values())
            if late:
                self._note(f"the processes of {server.grant.user} did not end, and are all ended")
            if late or (not server.processes and now >= server.kept_until):
                self._end(server)
        self.report()

    def leave(self) -> None:
        """Send what is posted, because the node's next process takes over."""
        for server in self._servers.values():
            server.connection.flush()

    def end_everything(self) -> None:
        """End all work of accounts, because the node ends."""
        for server in list(self._servers.values()):
            self._end(server)

    def report(self) -> None:
        """Report the ends of processes that did not begin, or that have ended together with their
        fork server.
        """
        failed, self._failed = self._failed, []
        for one in failed:
            self._exited(one)


def _believable(message: Exited) -> Exited:
    """Return an account's report of the end of a process, without the claims that the node must not
    believe: a shortage of the node, and impossible CPU times or sizes.
    """
    message.is_shortage = False
    is_time = 0 <= message.cpu_s < MOST_CPU_S and message.memory >= 0
    return message if is_time else Exited(message.process, message.pid, message.code)
