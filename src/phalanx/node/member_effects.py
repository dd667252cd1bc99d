"""Effects for members of jobs: processes, files and measurements of this node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from phalanx.model.ids import JobId
from phalanx.node.notes import Note
from phalanx.node.usage import UsageMeter
from phalanx.protocol.bundle_messages import Command, Receivers, StartMember


class CommandEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended."""

    code: int
    """The exit code of the command, in the form that a shell gives it."""
    reason: str = ""
    """The reason of the end, if the code alone does not show it."""
    signal: int = 0
    """The signal that ended the command; 0 if no signal did."""
    cpu_s: float = 0.0
    memory: int = 0
    """The command's memory, as in Exited."""
    is_unstarted: bool = False
    """Whether no process could be made for the command."""
    is_shortage: bool = False
    """Whether the start failed because a resource that it needed had run out."""
    is_parent_killed: bool = False
    """Whether the command ended because its parent was killed, most likely by the command
    itself.
    """


class CommandEffects(Protocol):
    """Starts and ends the processes of commands; `began` and `exited` follow."""

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a command under this id, and append its output to `log`."""
        ...

    def terminate(self, process: bytes) -> None:
        """Ask a command to end, by SIGTERM."""
        ...

    def kill(self, process: bytes) -> None:
        """Kill a command and all its children at once."""
        ...

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """Send a command a signal."""
        ...


class JobFiles(Protocol):
    """The directories of jobs on this node."""

    def make(self, order: StartMember) -> str:
        """Make a member's directory, if one of its commands runs on this node, and write its job's
        files.

        Returns the path of the member's log.

        Raises OSError.
        """
        ...

    def error(self, order: StartMember, limit: int) -> bytes:
        """Return what a member wrote about its failure, at most `limit` bytes; empty if it wrote
        nothing.
        """
        ...

    def remove(self, job: JobId) -> None:
        """Delete all files of a job."""
        ...

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """Return (a part of a log, the log's length, bytes missing before the part).

        Bytes are missing when the oldest output was dropped and `offset` lies in it. The length is
        -1 for a path that is no file of a job.
        """
        ...

    def shorten(self, path: str, before: int | None = None) -> None:
        """Drop the oldest part of a log that is longer than logs may be.

        `before`: nothing from this offset on is dropped.
        """
        ...

    def is_lost(self, path: str) -> bool:
        """Whether the log is lost because other programs removed its directory."""
        ...

    def size(self, path: str) -> int:
        """Return the bytes that a log takes on its disk."""
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
        """Return the commands that exceed their limits, by pid, with the bytes that each uses.
        `limits` is by pid, too.

        The children of a command count as part of it.
        """
        ...


class MemberChecks(Protocol):
    """Checks whether the node is well, before and after a member that has all its GPUs."""

    def before(self, devices: Collection[int], done: Callable[[str], None]) -> bool:
        """Check the node, then call `done` with the reason why the member must not begin, or with
        "".

        If no check is needed, return False without calling `done`.
        """
        ...

    def after(self, devices: Collection[int]) -> None:
        """Check the node after a member that had these GPUs."""
        ...


class NoMemberChecks:
    """The member checks of a node that has none."""

    def before(self, devices: Collection[int], done: Callable[[str], None]) -> bool:
        """Return False: no check is needed."""
        return False

    def after(self, devices: Collection[int]) -> None:
        """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class MemberEffects:
    """The effects that a shell provides for the members of jobs."""

    clock: Callable[[], float]
    commands: CommandEffects
    files: JobFiles
    memory: MemoryMeter
    make_unique: Callable[[int], bytes]
    """Returns the requested number of bytes, never the same twice."""
    usage: UsageMeter
    note: Note
