"""Reads the output and the usage of jobs' members on their nodes."""

from __future__ import annotations

import itertools
from typing import Any

from phalanx.errors import JobNotFoundError
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.model.member_logs import preparing_log
from phalanx.model.member_use import MemberUse
from phalanx.protocol.bundle_messages import LogRead, MemberUseRead, ReadLog, ReadMemberUse
from phalanx.protocol.requests.jobs import GetMemberUse, LogPart, ReadJobLog
from phalanx.protocol.requests.request import LATER, Asker, Later

MAX_BYTES = 1 << 20
KEEP_ASKED = 1_000


class Logs:
    """Answers requests about members by asking the members' nodes."""

    def __init__(self, outbox: Outbox, nodes: NodeDirectory, jobs: JobGangs) -> None:
        self._outbox = outbox
        self._nodes = nodes
        self._jobs = jobs
        self._tokens = itertools.count(1)
        self._asked: dict[int, Asker[Any]] = {}

    def read(self, asker: Asker[LogPart], request: ReadJobLog) -> LogPart | Later:
        """Ask a member's node for a part of the member's log; the answer follows. If the node is
        not connected, answer now with an empty part.
        """
        node_id, path = self._file(request.job, request.member, request.attempt)
        if not self._is_reached(node_id):
            return LogPart(b"", 0 if self._nodes.is_expected(node_id) else -1)
        token = self._remember(asker)
        path = preparing_log(path) if request.is_preparing else path
        limit = MAX_BYTES if request.limit is None else min(max(request.limit, 0), MAX_BYTES)
        order = ReadLog(token, path, request.offset, limit, request.is_followed)
        self._outbox.send_node(node_id, order)
        return LATER

    def use(self, asker: Asker[MemberUse], request: GetMemberUse) -> MemberUse | Later:
        """Ask a member's node for the usage of the member; the answer follows. If the node is not
        connected, answer now without any usage.
        """
        node_id, path = self._file(request.job, request.member, -1)
        if not self._is_reached(node_id):
            return MemberUse()
        self._outbox.send_node(node_id, ReadMemberUse(self._remember(asker), path))
        return LATER

    def _file(self, job: str, member: str, attempt: int) -> tuple[str, str]:
        """Return (node, path) of the output of an attempt. Raises JobNotFoundError."""
        files = self._jobs.logs(job).get(member, [])
        if not -len(files) <= attempt < len(files):
            started = (
                f"it was started {len(files)} times" if files else "it has not been started yet"
            )
            raise JobNotFoundError(f"member {member} of job {job} has no such output: {started}")
        began_on, path = files[attempt]
        return self._nodes.latest(began_on), path

    def _is_reached(self, node_id: str) -> bool:
        record = self._nodes.get(node_id)
        return record is not None and self._outbox.is_connected(record.prefix)

    def _remember(self, asker: Asker[Any]) -> int:
        """Store an asker until the node answers. Returns the token that the answer will carry."""
        token = next(self._tokens)
        self._asked[token] = asker
        if len(self._asked) > KEEP_ASKED:
            del self._asked[next(iter(self._asked))]
        return token

    def answered(self, message: LogRead | MemberUseRead) -> None:
        """Send a node's answer to the asker."""
        asker = self._asked.pop(message.token, None)
        if asker is None:
            return
        if isinstance(message, LogRead):
            asker.reply(LogPart(message.data, message.size, message.skipped))
        else:
            asker.reply(message.use)
