"""Events of the cluster, shown in the columns of Ray's listing."""

from __future__ import annotations

import pytest
from tests.polling import eventually

import phalanx
from phalanx.adapters.ray.modules.state_api import list_cluster_events


@pytest.fixture(scope="module")
def runtime():
    phalanx.shutdown()
    phalanx.init(num_cpus=1, log_to_driver=False)
    yield
    phalanx.shutdown()


def test_events_have_rays_columns_and_ours_beside_them(runtime):
    phalanx.create_queue("events")
    [row] = eventually(
        lambda: [row for row in list_cluster_events() if "queue-made: events" in row.message]
    )
    assert set(row) == {"severity", "time", "source_type", "message", "event_id"}
    assert (row.severity, row.source_type) == ("INFO", "GCS")
    [detailed] = list_cluster_events(filters=[("event_id", "=", row.event_id)], detail=True)
    assert detailed.custom_fields["kind"] == "queue-made"
    assert list_cluster_events(limit=1)[0].event_id >= row.event_id
    assert list_cluster_events(filters=[("severity", "=", "FATAL")]) == []


@phalanx.remote(num_gpus=3)
def needs_gpus():
    return None


@phalanx.remote(num_cpus=0, resources={"a telescope": 1})
class Observer:
    pass


def test_what_nothing_can_run_is_an_event_in_rays_words(runtime):
    ref, actor = needs_gpus.remote(), Observer.remote()
    begins = "Error: No available node types can fulfill resource request"

    def found():
        return {row.message for row in list_cluster_events() if row.message.startswith(begins)}

    wanted = {
        f"{begins} 1 CPU, 3 GPU: the largest node has 0 GPU.",
        f"{begins} 1 a telescope: the largest node has 0 a telescope.",
    }
    eventually(lambda: found() == wanted)
    told = {row.severity for row in list_cluster_events() if row.message in wanted}
    assert told == {"WARNING"}
    kinds = [row.message.partition(":")[0] for row in list_cluster_events()]
    assert "head-began" not in kinds
    assert "node-joined" not in kinds
    phalanx.cancel(ref)
    phalanx.kill(actor)


@pytest.mark.parametrize("limit", [0, -1, 10**9])
def test_a_limit_that_is_none_is_refused(runtime, limit):
    with pytest.raises(ValueError, match="limit must be 1 to"):
        list_cluster_events(limit=limit)
