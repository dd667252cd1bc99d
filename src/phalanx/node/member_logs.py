"""The logs of members: limits their size, reads them for other machines, keeps them for some time,
and notes when one is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from phalanx.model.ids import JobId
from phalanx.model.member_logs import MAY_BE_LOST
from phalanx.node.directories import Directories
from phalanx.node.followed_logs import FollowedLogs
from phalanx.node.kept_logs import KeptLogs
from phalanx.node.member import Member
from phalanx.node.member_effects import JobFiles
from phalanx.node.member_processes import MemberProcesses
from phalanx.protocol.bundle_messages import ForgetJob, LogRead, ReadLog

_OF_EARLIER = JobId("")
"""In place of the job's id for logs of earlier processes of this node, whose jobs are not known."""
LOOK_EVERY_S = 0.1
"""Seconds between two looks at the logs. A program can print some hundred megabytes in a second."""


class MemberLogs:
    """The logs of the members on this node, and of members that have ended here."""

    def __init__(
        self,
        files: JobFiles,
        processes: MemberProcesses,
        directories: Directories,
        clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._processes = processes
        self._directories = directories
        self._kept = KeptLogs(files)
        self._followed = FollowedLogs()
        self._look_at = 0.0
        directories.make_room = self._kept.drop_oldest
        for path, age_s in files.earlier_logs():
            self._kept.ended(_OF_EARLIER, path, clock() - age_s)

    def begin(self, log: str, is_followed: bool, now: float) -> None:
        """Keep the log of a member while the member runs. Call this when the member begins, for the
        first time or again.

        `is_followed`: whether a command reads the whole log.
        """
        self._kept.begins_again(log)
        if is_followed:
            self._followed.begin(log, now)

    def read(self, message: ReadLog, now: float) -> LogRead:
        """Return a part of a log."""
        if message.is_followed:
            self._followed.read(message.path, message.offset, now)
        data, size, skipped = self._files.read(message.path, message.offset, message.limit)
        return LogRead(message.token, data, size, skipped)

    def ended(self, member: Member, now: float) -> None:
        """Keep the log of a member that has ended. If the log is lost, the member's reason says
        so.
        """
        self._bound(member.log)
        self._kept.ended(member.order.job, member.log, now)
        self._note_loss(member)

    def forget(self, message: ForgetJob) -> None:
        """Delete the files of a job that is gone."""
        self._files.remove(message.job)
        self._kept.forget(message.job)

    def tick(self, now: float, members: Collection[Member]) -> None:
        """Shorten logs that are too large, stop members whose followed output is not read fast
        enough, and drop old logs.
        """
        if (members or self._followed) and now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._look(now, members)
        self._kept.tick(now)

    def _look(self, now: float, members: Collection[Member]) -> None:
        by_log = {member.log: member for member in members}
        for path in self._followed.silent(now):
            if path in by_log:
                self.go_on(by_log[path])
            self._followed.forget(path)
            self._files.shorten(path)
        for path, member in by_log.items():
            self._bound(path)
            if self._followed.read_to(path) is not None and not member.is_ending:
                _, size, _ = self._files.read(path, 0, 0)
                self._processes.signal(member.running, self._followed.signal(path, size))

    def go_on(self, member: Member) -> None:
        """Continue a member that was stopped because of its unread output."""
        self._processes.signal(member.running, self._followed.go_on(member.log))

    def _bound(self, log: str) -> None:
        """Drop the oldest part of a log that is too large, but keep the output that a follower of
        the log, such as `phalanx run`, has not read yet.
        """
        self._files.shorten(log, self._followed.read_to(log))

    def _note_loss(self, member: Member) -> None:
        """Add to the member's reason that output was lost. Nothing else would show this, because
        programs write their logs themselves.
        """
        self._directories.seen()
        if not member.has_begun:
            return
        if self._files.is_lost(member.log):
            lost = f"its log was removed or moved, and its {MAY_BE_LOST}"
        elif self._directories.was_full_since(member.began_at):
            lost = f"the disk of its log had no room, and {MAY_BE_LOST}"
        else:
            return
        how = member.reason or (f"exit code {member.code}" if member.code else "")
        member.reason = f"{how}; {lost}" if how else lost
