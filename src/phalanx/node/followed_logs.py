"""The logs that a command in the foreground shows completely. Output is kept until the command has
read it, and a member that prints too fast is stopped until then.

This module is pure. A member writes into its log itself, and may write faster than the command
reads. Unread output is never dropped; if there is much of it, the member is stopped until the
command has read most of it. A command that sends no request for a while counts as gone. Its member
then continues, and the log is bounded like every other.
"""

from __future__ import annotations

from signal import SIGCONT, SIGSTOP

import msgspec

MOST_UNREAD_BYTES = 32 << 20
"""The number of unread bytes of a log above which its member is stopped."""
ENOUGH_UNREAD_BYTES = 4 << 20
"""The number of unread bytes below which a stopped member continues."""
PATIENCE_S = 60.0
"""Seconds without a request from the command after which it counts as gone."""


class _Followed(msgspec.Struct, kw_only=True):
    heard_at: float
    read_to: int = 0
    """The offset up to which the command has read everything."""
    is_stopped: bool = False


class FollowedLogs:
    """The followed logs of one node, by path."""

    def __init__(self) -> None:
        self._logs: dict[str, _Followed] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def begin(self, path: str, now: float) -> None:
        """Keep all output of a member that begins, because a command will read it."""
        self._logs[path] = _Followed(heard_at=now)

    def read(self, path: str, offset: int, now: float) -> None:
        """Note that the command has read everything before this offset."""
        found = self._logs.get(path)
        if found is not None:
            found.heard_at = now
            found.read_to = max(found.read_to, offset)

    def read_to(self, path: str) -> int | None:
        """Return the offset before which output may be dropped; None for a log that no command
        follows.
        """
        found = self._logs.get(path)
        return None if found is None else found.read_to

    def signal(self, path: str, size: int) -> int:
        """Return the signal that the member of a log of `size` bytes must get now; 0 for none.

        A member that must stay stopped gets the signal at each call, because it may have started
        more processes.
        """
        found = self._logs[path]
        unread = size - found.read_to
        if unread > MOST_UNREAD_BYTES or (found.is_stopped and unread > ENOUGH_UNREAD_BYTES):
            found.is_stopped = True
            return SIGSTOP
        return self.go_on(path)

    def go_on(self, path: str) -> int:
        """Return the signal that continues a stopped member; 0 if the member was not stopped."""
        found = self._logs.get(path)
        if found is None or not found.is_stopped:
            return 0
        found.is_stopped = False
        return SIGCONT

    def silent(self, now: float) -> list[str]:
        """Return the logs whose commands count as gone."""
        return [path for path, one in self._logs.items() if now - one.heard_at > PATIENCE_S]

    def forget(self, path: str) -> None:
        """Stop following a log. From now on its length is limited like the length of any other
        log.
        """
        self._logs.pop(path, None)
