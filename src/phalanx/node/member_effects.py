"""Effects for members of jobs: processes, files and measurements on this node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from phalanx.model.ids import JobId
from phalanx.node.kept_members import Keeping, NotKeeping
from phalanx.node.notes import Note
from phalanx.node.packages import PackageStore
from phalanx.node.usage import UsageMeter
from phalanx.protocol.bundle_messages import Command, Receivers, StartMember


class CommandEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended."""

    code: int
    """The exit code of the command, as a shell reports it."""
    reason: str = ""
    """Why the command ended, if the code alone does not show it."""
    signal: int = 0
    """The signal that ended the command; 0 if no signal did."""
    cpu_s: float = 0.0
    memory: int = 0
    """The bytes of memory of the largest of the command's processes, as in Exited; 0 if unknown."""
    is_unstarted: bool = False
    """Whether no process could be made for the command."""
    is_shortage: bool = False
    """Whether the start failed because a resource had run out."""
    is_parent_killed: bool = False
    """Whether the command ended because its parent was killed, most probably by the command
    itself.
    """


class CommandEffects(Protocol):
    """Starts and ends the processes of commands. The shell later calls `JobMembers.began` and
    `JobMembers.exited` for each command.
    """

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a command under this id. Its output is appended to `log`."""
        ...

    def terminate(self, process: bytes) -> None:
        """Ask a command to end, by SIGTERM."""
        ...

    def kill(self, process: bytes) -> None:
        """Kill a command and all its children immediately."""
        ...

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """Send signal `number` to a command. `to`: which of its processes get the signal."""
        ...


class JobFiles(Protocol):
    """The directories of jobs on this node."""

    def make(self, order: StartMember) -> str:
        """Make a member's directory, if any of its commands runs on this node, and write its job's
        files.

        Returns the path of the member's log.

        Raises OSError.
        """
        ...

    @property
    def packages(self) -> PackageStore:
        """The packages of jobs on this node."""
        ...

    def give_packages(self, order: StartMember) -> None:
        """Put the packages of a member among the files of its job. The packages must already be on
        this node. Raises OSError.
        """
        ...

    def error(self, order: StartMember, limit: int) -> bytes:
        """Return what a member wrote about its failure, at most `limit` bytes; b"" if it wrote
        nothing.
        """
        ...

    def remove(self, job: JobId) -> None:
        """Delete all files of a job."""
        ...

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """Return (a part of a log, the log's length, the number of bytes missing before the part).

        Bytes are missing if `offset` lies in output that was dropped. The length is -1 if the path
        is no file of a job.
        """
        ...

    def shorten(self, path: str, before: int | None = None) -> None:
        """Drop the oldest part of a log that is longer than logs may be.

        `before`: only output before this offset is dropped.
        """
        ...

    def is_lost(self, path: str) -> bool:
        """Whether the log is lost because other programs removed its directory."""
        ...

    def size(self, path: str) -> int:
        """Return the bytes that a log takes on its disk."""
        ...

    def earlier_logs(self) -> list[tuple[str, float]]:
        """Return the logs that earlier processes of this node have left, the oldest first, each
        with the seconds since it was last written.
        """
        ...

    def most_kept(self) -> int:
        """Return the bytes that all logs of ended members may take."""
        ...

    def drop(self, path: str) -> None:
        """Free the disk space of a log."""
        ...


class MemoryMeter(Protocol):
    """Measures the memory of commands."""

    def above(self, limits: Mapping[int, int]) -> dict[int, int]:
        """Return, by pid, the used bytes of each command that exceeds its limit. `limits`: the
        limits by pid.

        The children of a command are measured with it.
        """
        ...


class MemberChecks(Protocol):
    """Checks whether the node works properly, before and after a member that has all its GPUs."""

    def before(self, devices: Collection[int], done: Callable[[str], None]) -> bool:
        """Check the node. Afterwards `done` is called with the reason why the member must not
        begin; "" if the member may begin.

        Returns False, without a call of `done`, if no check is needed.
        """
        ...

    def after(self, devices: Collection[int]) -> None:
        """Check the node, because a member that had these GPUs has ended."""
        ...


class NoMemberChecks:
    """The member checks of a node that has none."""

    def before(self, devices: Collection[int], done: Callable[[str], None]) -> bool:
        """Return False: no check is needed."""
        return False

    def after(self, devices: Collection[int]) -> None:
        """Do nothing."""


_NOT_KEEPING = NotKeeping()


@dataclass(frozen=True, kw_only=True)
class MemberEffects:
    """The effects that a shell provides for the members of jobs."""

    clock: Callable[[], float]
    commands: CommandEffects
    files: JobFiles
    memory: MemoryMeter
    make_unique: Callable[[int], bytes]
    """Returns the requested number of bytes. No two calls return the same bytes."""
    usage: UsageMeter
    note: Note
    keeping: Keeping = _NOT_KEEPING
