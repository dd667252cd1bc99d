"""The commands that an earlier process of this node has started under other accounts, as the fork
servers of these accounts report them.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from phalanx.errors import ProtocolError
from phalanx.node.kept_members import ENDED, RUNS, UNBEGUN, AttemptOf, KeptMember
from phalanx.node.member_effects import CommandEnd
from phalanx.protocol.bundle_messages import Command, Grant
from phalanx.protocol.fork_messages import Began, Commands, Exited, ReportCommands, decode_body
from phalanx.runtime.os import account_doors
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.fork_client import how_it_ended
from phalanx.runtime.os.kept_records import KeptRecords

ANSWER_S = 5.0
"""Seconds within which the fork servers must answer. An account whose fork server does not answer
loses all its work here, because it may have stopped its fork server.
"""
MOST_BYTES = 1 << 20
"""The largest frame, in bytes, that a fork server may send. It is limited because the fork server
belongs to another user.
"""
_KILLED = -9


class Reached(NamedTuple):
    """A fork server that an earlier process of this node has started."""

    connection: Connection
    door: socket.socket
    """The connection to the guard of the account's work."""
    commands: Commands


class Accounts(Protocol):
    """The part of the node that continues with the fork servers of accounts."""

    def take_over(self, grant: Grant, found: Reached, wanted: Collection[bytes]) -> None:
        """Continue with a fork server, and with those of its commands that are wanted."""
        ...

    def lost(self, processes: Iterable[bytes]) -> None:
        """Report that these processes were killed together with their fork server."""
        ...


class EarlierAccounts:
    """Implements `taking_over.EarlierCommands`. The user of the object must call `settle` at the
    end.
    """

    def __init__(self, records: KeptRecords, kept: str, accounts: Accounts) -> None:
        """`kept`: the directory of the records."""
        self._records = records
        self._kept = kept
        self._accounts = accounts
        self._grants: dict[int, Grant] = {}
        self._found: dict[int, Reached] = {}
        self._seen: dict[bytes, Began | Exited] = {}
        self._unreached: set[bytes] = set()
        """The commands of accounts whose fork servers have ended, or do not answer."""
        self._wanted: set[bytes] = set()

    def load(self) -> list[KeptMember]:
        """Reach the fork servers of the accounts with work here, and end all work of the accounts
        that cannot be reached. Returns the members for which records exist.
        """
        members = self._records.load()
        account_of: dict[bytes, int] = {}
        for member in members:
            grant = member.order.grant
            if grant is not None and not grant.refusal:
                self._grants[grant.uid] = grant
                account_of |= dict.fromkeys(member.processes, grant.uid)
        self._found = {
            uid: _of_account(uid, found, account_of)
            for uid, found in reach(self._kept, self._grants).items()
        }
        account_doors.end_accounts(
            self._kept, {*account_doors.accounts_in(self._kept)} - self._found.keys()
        )
        for found in self._found.values():
            seen: tuple[Began | Exited, ...] = (*found.commands.running, *found.commands.ended)
            self._seen |= {one.process: one for one in seen}
        for member in members:
            grant = member.order.grant
            if grant is not None and grant.uid not in self._found:
                self._unreached.update(member.processes)
        return members

    def forget(self, attempts: Collection[AttemptOf]) -> None:
        """Delete the records of these attempts."""
        self._records.forget(attempts)

    def state(self, process: bytes) -> str:
        """Return whether a command has not begun, runs, or has ended: UNBEGUN, RUNS or ENDED."""
        if process in self._unreached:
            return ENDED
        seen = self._seen.get(process)
        return UNBEGUN if seen is None else RUNS if isinstance(seen, Began) else ENDED

    def pid(self, process: bytes) -> int:
        """Return the pid of a command that has begun; 0 if it is unknown."""
        return self._seen[process].pid if process in self._seen else 0

    def how_ended(self, processes: Collection[bytes]) -> CommandEnd:
        """Return how a member with these commands has ended."""
        ends = [self._end_of(process) for process in processes]
        return how_it_ended(next((one for one in ends if one.code), ends[-1]))

    def _end_of(self, process: bytes) -> Exited:
        seen = self._seen.get(process)
        if isinstance(seen, Exited):
            return seen
        return Exited(process, -1, _KILLED, is_parent_killed=True)

    def adopt(self, process: bytes, command: Command) -> None:
        """Note that this node continues with a command. `settle` acts on this."""
        self._wanted.add(process)

    def end(self, process: bytes) -> None:
        """Note that no node continues with a command. `settle` then ends the command."""
        self._wanted.discard(process)

    def settle(self) -> None:
        """Continue with the fork servers and with the adopted commands. End all other commands.
        Report the adopted commands that have ended together with their fork servers.
        """
        for uid, found in self._found.items():
            self._accounts.take_over(self._grants[uid], found, self._wanted)
        self._accounts.lost(sorted(self._unreached & self._wanted))


def reach(
    kept: str, uids: Iterable[int], clock: Callable[[], float] = time.monotonic
) -> dict[int, Reached]:
    """Return the fork servers of these accounts that answer in time."""
    asked = {}
    for uid in uids:
        with contextlib.suppress(OSError):
            sock = account_doors.connect_to_server(kept, uid)
            try:
                door = account_doors.connect_to_door(kept, uid)
            except OSError:
                sock.close()
                raise
            connection = Connection(sock, decode=decode_body, limit=MOST_BYTES)
            connection.send(ReportCommands())
            asked[uid] = connection, door
    found, until = {}, clock() + ANSWER_S
    while asked and (left_s := until - clock()) > 0:
        waiting = {connection.fileno: uid for uid, (connection, _) in asked.items()}
        poll = select.poll()
        for fd in waiting:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(left_s * 1000.0):
            uid = waiting[fd]
            connection, door = asked[uid]
            answer = _answer(connection)
            if isinstance(answer, Commands):
                found[uid] = Reached(connection, door, answer)
            if answer is not None:
                del asked[uid]
            if answer is False:
                connection.close()
                door.close()
    for connection, door in asked.values():
        connection.close()
        door.close()
    return found


def _of_account(uid: int, found: Reached, account_of: Mapping[bytes, int]) -> Reached:
    """Return the report of an account's fork server, without what it says about commands of other
    accounts. An account can make its fork server report anything.
    """
    running, ended = found.commands.running, found.commands.ended
    own = Commands(
        [one for one in running if account_of.get(one.process, uid) == uid],
        [one for one in ended if account_of.get(one.process, uid) == uid],
    )
    return found._replace(commands=own)


def _answer(connection: Connection) -> Commands | bool | None:
    """Return the answer of a fork server; None if the answer has not come yet, False if no answer
    will come.

    Messages before the answer are dropped, because the answer contains what they report.
    """
    try:
        messages = connection.receive()
    except ProtocolError:
        return False
    if messages is None:
        return False
    return next((one for one in messages if isinstance(one, Commands)), None)
