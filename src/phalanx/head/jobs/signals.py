"""Signals that users send to running members of jobs. Sending a signal does not change the state of
a member.
"""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.errors import JobCommandError
from phalanx.head.gangs.gang import Gang
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.listing import JobListing
from phalanx.head.jobs.steps import member_of
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.states import RUNNING
from phalanx.protocol.bundle_messages import SignalMember
from phalanx.protocol.requests.request import Asker
from phalanx.protocol.requests.steps import SignalJob

LARGEST = 64
"""The largest signal number on Linux."""


class Signals:
    """Passes signals on to the nodes of members. Each signal is delivered once."""

    def __init__(
        self, outbox: Outbox, nodes: NodeDirectory, jobs: JobGangs, listing: JobListing
    ) -> None:
        self._outbox = outbox
        self._nodes = nodes
        self._jobs = jobs
        self._listing = listing

    def send(self, asker: Asker[int], request: SignalJob) -> int:
        """Send a signal to the running members that a request names. Returns their number. Raises
        JobCommandError if none of them runs.
        """
        if not 1 <= request.signal <= LARGEST:
            raise ValueError(f"a signal is a number from 1 to {LARGEST}, not {request.signal}")
        job = self._listing.need(request.job)
        orders = [
            (
                place.node,
                SignalMember(gang.gang_id, index, place.attempt, request.signal, request.to),
            )
            for one in self._with_array_tasks(job)
            for gang, index in self._running(one, request.member)
            for place in [gang.members[index]]
        ]
        if not orders:
            raise JobCommandError(_refusal(job, request.member))
        for node_id in {node_id for node_id, _ in orders}:
            record = self._nodes.get(node_id)
            if record is None or not self._outbox.is_connected(record.prefix):
                raise JobCommandError(
                    f"a node of job {job.uid} is not connected now, so the signal was not sent "
                    "to any member"
                )
        for node_id, order in orders:
            self._outbox.send_node(node_id, order)
        return len(orders)

    def _with_array_tasks(self, job: JobRecord) -> list[JobRecord]:
        """Return the job or, if it is an array, the jobs of its live tasks."""
        if job.spec.array is None:
            return [job]
        return [
            one
            for one in self._jobs.all_jobs()
            if one.spec.element is not None and one.spec.element.array == job.uid
        ]

    def _running(self, job: JobRecord, name: str) -> Iterator[tuple[Gang, int]]:
        for member in job.members:
            if member.state == RUNNING and name in ("", member.name):
                found = self._jobs.members.place_of(job, member.group, member.index)
                if found is not None:
                    yield found


def _refusal(job: JobRecord, name: str) -> str:
    """Return why no member of the job, or not the member with this name, can get a signal."""
    if not name:
        return f"job {job.uid} does not run: it is {job.state}"
    if job.spec.array is not None:
        return f"no running task of array {job.uid} has a member {name!r}"
    member = member_of(job, name)
    return f"member {name} of job {job.uid} does not run: it is {member.state}"
