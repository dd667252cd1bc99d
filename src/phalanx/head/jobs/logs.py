"""Reads the output of jobs' members from the nodes that have the files."""

from __future__ import annotations

import itertools

from phalanx.errors import JobNotFoundError
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.nodes import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.protocol.bundle_messages import LogRead, ReadLog
from phalanx.protocol.requests.jobs import LogPart, ReadJobLog
from phalanx.protocol.requests.request import LATER, Asker, Later

MAX_BYTES = 1 << 20
KEEP_ASKED = 1_000


class Logs:
    """The requests for logs that are on their way."""

    def __init__(self, outbox: Outbox, nodes: NodeDirectory, jobs: JobGangs) -> None:
        self._outbox = outbox
        self._nodes = nodes
        self._jobs = jobs
        self._tokens = itertools.count(1)
        self._asked: dict[int, Asker[LogPart]] = {}

    def read(self, asker: Asker[LogPart], request: ReadJobLog) -> LogPart | Later:
        """Answer with a part of a member's log, now or after its node has read it."""
        job, member, attempt = request.job, request.member, request.attempt
        files = self._jobs.logs(job).get(member, [])
        if not -len(files) <= attempt < len(files):
            started = f"it was started {len(files)} times" if files else "it was not started yet"
            raise JobNotFoundError(f"member {member} of job {job} has no such output: {started}")
        node_id, path = files[attempt]
        record = self._nodes.get(node_id)
        if record is None or not self._outbox.is_connected(record.prefix):
            return LogPart(b"", -1)
        token = next(self._tokens)
        self._asked[token] = asker
        if len(self._asked) > KEEP_ASKED:
            del self._asked[next(iter(self._asked))]
        limit = MAX_BYTES if request.limit is None else min(max(request.limit, 0), MAX_BYTES)
        order = ReadLog(token, path, request.offset, limit, request.is_followed)
        self._outbox.send_node(node_id, order)
        return LATER

    def answered(self, message: LogRead) -> None:
        """Answer the asker whose log a node has read."""
        asker = self._asked.pop(message.token, None)
        if asker is not None:
            asker.reply(LogPart(message.data, message.size, message.skipped))
