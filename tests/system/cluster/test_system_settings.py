"""All nodes of a cluster use the system settings that its first node was given."""

from __future__ import annotations

import numpy as np
import pytest
from tests.present import current_runtime, present

import phalanx
from phalanx import errors
from phalanx.cluster_utils import Cluster
from phalanx.protocol.requests.node import GetStoreCounts
from phalanx.runtime.engine.interface import current


@phalanx.remote(num_cpus=0, resources={"there": 1})
def make():
    return np.zeros(300_000)


@phalanx.remote(num_cpus=0, resources={"there": 1})
def put_small():
    return [phalanx.put(1), present(current()).ask(GetStoreCounts())["objects"]]


@phalanx.remote(num_cpus=0, num_returns="streaming")
def count(last):
    yield from range(1, last + 1)


@phalanx.remote(num_cpus=0)
class Counts:
    async def count(self, last):
        for item in range(1, last + 1):
            yield item


def test_settings_reach_drivers_and_workers_of_all_nodes(new_cluster, get):
    made: Cluster = new_cluster()
    made.add_node(
        num_cpus=1,
        _system_config={
            "lineage_pinning_enabled": False,
            "record_ref_creation_sites": True,
            "max_direct_call_object_size": 0,
            "max_num_generator_returns": 2,
            "worker_lease_timeout_milliseconds": 0,
        },
    )
    victim = made.add_node(num_cpus=1, resources={"there": 1})
    made.connect()
    assert get(put_small.remote())[1] > 0, "small values lie in the store, too"
    runtime = current_runtime()
    with runtime.lock:
        assert not runtime.owner.tasks.machine.by_lease, "an idle worker goes back at once"
    counts = Counts.remote().count.options(num_returns="streaming")
    assert [get(item) for item in count.remote(2)] == [1, 2]
    for counted in (count.remote(3), counts.remote(3)):
        assert [get(next(counted)) for _ in range(2)] == [1, 2]
        with pytest.raises(errors.TaskError, match=r"more than 2 items, .* max_num_gen"):
            get(next(counted))
    lost = make.remote()
    phalanx.wait([lost], fetch_local=False)
    made.remove_node(victim, allow_graceful=False)
    with pytest.raises(errors.ObjectReconstructionFailedError) as caught:
        get(lost)
    assert "LINEAGE_DISABLED" in str(caught.value)
    assert "It was made at (task call)" in str(caught.value)
    assert "test_settings_reach_drivers_and_workers_of_all_nodes" in str(caught.value)


def test_a_setting_that_cannot_be_starts_nothing(new_cluster):
    made: Cluster = new_cluster()
    with pytest.raises(ValueError, match="max_lineage_bytes must be a whole number"):
        made.add_node(_system_config={"max_lineage_bytes": "much"})
    assert made.head_node is None
    with pytest.raises(ValueError, match="scheduler_spread_threshold must be a share"):
        phalanx.init("local", num_cpus=1, _system_config={"scheduler_spread_threshold": 3})
