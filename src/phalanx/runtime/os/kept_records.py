"""The records of members that outlive their node, as files in the session's directory.

One directory has the records, the exit files of the members' commands, and the *identity* of the
node, by which the node's next process recognizes its records. All files have mode 0600. No file is
synchronized to the disk, because no member outlives a restart of the machine.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection

import msgspec

from phalanx.node.kept_members import AttemptOf, KeptMember
from phalanx.protocol.bundle_messages import Command, StartMember
from phalanx.runtime.os.kept_identity import IDENTITY, RECORD, Identity, read_identity
from phalanx.runtime.os.system import boot_id

EXIT = "exit-"
_NEW = ".new"


def processes_in(directory: str) -> list[bytes]:
    """Return the processes for which exit files exist."""
    names = [name for name in os.listdir(directory) if name.startswith(EXIT)]
    return [bytes.fromhex(name.removeprefix(EXIT)) for name in names]


class KeptRecords:
    """The records of one node."""

    def __init__(
        self,
        directory: str,
        start: Callable[[bytes, StartMember, Command, str, str], None],
        clock: Callable[[], float],
        forgot: Callable[[list[bytes]], None] = lambda processes: None,
    ) -> None:
        """`start` starts a command, with the path of its exit file. `clock` returns the time of the
        node's clock in seconds. `forgot` is called with processes whose ends the head knows.
        """
        self._directory = directory
        self._start = start
        self._clock = clock
        self._forgot = forgot
        self._processes: dict[AttemptOf, list[bytes]] = {}

    # ---- Keeping -----------------------------------------------------------------------------

    def runs_on(self, command: Command) -> bool:
        """Whether a command can continue without the node. A command whose streams the node carries
        cannot continue.
        """
        return command.streams is None

    def keep(self, member: KeptMember) -> None:
        """Write a member's record."""
        self._processes[member.attempt] = list(member.processes)
        lasting = msgspec.structs.replace(member, began=member.began + self._offset())
        _write(self._path(member.attempt), msgspec.msgpack.encode(lasting))

    def forget(self, attempts: Collection[AttemptOf]) -> None:
        """Delete the records of these attempts, and the exit files of their commands."""
        for attempt in attempts:
            processes = self._processes.pop(attempt, [])
            for process in processes:
                _unlink(self.exit_file(process))
            _unlink(self._path(attempt))
            self._forgot(processes)

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a command of a member that has a record."""
        self._start(process, order, command, log, self.exit_file(process))

    # ---- the next node -----------------------------------------------------------------------

    def exit_file(self, process: bytes) -> str:
        """Return the path of a command's exit file."""
        return os.path.join(self._directory, EXIT + process.hex())

    def load(self) -> list[KeptMember]:
        """Return the members that have records. Files that cannot be read are deleted."""
        found = []
        for name in sorted(os.listdir(self._directory)):
            if not name.startswith(RECORD) or name.endswith(_NEW):
                continue
            path = os.path.join(self._directory, name)
            try:
                with open(path, "rb") as file:
                    member = msgspec.msgpack.decode(file.read(), type=KeptMember)
            except (OSError, msgspec.MsgspecError):
                _unlink(path)
                continue
            member.began -= self._offset()
            self._processes[member.attempt] = list(member.processes)
            found.append(member)
        return found

    def _path(self, attempt: AttemptOf) -> str:
        group, index, number = attempt
        return os.path.join(self._directory, f"{RECORD}{group.hex()}.{index}.{number}")

    def _offset(self) -> float:
        """Return by how many seconds the clock that counts from the machine's boot is ahead of the
        node's clock.
        """
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self._clock()


def identify(directory: str, head: str, name: str, node_id: str) -> list[str]:
    """Make this node the owner of a directory of records. Returns the ids of the nodes whose
    records it contains.

    The identity names these ids until `settle`, because the head may know the members under any of
    them.
    """
    known = read_identity(directory)
    before = [] if known is None else [one for one in known.nodes if one != node_id]
    mine = Identity(boot=boot_id(), head=head, name=name, nodes=[*before, node_id])
    _write(os.path.join(directory, IDENTITY), msgspec.json.encode(mine))
    return before


def settle(directory: str) -> None:
    """Note that the head knows the members under the id of the present node."""
    known = read_identity(directory)
    if known is not None and len(known.nodes) > 1:
        known.nodes = known.nodes[-1:]
        _write(os.path.join(directory, IDENTITY), msgspec.json.encode(known))


def _write(path: str, data: bytes) -> None:
    """Write a file so that other processes see it completely or not at all."""
    new = path + _NEW
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
    os.rename(new, path)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
