"""What members of jobs ask of whoever starts processes, keeps files and measures on this node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from phalanx.protocol.bundle_messages import Command, Receivers, StartMember


class CommandEffects(Protocol):
    """Starts and ends the processes of commands; `began` and `exited` follow."""

    def run(self, process: bytes, order: StartMember, command: Command, log: str) -> None:
        """Start a command under this id, with its output appended to `log`."""
        ...

    def terminate(self, process: bytes) -> None:
        """Ask a command by SIGTERM to end."""
        ...

    def kill(self, process: bytes) -> None:
        """End a command and all its children at once."""
        ...

    def signal(self, process: bytes, number: int, to: Receivers) -> None:
        """Send a command a signal."""
        ...


class JobFiles(Protocol):
    """The directories of jobs on this node."""

    def make(self, order: StartMember) -> str:
        """Make a member's directory if a command is to run there, and write its job's files. The
        path of its log.

        Raises OSError.
        """
        ...

    def error(self, order: StartMember, limit: int) -> bytes:
        """At most so many bytes of what a member has written about its failure, if anything."""
        ...

    def remove(self, job: str) -> None:
        """Delete everything of a job."""
        ...

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """(a part of a log, how long the whole is, how many bytes from `offset` on are gone, which
        the part stood behind); length -1 for what is no file of a job."""
        ...

    def shorten(self, path: str) -> None:
        """Drop the oldest of a log that is longer than logs may be."""
        ...

    def is_lost(self, path: str) -> bool:
        """Whether the directory of a log was removed by others, and the log with it."""
        ...

    def size(self, path: str) -> int:
        """See LogFiles."""
        ...

    def most_kept(self) -> int:
        """See LogFiles."""
        ...

    def drop(self, path: str) -> None:
        """See LogFiles."""
        ...


class MemoryMeter(Protocol):
    """Measures what commands use."""

    def above(self, limits: Mapping[int, int]) -> dict[int, int]:
        """The bytes that these commands use, by pid, as far as they use more than their limits.
        A command's children count with it."""
        ...


class MemberChecks(Protocol):
    """Looks whether the node is well before a member begins that has all its GPUs, and after."""

    def before(self, devices: Collection[int], done: Callable[[str], None]) -> bool:
        """Look, and call `done` with why the member must not begin, or with nothing. False where
        nobody has to look: nothing is called then."""
        ...

    def after(self, devices: Collection[int]) -> None:
        """A member that had these GPUs has ended."""
        ...


class NoMemberChecks:
    """Nobody looks."""

    def before(self, devices: Collection[int], done: Callable[[str], None]) -> bool:
        """See MemberChecks."""
        return False

    def after(self, devices: Collection[int]) -> None:
        """See MemberChecks."""
