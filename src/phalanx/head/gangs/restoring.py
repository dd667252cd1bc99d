"""Reading queues, gangs and jobs again when the head has restarted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from phalanx.head.gangs.gang import Gang
from phalanx.head.jobs.control import JobRow
from phalanx.head.queues.table import QueueRecord
from phalanx.manifests.hypernodes import HyperNode
from phalanx.model.jobs.families import CronRecord, FlowRecord
from phalanx.model.jobs.spec import JobSpec, PriorityClass

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler


def restore(batch: GangScheduler, stored: Mapping[str, list[bytes]]) -> None:
    """Hand what an earlier head wrote to the shell; placement groups are restored before."""
    decode = msgspec.msgpack.decode
    batch.queues.table.restore([decode(row, type=QueueRecord) for row in stored["queues"]])
    batch.jobs.load(decode(row, type=JobRow) for row in stored["batch_jobs"])
    batch.domains.load(decode(row, type=HyperNode) for row in stored["hypernodes"])
    gangs = [decode(row, type=Gang) for row in stored["gangs"]]
    batch.priorities.load(decode(row, type=PriorityClass) for row in stored["priorities"])
    batch.restore(sorted(gangs, key=lambda gang: gang.created))
    templates = [decode(row, type=JobSpec) for row in stored["templates"]]
    flows = [decode(row, type=FlowRecord) for row in stored["flows"]]
    batch.job_requests.flows.restore(templates, sorted(flows, key=lambda flow: flow.submitted))
    batch.job_requests.crons.restore([decode(row, type=CronRecord) for row in stored["crons"]])
