"""Steps: programs that somebody has run beside those of a job's member, in its place."""

from __future__ import annotations

import itertools

from phalanx.errors import JobCommandError
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.requests import JobRequests
from phalanx.head.jobs.starting import Step, streams_of
from phalanx.head.nodes import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.model.ids import PREFIX_BYTES, PROCESS_ID_BYTES, node_prefix
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.protocol.bundle_messages import StartStep, StepStarted, Streams
from phalanx.protocol.requests.request import LATER, Asker, Later
from phalanx.protocol.requests.steps import AttachMember, RunStep
from phalanx.resources.ports import RandomSource

KEEP_ASKED = 1_000


class Steps:
    """Wishes for steps that are on their way to nodes."""

    def __init__(
        self,
        outbox: Outbox,
        nodes: NodeDirectory,
        jobs: JobGangs,
        requests: JobRequests,
        rng: RandomSource,
    ) -> None:
        self._outbox = outbox
        self._nodes = nodes
        self._jobs = jobs
        self._requests = requests
        self._rng = rng
        self._tokens = itertools.count(1)
        self._asked: dict[int, tuple[Asker[bytes], bytes, str]] = {}

    def run(self, asker: Asker[bytes], request: RunStep) -> Later:
        """See RunStep."""
        job = self._requests.need(request.job)
        member = _member_of(job, request.member)
        process = bytes(self._rng.randrange(256) for _ in range(PROCESS_ID_BYTES - PREFIX_BYTES))
        found = self._jobs.place_of(job, member.group, member.index)
        process = (node_prefix(found[0].members[found[1]].node) if found else b"") + process
        streams = Streams(process, request.is_terminal, request.port)
        wanted = Step(request.argv, request.variables, request.directory, streams)
        order = self._jobs.step(job, member.group, member.index, wanted)
        if order is None:
            raise JobCommandError(
                f"member {member.name} of job {job.uid} does not run: it is {member.state}"
            )
        self._must_be_there(order.node_id, member.name)
        token = next(self._tokens)
        self._asked[token] = (asker, process, f"member {member.name} of job {job.uid}")
        if len(self._asked) > KEEP_ASKED:
            del self._asked[next(iter(self._asked))]
        message = StartStep(token, order.group, order.place, order.attempt, order.command)
        self._outbox.send_node(order.node_id, message)
        return LATER

    def started(self, message: StepStarted) -> None:
        """A node says whether a step begins."""
        asker, process, who = self._asked.pop(message.token, (None, b"", ""))
        if asker is None:
            return
        if message.refusal:
            asker.fail(JobCommandError(f"{who} takes no step: {message.refusal}"))
        else:
            asker.reply(process)

    def attach(self, asker: Asker[bytes], request: AttachMember) -> bytes:
        """See AttachMember."""
        job = self._requests.need(request.job)
        member = _member_of(job, request.member)
        group = job.spec.group(member.group)
        if group is None or not any(one.streams for one in group.template.processes[:1]):
            raise JobCommandError(
                f"member {member.name} of job {job.uid} was not submitted to be attached to; "
                "`phalanx logs` shows what it prints, and `phalanx shell` runs a shell beside it"
            )
        found = self._jobs.place_of(job, member.group, member.index)
        if found is None:
            raise JobCommandError(
                f"member {member.name} of job {job.uid} does not run: it is {member.state}"
            )
        gang, index = found
        self._must_be_there(gang.members[index].node, member.name)
        return streams_of(gang, index, gang.members[index].attempt)

    def _must_be_there(self, node_id: str, member: str) -> None:
        record = self._nodes.get(node_id)
        if record is None or not self._outbox.is_connected(record.prefix):
            raise JobCommandError(f"the node of member {member} is not connected now")


def _member_of(job: JobRecord, name: str) -> MemberRecord:
    """The member of that name; "": the first. Raises JobCommandError for one that is none."""
    found = next((member for member in job.members if name in ("", member.name)), None)
    if found is None:
        there = ", ".join(member.name for member in job.members[:10])
        raise JobCommandError(f"job {job.uid} has no member {name!r}; it has {there}")
    return found
