"""The speed of the scheduler on a Ray cluster of a head and four raylets on this machine.

`run(clock)` measures this. Gangs here are bundles in which nothing runs, so only decisions and
reservations are measured. Alternately, the same placement groups are created with Ray's own calls.
`ms` is a median, `worst ms` is the longest of all repetitions, and `cpu s` is the CPU time of the
scheduler's process.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from phalanx.api.job import Job
from phalanx.api.new_manifests import job_manifest
from phalanx.model.ids import GangId, GroupId
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.gangs import CreateGang, EndMembers, ListGangs
from phalanx.protocol.requests.groups import WaitGroup
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.protocol.requests.ray import ListStages

Clock = Callable[[], float]
Row = dict[str, Any]

NODES, CPUS = 4, 4
GANGS = 1_000
JOBS = 1_000
MEMBERS = 8
REPEATED = 20
PATIENCE_S = 300.0
POLL_S = 0.01
STORE_BYTES = 80 << 20
SMALL = {"CPU": 0.01}
ME = b"phalanx-bench".ljust(16)
"""The id of this process in its requests to the scheduler."""


def run(clock: Clock, gangs: int = GANGS, jobs: int = JOBS, repeated: int = REPEATED) -> list[Row]:
    """Return rows with the stages of one gang on all nodes, the rate of queued gangs, and the
    recovery after the scheduler was killed.

    `clock` must be the machine's monotonic clock, because the scheduler's own times are compared
    with it.
    """
    with _cluster() as client:
        return [
            *_one_gang(clock, client, repeated),
            *_many_gangs(clock, client, gangs),
            *_recovery(clock, client, jobs),
        ]


@contextmanager
def _cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    from phalanx.adapters.ray.scheduler.client import SchedulerClient

    directory = tempfile.mkdtemp(prefix="phx-", dir="/tmp")
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": directory}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    size = {"num_gpus": 0, "object_store_memory": STORE_BYTES}
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **size}
    )
    try:
        for _ in range(NODES):
            cluster.add_node(num_cpus=CPUS, **size)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        client = SchedulerClient.connect()
        client.ask(GetStatus(), timeout_s=PATIENCE_S)
        yield client
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(directory, ignore_errors=True)


def _create(client: Any, needs: list[dict[str, float]]) -> GangId:
    group = GangId(GroupId(os.urandom(18)))
    _create_later(client, group, needs).result(PATIENCE_S)
    return group


def _create_later(client: Any, group: GangId, needs: list[dict[str, float]]) -> Any:
    request = CreateGang(group, "gang", "default", needs, min_members=len(needs))
    return client.ask_async(request, origin=ME)


def _end(client: Any, group: GangId, members: int) -> None:
    client.ask(EndMembers(group, list(range(members))), origin=ME)


def _wait_for_none(client: Any) -> None:
    while client.ask(ListGangs(), timeout_s=PATIENCE_S):
        time.sleep(POLL_S)


def _one_gang(clock: Clock, client: Any, repeated: int) -> list[Row]:
    """Measure the time from the creation of a gang to the message that all its members may
    start.
    """
    needs = [{"CPU": CPUS / 2}] * MEMBERS
    stages: dict[str, list[float]] = {
        "asked for to decided": [],
        "decided to reserved, which Ray holds": [],
        "reserved to confirmed by its nodes": [],
        "Ray's own placement group": [],
    }
    nodes = _workers()
    for _ in range(repeated):
        begun = clock()
        group = _create(client, needs)
        client.ask(WaitGroup(group), timeout_s=PATIENCE_S, origin=ME)
        ended = clock()
        (times,) = client.ask(ListStages([group]), origin=ME)
        at = [begun, times["decided"], times["reserved"], ended]
        _end(client, group, MEMBERS)
        _wait_for_none(client)
        own = clock()
        made = _rays_own(nodes, needs)
        made.wait(PATIENCE_S)
        took = [*(later - earlier for earlier, later in itertools.pairwise(at)), clock() - own]
        _remove([made])
        for stage, one_s in zip(stages.values(), took, strict=True):
            stage.append(one_s)
    return [
        {
            "what": f"a gang of {MEMBERS} on {NODES} nodes: {name}",
            "ms": 1000 * statistics.median(took),
            "worst ms": 1000 * max(took),
        }
        for name, took in stages.items()
    ]


def _many_gangs(clock: Clock, client: Any, count: int) -> list[Row]:
    """Make gangs wait behind a gang that holds every node. Measure the time from the end of that
    gang to the reservation of the last gang.
    """
    blocker = _create(client, [{"CPU": float(CPUS)}] * NODES)
    client.ask(WaitGroup(blocker), timeout_s=PATIENCE_S, origin=ME)
    groups = [GangId(GroupId(os.urandom(18))) for _ in range(count)]
    for asked in [_create_later(client, group, [SMALL]) for group in groups]:
        asked.result(PATIENCE_S)
    waiting = [client.ask_async(WaitGroup(group), origin=ME) for group in groups]
    used = _cpu_s(client)
    _end(client, blocker, NODES)
    for one in waiting:
        one.result(PATIENCE_S)
    used = _cpu_s(client) - used
    times = client.ask(ListStages(groups), origin=ME)
    for group in groups:
        _end(client, group, 1)
    _wait_for_none(client)
    rows: list[Row] = []
    for stage in ("decided", "reserved"):
        took_s = max(one[stage] for one in times) - min(one["decided"] for one in times)
        what = f"{count:,} queued gangs of 1, first decision to last {stage}"
        rows.append({"what": what, "per s": count / took_s, "ms": 1000 * took_s / count})
    rows[-1]["cpu s"] = used
    nodes, begun = _workers(), clock()
    made = [_rays_own([nodes[number % NODES]], [SMALL]) for number in range(count)]
    for one in made:
        one.wait(PATIENCE_S)
    took_s = clock() - begun
    _remove(made)
    what = f"{count:,} placement groups of 1 by Ray's own calls"
    return [*rows, {"what": what, "per s": count / took_s, "ms": 1000 * took_s / count}]


def _workers() -> list[str]:
    import ray

    return [row["NodeID"] for row in ray.nodes() if row["Resources"].get("CPU")]


def _rays_own(nodes: list[str], needs: list[dict[str, float]]) -> Any:
    """Create a placement group that is pinned to nodes like a gang's, with the same number of
    bundles on each node.
    """
    from ray.util.placement_group import placement_group

    pins = [nodes[at * len(nodes) // len(needs)] for at in range(len(needs))]
    return placement_group(
        needs,
        strategy="PACK",
        lifetime="detached",
        bundle_label_selector=[{"ray.io/node-id": node} for node in pins],
    )


def _remove(made: list[Any]) -> None:
    """Remove placement groups, and wait until Ray reports their resources as available."""
    import ray
    from ray.util.placement_group import remove_placement_group

    for one in made:
        remove_placement_group(one)
    while ray.available_resources().get("CPU", 0.0) < NODES * CPUS:
        time.sleep(POLL_S)


def _recovery(clock: Clock, client: Any, count: int) -> list[Row]:
    """Measure the recovery after the scheduler's process was killed while jobs wait behind a gang
    that holds every node.
    """
    import ray

    blocker = _create(client, [{"CPU": float(CPUS)}] * NODES)
    client.ask(WaitGroup(blocker), timeout_s=PATIENCE_S, origin=ME)
    specs = [Job("true", name=f"job-{number}").spec() for number in range(count)]
    asked = [client.ask_async(ApplyManifests([job_manifest(spec)])) for spec in specs]
    for one in asked:
        one.result(PATIENCE_S)
    os.kill(ray.get(client.actor.pid.remote()), signal.SIGKILL)
    begun = clock()
    assert len(client.ask(ListGangs(), timeout_s=PATIENCE_S)) == count + 1
    answers_s, used = clock() - begun, _cpu_s(client)
    while any(row.reason for row in client.ask(GetStatus(), timeout_s=PATIENCE_S).nodes):
        pass
    whole_s = clock() - begun
    _end(client, blocker, NODES)
    return [
        {
            "what": f"killed with {count:,} jobs known, to its first answer",
            "ms": 1000 * answers_s,
            "cpu s": used,
        },
        {"what": "... to all node agents back", "ms": 1000 * whole_s},
    ]


def _cpu_s(client: Any) -> float:
    import psutil
    import ray

    times = psutil.Process(ray.get(client.actor.pid.remote())).cpu_times()
    return float(times.user + times.system)
