"""Steps: additional programs in the place of a job's running member."""

from __future__ import annotations

import itertools
import shlex
from typing import NamedTuple

from phalanx.errors import JobCommandError
from phalanx.head.accounting.records import MAX_TEXT, user_of
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.listing import JobListing
from phalanx.head.jobs.starting import WantedStep, streams_of
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.model.ids import PREFIX_BYTES, PROCESS_ID_BYTES, node_prefix
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.states import RUNNING
from phalanx.model.steps import Step
from phalanx.protocol.bundle_messages import StartStep, StepStarted, Streams
from phalanx.protocol.requests.request import LATER, Asker, Later
from phalanx.protocol.requests.steps import AttachMember, BeginStep, RunStep
from phalanx.scheduler.devices.ports import RandomSource

KEEP_ASKED = 1_000
MAX_TASKS = 100_000


class _Asked(NamedTuple):
    """A request that is waiting for a node's answer."""

    asker: Asker[bytes]
    process: bytes
    who: str
    order: StartStep


class Steps:
    """The requested steps, until their nodes have answered."""

    def __init__(
        self,
        outbox: Outbox,
        nodes: NodeDirectory,
        jobs: JobGangs,
        listing: JobListing,
        rng: RandomSource,
    ) -> None:
        self._outbox = outbox
        self._nodes = nodes
        self._jobs = jobs
        self._listing = listing
        self._rng = rng
        self._tokens = itertools.count(1)
        self._asked: dict[int, _Asked] = {}

    def begin(self, asker: Asker[int], request: BeginStep) -> int:
        """Record a new step of a running job. Returns the step's number."""
        job = self._listing.need(request.job)
        gang = self._jobs.gang_of(job.uid)
        if not 1 <= request.tasks <= MAX_TASKS:
            raise ValueError(f"a step has 1 to {MAX_TASKS:,} tasks, not {request.tasks}")
        if gang is None or not job.count(RUNNING):
            raise JobCommandError(f"job {job.uid} does not run: it is {job.state}")
        number = self._jobs.number_step(job)
        program = request.argv[0].rpartition("/")[2] if request.argv else ""
        step = Step(
            job=job.spec.name,
            namespace=job.spec.namespace,
            submitted=self._jobs.records.submitted_in_history(job),
            number=number,
            name=(request.name or program)[:MAX_TEXT],
            user=user_of(job.spec),
            queue=job.spec.queue,
            command=shlex.join(request.argv)[:MAX_TEXT],
            tasks=request.tasks,
            started=self._jobs.wall(),
        )
        self._jobs.steps.begin(gang, step)
        return number

    def run(self, asker: Asker[bytes], request: RunStep) -> Later:
        """Ask a member's node to run a task of a step. The answer comes later and names the process
        that handles the task's streams.
        """
        job = self._listing.need(request.job)
        member = member_of(job, request.member)
        process = bytes(self._rng.randrange(256) for _ in range(PROCESS_ID_BYTES - PREFIX_BYTES))
        found = self._jobs.members.place_of(job, member.group, member.index)
        if found:
            gang, index = found
            process = node_prefix(gang.members[index].node) + process
        streams = Streams(process, request.is_terminal, request.port)
        wanted = WantedStep(
            request.argv, request.variables, request.directory, streams, request.umask
        )
        order = self._jobs.members.step(job, member.group, member.index, wanted)
        if order is None:
            raise JobCommandError(
                f"member {member.name} of job {job.uid} does not run: it is {member.state}"
            )
        self._must_be_there(order.node_id, member.name)
        task = 0
        if found is not None and request.step >= 0:
            group = job.spec.group(member.group)
            cpus = 0.0 if group is None else group.template.needs.get("CPU", 0.0)
            task = self._jobs.steps.task(*found, request.step, cpus)
        token = next(self._tokens)
        who = f"member {member.name} of job {job.uid}"
        message = StartStep(
            token, order.group, order.place, order.attempt, order.command, request.step, task
        )
        self._asked[token] = _Asked(asker, process, who, message)
        if len(self._asked) > KEEP_ASKED:
            del self._asked[next(iter(self._asked))]
        self._outbox.send_node(order.node_id, message)
        return LATER

    def started(self, message: StepStarted) -> None:
        """Answer the asker, once a node has reported whether the task of a step starts."""
        asked = self._asked.pop(message.token, None)
        if asked is None:
            return
        if message.refusal:
            order, now = asked.order, self._jobs.wall()
            self._jobs.steps.refused(order.group, order.step, order.task, now)
            asked.asker.fail(JobCommandError(f"{asked.who} cannot run a step: {message.refusal}"))
        else:
            asked.asker.reply(asked.process)

    def attach(self, asker: Asker[bytes], request: AttachMember) -> bytes:
        """Return the process that handles the streams of a member's first program."""
        job = self._listing.need(request.job)
        member = member_of(job, request.member)
        group = job.spec.group(member.group)
        if group is None or not any(one.streams for one in group.template.processes[:1]):
            raise JobCommandError(
                f"member {member.name} of job {job.uid} was not submitted to be attached to; "
                "`phalanx logs` shows what it prints, and `phalanx shell` runs a shell in its place"
            )
        found = self._jobs.members.place_of(job, member.group, member.index)
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


def member_of(job: JobRecord, name: str) -> MemberRecord:
    """Return the member with that name; for "", the first member. Raises JobCommandError for an
    unknown name.
    """
    found = next((member for member in job.members if name in ("", member.name)), None)
    if found is None:
        there = ", ".join(member.name for member in job.members[:10])
        raise JobCommandError(f"job {job.uid} has no member {name!r}; it has {there}")
    return found
