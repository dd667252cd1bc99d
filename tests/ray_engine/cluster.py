"""One small Ray cluster for all these tests, with Phalanx's scheduler running on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest
import ray
from tests.polling import eventually
from tests.present import present

from phalanx.adapters.ray.scheduler.client import SchedulerClient
from phalanx.adapters.ray.scheduler.options import (
    NAMESPACE,
    NODE_AGENT,
    SCHEDULER,
    SchedulerOptions,
)
from phalanx.api.job import Job
from phalanx.api.jobs import SETTLED
from phalanx.api.new_manifests import job_manifest, manifest_objects
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.gangs import ListGangs
from phalanx.protocol.requests.jobs import ApplyManifests, DeleteJob, GetJob, ListJobs, ReadJobLog
from phalanx.protocol.requests.request import Request

R = TypeVar("R")

PATIENCE_S = 60.0
TTL_S = 10.0
"""The life of a lease. It is long enough that no lease ends even if each process gets only a tenth
of a processor.
"""
STORE_BYTES = 80 << 20
NODE = {"num_cpus": 2, "num_gpus": 4, "object_store_memory": STORE_BYTES}


class Phalanx:
    """The cluster as a test uses it."""

    def __init__(self, cluster: Any, nodes: list[Any]) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.client = SchedulerClient.connect(SchedulerOptions(ttl_s=TTL_S, margin_s=0.5))

    def ask(self, request: Request[R]) -> R:
        """The scheduler's answer."""
        return self.client.ask(request, timeout_s=PATIENCE_S)

    def submit(self, job: Job | str) -> None:
        if isinstance(job, Job):
            self.ask(ApplyManifests([job_manifest(job.spec())]))
        else:
            self.ask(ApplyManifests(manifest_objects(job)[0]))

    def job(self, name: str) -> JobDescription:
        """Return the description of a job."""
        return self.ask(GetJob(name))

    def until(self, name: str, *states: str) -> JobDescription:
        """Wait until a job is in one of these states, by default in one in which it is over; return
        the job.
        """
        wanted = states or SETTLED

        def settled() -> JobDescription | None:
            job = self.job(name)
            return job if job.state in wanted else None

        return present(eventually(settled))

    def log(self, job: str, member: str, attempt: int = -1) -> str:
        """The output of a member."""
        return self.ask(ReadJobLog(f"default/{job}", member, attempt)).data.decode()

    def groups(self) -> list[dict[str, Any]]:
        """Return the placement groups of Phalanx that still exist in Ray."""
        rows = ray.util.placement_group_table().values()
        return [r for r in rows if r["name"].startswith("phx/") and r["state"] != "REMOVED"]

    def is_free(self) -> bool:
        """Whether all devices of all nodes are free."""
        rows = self.ask(GetStatus()).nodes
        return all(
            row.available.get("GPU") == row.total.get("GPU") for row in rows if row.state == "ALIVE"
        )

    def pid(self, actor: Any) -> int:
        """The id of an actor's process."""
        return int(ray.get(actor.pid.remote(), timeout=PATIENCE_S))

    def add_node(self) -> str:
        """Add a raylet, and wait until its agent has joined. Returns the raylet's id."""
        node = self.cluster.add_node(**NODE)
        self.nodes.append(node)
        eventually(lambda: ray_node(node.node_id) in self.alive())
        return str(node.node_id)

    def mortal(self) -> list[Any]:
        """Return the raylets that a test may kill: all except the one to which this driver is
        connected. With Ray 2.49 a driver may be connected to any raylet, because all have the same
        address.
        """
        mine = ray.get_runtime_context().get_node_id()
        return [node for node in self.nodes if node.node_id != mine]

    def alive(self) -> set[str]:
        """Return the last parts of the ids (see `ray_node`) of the nodes that the scheduler regards
        as alive and usable.
        """
        rows = self.ask(GetStatus()).nodes
        return {ray_node(row.node_id) for row in rows if row.state == "ALIVE" and not row.reason}


@pytest.fixture(scope="session")
def session() -> Iterator[Phalanx]:
    """Start Ray once. All addresses are given explicitly, because others may run Ray on this
    machine.
    """
    from ray.cluster_utils import Cluster

    directory = tempfile.mkdtemp(prefix="phx-", dir="/tmp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_TMPDIR", directory)
        patch.setenv("RAY_DEDUP_LOGS", "0")
        cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "num_gpus": 0,
                "include_dashboard": False,
                # Ray leaves a socket open where it finds the usual port taken, as by another Ray.
                "dashboard_port": 0,
                "object_store_memory": STORE_BYTES,
                # A node that was killed is missed at once; one that only has no processor is not.
                "_system_config": {"health_check_timeout_ms": 60_000},
            },
        )
        try:
            nodes = [cluster.add_node(**NODE) for _ in range(3)]
            ray.init(address=cluster.address, namespace="test", log_to_driver=False)
            yield Phalanx(cluster, nodes)
        finally:
            with contextlib.suppress(Exception):
                ray.shutdown()
            cluster.shutdown()
            shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def phx(session: Phalanx) -> Iterator[Phalanx]:
    """Yield the cluster. Fails if the test leaves work or placement groups there."""
    yield session
    for row in session.ask(ListJobs()):
        session.ask(DeleteJob(f"{row.namespace}/{row.name}"))
    eventually(lambda: not session.ask(ListGangs()))
    eventually(lambda: not session.groups())
    names = {row["name"] for row in ray.util.list_named_actors(all_namespaces=True)}
    assert all(name.startswith("phalanx-") for name in names), names
    eventually(session.is_free)


def kill_hard(pid: int) -> None:
    """Send SIGKILL to a process of this cluster."""
    os.kill(pid, 9)


def scheduler() -> Any:
    """The scheduler's actor."""
    return ray.get_actor(SCHEDULER, namespace=NAMESPACE)


def ray_node(node_id: str) -> str:
    """Return the last part of a node's id, which is the same in Ray and in Phalanx. The first parts
    may differ.
    """
    return node_id[12:]


def node_agent(node_id: str) -> Any:
    """The agent of a node."""
    return ray.get_actor(f"{NODE_AGENT}{node_id}", namespace=NAMESPACE)
