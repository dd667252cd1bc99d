"""Jobs on a Ray cluster, from the queue to their end."""

from __future__ import annotations

import collections
import os
import queue
from pathlib import Path
from typing import Any

import msgspec
import pytest
import ray
from tests.polling import eventually

from phalanx.adapters.ray.scheduler.ray_groups import RayGroups
from phalanx.api.job import Job
from phalanx.errors import GangInfeasibleError, JobNotFoundError, QueueUnavailableError
from phalanx.model.ids import GangId, GroupId
from phalanx.model.jobs.gang_view import GangView
from phalanx.protocol.requests.gangs import CreateGang, EndMembers, Explain
from phalanx.protocol.requests.groups import WaitGroup
from phalanx.protocol.requests.jobs import CommandJob
from phalanx.protocol.requests.ray import ListGangPlaces

from .cluster import PATIENCE_S, Phalanx, ray_node

CPU = 0.25

VOLCANO = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: from-volcano}
spec:
  minAvailable: 2
  queue: default
  plugins: {env: [], svc: []}
  tasks:
  - name: ps
    replicas: 1
    template:
      spec:
        containers:
        - command: [sh, -c, "echo I am ps of $VC_WORKER_NUM"]
          resources: {requests: {cpu: 250m}}
  - name: worker
    replicas: 1
    policies: [{event: TaskCompleted, action: CompleteJob}]
    template:
      spec:
        containers:
        - command: [sh, -c, "echo I am worker $VC_TASK_INDEX"]
          resources: {requests: {cpu: 250m, nvidia.com/gpu: 1}}
"""


def test_a_volcano_manifest_completes(phx: Phalanx) -> None:
    phx.submit(VOLCANO)
    assert phx.until("from-volcano")["state"] == "Completed"
    assert phx.log("from-volcano", "worker-0") == "I am worker 0\n"


def test_a_gang_over_three_nodes_holds_exact_devices(phx: Phalanx) -> None:
    job = Job(
        "echo $RANK of $WORLD_SIZE: $CUDA_VISIBLE_DEVICES; sleep 3",
        name="wide",
        members=6,
        num_cpus=CPU,
        num_gpus=2,
    )
    phx.submit(job)
    running = phx.until("wide", "Running")
    held: dict[str, list[int]] = collections.defaultdict(list)
    for member in running["members"]:
        held[ray_node(member["node"])] += member["devices"]["GPU"]
    assert {node: sorted(numbers) for node, numbers in held.items()} == {
        ray_node(node.node_id): [0, 1, 2, 3] for node in phx.nodes
    }
    (group,) = phx.groups()
    by_ray = collections.Counter(group["bundles_to_node_id"].values())
    assert by_ray == {node.node_id: 2 for node in phx.nodes}
    assert phx.until("wide")["state"] == "Completed"
    said = {phx.log("wide", member["name"]).strip() for member in running["members"]}
    wanted = {
        f"{rank} of 6: {','.join(map(str, member['devices']['GPU']))}"
        for rank, member in enumerate(running["members"])
    }
    assert said == wanted


def test_whoever_waits_is_told_why_and_starts_when_there_is_room(phx: Phalanx) -> None:
    phx.submit(Job("sleep 60", name="first", members=3, num_cpus=CPU, num_gpus=4))
    phx.until("first", "Running")
    phx.submit(Job("true", name="second", members=2, num_cpus=CPU, num_gpus=3))
    answer = eventually(lambda: phx.ask(Explain("second")))
    assert (answer.waits, answer.position) == (True, 1)
    assert answer.reasons[0].reason == "gang-not-whole"
    phx.ask(CommandJob("first", "cancel"))
    assert phx.until("second")["state"] == "Completed"


def test_preemption_leaves_a_grace_and_the_evicted_come_back(phx: Phalanx, tmp_path: Path) -> None:
    again = tmp_path / "again"
    script = (
        f'test -e {again} && exit 0; trap "echo saved; touch {again}; exit 0" TERM; '
        "echo begun; while :; do sleep 0.1; done"
    )
    phx.submit(Job(script, name="low", members=3, num_cpus=CPU, num_gpus=4, grace_s=20))
    phx.until("low", "Running")
    eventually(lambda: "begun" in phx.log("low", "worker-0"))
    phx.submit(Job("true", name="high", members=3, num_cpus=CPU, num_gpus=4, priority=10))
    assert phx.until("high")["state"] == "Completed"
    low = phx.until("low")
    assert (low["state"], low["retries"]) == ("Completed", 0)
    assert {member["attempt"] for member in low["members"]} == {2}
    assert "saved" in phx.log("low", "worker-0", attempt=0)


def test_work_of_ray_outside_of_queues_counts_as_taken(phx: Phalanx) -> None:
    @ray.remote(num_gpus=4, num_cpus=0)
    class Taker:
        def here(self) -> bool:
            return True

    takers = [Taker.remote() for _ in phx.nodes]
    assert all(ray.get([taker.here.remote() for taker in takers]))
    phx.submit(Job("true", name="waits", members=1, num_cpus=CPU, num_gpus=1))
    answer = phx.ask(Explain("waits"))
    assert answer.waits
    assert [one.reason for one in answer.because] == ["resource"]
    assert "GPU" in answer.main
    for taker in takers:
        ray.kill(taker)
    assert phx.until("waits")["state"] == "Completed"


@pytest.mark.parametrize(
    ("job", "error"),
    [
        (Job("true", name="huge", num_gpus=5), GangInfeasibleError),
        (Job("true", name="lost", queue="nowhere"), QueueUnavailableError),
    ],
)
def test_what_cannot_be_is_refused_as_on_the_runtime(
    phx: Phalanx, job: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        phx.submit(job)
    with pytest.raises(JobNotFoundError):
        phx.job(job.name)


def test_gangs_of_rays_tasks_learn_their_bundles(phx: Phalanx) -> None:
    group = GangId(GroupId(os.urandom(18)))
    needs = [{"CPU": CPU, "GPU": 3.0}] * 3
    origin = os.urandom(16)  # a program's process: a visitor makes no gangs
    phx.client.ask(CreateGang(group, "tasks", "default", needs, min_members=3), origin=origin)
    assert phx.client.ask(WaitGroup(group), timeout_s=PATIENCE_S, origin=origin) is True
    places = phx.client.ask(ListGangPlaces(group), origin=origin)
    assert [place.bundle for place in places.values()] == [0, 1, 2]
    assert len({place.node for place in places.values()}) == 3
    views = [msgspec.msgpack.decode(place.view, type=GangView) for place in places.values()]
    assert [view.rank for view in views] == [0, 1, 2]
    assert all(len(view.devices) == 3 for view in views)
    (row,) = phx.groups()
    assert {place.placement_group for place in places.values()} == {row["placement_group_id"]}
    phx.client.ask(EndMembers(group, [0, 1, 2]), origin=origin)


def test_what_ray_does_not_grant_in_time_is_withdrawn(phx: Phalanx) -> None:
    groups = RayGroups(reserve_s=0.3)
    heard: queue.SimpleQueue[bool] = queue.SimpleQueue()
    groups.reserve((GroupId(b"too large"), 1), [(phx.nodes[0].node_id, {"GPU": 99.0})], heard.put)
    assert heard.get(timeout=PATIENCE_S) is False
    assert not groups.id_of((GroupId(b"too large"), 1))
    eventually(lambda: not phx.groups())
