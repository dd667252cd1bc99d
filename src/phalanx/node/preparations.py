"""The preparation of members' environments on this node, before the members' commands begin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from phalanx.model.exit_codes import NOT_STARTED
from phalanx.model.member_logs import preparing_log
from phalanx.node.head_link import HeadLink
from phalanx.node.member import NEVER, Member
from phalanx.node.member_effects import CommandEnd, JobFiles
from phalanx.node.member_processes import MemberProcesses
from phalanx.node.member_reports import MemberReports
from phalanx.node.packages import Packages

KNOWN_S = 300.0
"""Seconds after its last use for which the node assumes that an environment still exists. Caches
keep environments for longer.
"""
_MOST_KNOWN = 1_000
_TAIL_BYTES = 4096
_TAIL_LINES = 8
_LONGEST_LINE = 300


class Preparations:
    """Starts preparations, and reports how they ended."""

    def __init__(
        self,
        clock: Callable[[], float],
        processes: MemberProcesses,
        reports: MemberReports,
        files: JobFiles,
        *,
        head: HeadLink,
        failed: Callable[[Member], None],
    ) -> None:
        """`failed` ends a member whose packages could not be fetched."""
        self.packages = Packages(files.packages, head)
        self._failed = failed
        self._clock = clock
        self._processes = processes
        self._reports = reports
        self._files = files
        self._prepared: dict[tuple[str, str], float] = {}
        """When each environment was last known to be prepared, by account and key. A member whose
        environment has been deleted since then prepares it again itself.
        """

    def begin(self, member: Member) -> bool:
        """Begin to prepare a member. Returns False for a member that needs no preparation."""
        command = member.order.prepare
        if command is None or member.is_ready:
            return False
        if self._is_prepared(member):
            member.is_ready = True
            if member.order.is_alone:
                return False
        member.prepares, member.limit_at = True, NEVER
        self._reports.running(member)
        if not member.is_ready:
            wanted = [one.sha256 for one in member.order.packages]
            self.packages.want(wanted, partial(self._fetched, member))
        return True

    def _fetched(self, member: Member, why: str) -> None:
        """Prepare a member after its packages were fetched, unless the member has ended meanwhile.
        `why`: why they could not be fetched; "" if they are here.
        """
        if member.is_ending or not member.prepares:
            return
        if not why:
            try:
                self._files.give_packages(member.order)
            except OSError as error:
                why = f"its packages could not be read: {error.strerror}"
        if why:
            member.is_unprepared, member.code, member.reason = True, NOT_STARTED, why
            self._failed(member)
        elif member.order.prepare is not None:
            self._processes.prepare(member, member.order.prepare)

    def ended(self, member: Member, end: CommandEnd) -> bool:
        """Note how a preparation has ended. Returns whether the member now waits for the other
        members of its gang.
        """
        if member.is_ending:
            return False
        if not end.code:
            member.is_ready = True
            self._note(member)
            self._reports.running(member)
            return True
        member.is_unprepared = True
        member.code = end.code if end.code > 0 else NOT_STARTED
        member.reason = self._why(member, end)
        return False

    def _is_prepared(self, member: Member) -> bool:
        """Whether a member's environment was prepared here so recently that it still exists. If so,
        this call counts as another use of the environment.
        """
        at = self._prepared.get(_name(member))
        is_here = at is not None and self._clock() - at < KNOWN_S
        is_prepared = is_here and not member.order.packages
        if is_prepared:
            self._note(member)
        return is_prepared

    def _note(self, member: Member) -> None:
        self._prepared.pop(_name(member), None)
        self._prepared[_name(member)] = self._clock()
        if len(self._prepared) > _MOST_KNOWN:
            del self._prepared[next(iter(self._prepared))]

    def _why(self, member: Member, end: CommandEnd) -> str:
        path = preparing_log(member.log)
        _, size, _ = self._files.read(path, 0, 0)
        data, _, _ = self._files.read(path, max(size - _TAIL_BYTES, 0), _TAIL_BYTES)
        lines = last_lines(data.decode("utf-8", "replace"))
        if end.signal or not lines:
            lines = [*lines, end.reason or f"exit code {end.code}"]
        return "its environment could not be prepared:\n" + "\n".join(lines)


def _name(member: Member) -> tuple[str, str]:
    grant = member.order.grant
    return "" if grant is None else grant.user, member.order.environment


def last_lines(text: str) -> list[str]:
    """Return the last lines of a tool's output that are neither empty nor commands."""
    lines = [line.rpartition("\r")[2].rstrip()[:_LONGEST_LINE] for line in text.split("\n")]
    return [line for line in lines if line and not line.startswith("$ ")][-_TAIL_LINES:]
