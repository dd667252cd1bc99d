"""The commands of an earlier process of this node, as their records and exit files describe
them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from phalanx.node.kept_members import ENDED, RUNS, UNBEGUN, AttemptOf, KeptMember
from phalanx.node.member_effects import CommandEnd
from phalanx.protocol.bundle_messages import Command
from phalanx.protocol.fork_messages import Exited
from phalanx.runtime.os.adopted_commands import AdoptedCommands, end_command
from phalanx.runtime.os.command_groups import CommandGroups, find_command_groups
from phalanx.runtime.os.exit_files import Ending, is_held, read_exit_file
from phalanx.runtime.os.fork_client import how_it_ended
from phalanx.runtime.os.kept_records import KeptRecords

_WAIT_S = 0.005
_LOST = -9


class EarlierProcesses:
    """Implements `taking_over.EarlierCommands`."""

    def __init__(self, records: KeptRecords, adopted: AdoptedCommands) -> None:
        self._records = records
        self._adopted = adopted
        self._groups: CommandGroups = find_command_groups(os.getpid())
        self._endings: dict[bytes, Ending] = {}

    def load(self) -> list[KeptMember]:
        """Return the members for which records exist."""
        return self._records.load()

    def forget(self, attempts: Collection[AttemptOf]) -> None:
        """Delete the records of these attempts."""
        self._records.forget(attempts)

    def state(self, process: bytes) -> str:
        """Return whether a command has not begun, runs, or has ended: UNBEGUN, RUNS or ENDED.

        A command that has not begun never begins, because the processes that could start it have
        ended.
        """
        path = self._records.exit_file(process)
        while (ending := read_exit_file(path)) is None and is_held(path):
            time.sleep(_WAIT_S)  # its shield will write its pid soon
        if ending is None:
            return UNBEGUN
        self._endings[process] = ending
        return RUNS if ending.code is None else ENDED

    def pid(self, process: bytes) -> int:
        """Return the pid of a command that has begun."""
        return self._endings[process].pid

    def how_ended(self, processes: Collection[bytes]) -> CommandEnd:
        """Return how a member with these commands has ended."""
        last = list(processes)[-1]
        endings = [self._endings[process] for process in processes]
        failed = next((one for one in endings if one.code), endings[-1])
        code = _LOST if failed.code is None else failed.code
        return how_it_ended(Exited(last, failed.pid, code))

    def adopt(self, process: bytes, command: Command) -> None:
        """Watch a command that has begun."""
        path = self._records.exit_file(process)
        group = self._groups.find_of_earlier(process, int(command.memory_limit))
        self._adopted.adopt(process, self._endings[process], path, group)

    def end(self, process: bytes) -> None:
        """End a command with which no node continues."""
        if (ending := self._endings.get(process)) is not None:
            path = self._records.exit_file(process)
            end_command(ending, path, self._groups.find_of_earlier(process, 0))
