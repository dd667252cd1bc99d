"""What happened, in the columns of Ray's listing."""

from __future__ import annotations

import pytest
from tests.polling import eventually

import phalanx
from phalanx.compat.ray_modules.state_api import list_cluster_events


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


@pytest.mark.parametrize("limit", [0, -1, 10**9])
def test_a_limit_that_is_none_is_refused(runtime, limit):
    with pytest.raises(ValueError, match="limit is 1 to"):
        list_cluster_events(limit=limit)
