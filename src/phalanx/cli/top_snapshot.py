"""The data of `phalanx top`, read from the head as changes, like the dashboard's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from phalanx.model.jobs import states as st
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import NodeInfo, StatusInfo
from phalanx.model.rows.devices import DeviceInfo
from phalanx.model.rows.work import GangInfo, JobInfo, QueueInfo
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.health import ListDevices
from phalanx.protocol.requests.news import GetNews, ListWaiting, Since, WaitInfo, with_wait
from phalanx.protocol.requests.request import Request

SHARE = 50.0
"""The pause before `top` asks again why jobs wait, as a multiple of the last response time. This
question takes the head longer than any other. With this factor, it takes at most a fiftieth of the
head's time.
"""
Ask = Callable[[Request[Any]], Any]


class TopSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one moment: nodes by name, waiting jobs in the order of their queues."""

    at: float
    """The time of the snapshot, in seconds since the epoch."""
    status: StatusInfo
    nodes: list[NodeInfo]
    devices: dict[str, list[DeviceInfo]]
    """The devices of each node, by node id and sorted by number."""
    queues: list[QueueInfo]
    waiting: list[JobInfo]
    running: list[JobInfo]
    gangs: list[GangInfo]

    def devices_of(self, job: JobInfo) -> list[DeviceInfo]:
        """Return the GPUs that members of a job hold."""
        uid = f"{job.namespace}/{job.name}"
        held = {
            (node, number)
            for gang in self.gangs
            if gang.job == uid
            for node, devices in zip(gang.nodes, gang.devices, strict=False)
            for number in devices.get("GPU", ())
        }
        return [
            device
            for node in sorted({node for node, _ in held})
            for device in self.devices.get(node, ())
            if (node, device.number) in held
        ]


class Following:
    """A copy of the head's state, updated by asking the head only for changes."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._since = Since()
        self._nodes: dict[str, NodeInfo] = {}
        self._jobs: dict[str, JobInfo] = {}
        self._gangs: dict[str, GangInfo] = {}
        self._queues: list[QueueInfo] = []
        self._waits: dict[str, WaitInfo] = {}
        self._waits_due = 0.0

    def look(self) -> TopSnapshot:
        """Ask the head for changes, and return the cluster's present state."""
        status: StatusInfo = self._ask(GetStatus(is_brief=True))
        while self._fetch():
            pass
        devices: dict[str, list[DeviceInfo]] = {}
        for device in self._ask(ListDevices()):
            devices.setdefault(device.node_id, []).append(device)
        jobs = self._jobs_now()
        nodes = [row for row in self._nodes.values() if row.state != DEAD]
        waiting = [job for job in jobs if job.state in (st.PENDING, st.PREPARING)]
        return TopSnapshot(
            at=time.time(),
            status=status,
            nodes=sorted(nodes, key=lambda row: (row.hostname, row.node_id)),
            devices=devices,
            queues=sorted(self._queues, key=lambda row: row.name),
            waiting=sorted(waiting, key=lambda job: (job.queue, job.position or 0, job.name)),
            running=sorted(
                (job for job in jobs if job.running), key=lambda job: (job.queue, job.name)
            ),
            gangs=list(self._gangs.values()),
        )

    def _jobs_now(self) -> list[JobInfo]:
        if not any(job.pending for job in self._jobs.values()):
            self._waits = {}
        elif time.monotonic() >= self._waits_due:
            begun = time.monotonic()
            self._waits = {one.job: one for one in self._ask(ListWaiting())}
            now = time.monotonic()
            self._waits_due = now + (now - begun) * SHARE
        return [with_wait(job, self._waits.get(uid)) for uid, job in self._jobs.items()]

    def _fetch(self) -> bool:
        news = self._ask(GetNews(self._since))
        if news.is_new:
            self._nodes, self._jobs, self._gangs = {}, {}, {}
        self._since, self._queues = news.since, news.queues
        self._nodes |= {row.node_id: row for row in news.nodes}
        self._jobs |= {f"{row.namespace}/{row.name}": row for row in news.jobs}
        self._gangs |= {row.group: row for row in news.gangs}
        for known, gone in (
            (self._nodes, news.gone_nodes),
            (self._jobs, news.gone_jobs),
            (self._gangs, news.gone_gangs),
        ):
            for name in gone:
                known.pop(name, None)
        return bool(news.is_more)
