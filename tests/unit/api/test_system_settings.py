"""A cluster's settings by Ray's names: how they are read, which are refused, and what they do."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.scheduler.placement.language import cluster, resources

from phalanx.model.system_settings import SystemSettings, read_system_settings
from phalanx.scheduler.placement.entry import pick_node, placement_strategy
from phalanx.scheduler.placement.hybrid import Hybrid
from phalanx.scheduler.placement.outcome import Placed
from phalanx.scheduler.placement.placement_policy import PlacementPolicy, read_placement_policy
from phalanx.scheduler.placement.request_class import Request
from phalanx.scheduler.placement.seeded import Seeded
from phalanx.scheduler.placement.strategy import Asking
from phalanx.scheduler.placement.waiting_time import LeastWaiting


@pytest.mark.parametrize(
    ("given", "variables", "found"),
    [
        (None, None, {}),
        ({"num_heartbeats_timeout": 10}, None, {}),  # it tunes what is not here
        ({"max_direct_call_object_size": 0}, None, {"inline_bytes": 0}),
        ({"max_lineage_bytes": 10_000}, None, {"lineage_bytes": 10_000}),
        ({"lineage_pinning_enabled": False}, None, {"makes_again": False}),
        ({}, {"RAY_lineage_pinning_enabled": "false"}, {"makes_again": False}),
        ({}, {"RAY_record_ref_creation_sites": "1"}, {"records_places": True}),
        ({}, {"RAY_maximum_gcs_destroyed_actor_cached_count": "5"}, {"dead_actors": 5}),
        (
            {"scheduler_spread_threshold": 0},
            {"RAY_scheduler_spread_threshold": "1"},
            {"spread_threshold": 0},
        ),
        ({"max_num_generator_returns": 2}, None, {"stream_items": 2}),
        ({"memory_usage_threshold": 0.4}, None, {"memory_limit": 0.4}),
        ({"worker_lease_timeout_milliseconds": 0}, None, {"idle_lease_ms": 0}),
    ],
)
def test_rays_names_and_variables(given: Any, variables: Any, found: dict[str, Any]) -> None:
    assert read_system_settings(given, variables) == SystemSettings(**found)


@pytest.mark.parametrize(
    ("given", "variables", "message"),
    [
        ({"max_lineage_bytes": -1}, None, "max_lineage_bytes must be a whole number of at least 0"),
        ({"max_direct_call_object_size": "x"}, None, "whole number of at least 0, not 'x'"),
        ({"scheduler_spread_threshold": 2}, None, "a share from 0 to 1, not 2"),
        ({"lineage_pinning_enabled": "no"}, None, "must be true or false, not 'no'"),
        ({}, {"RAY_max_lineage_bytes": "much"}, "RAY_max_lineage_bytes must be a whole number"),
    ],
)
def test_what_a_setting_cannot_be(given: Any, variables: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_system_settings(given, variables)


def test_a_threshold_makes_hybrid_of_the_default_policy_alone() -> None:
    spread = PlacementPolicy().spreading(0.2)
    assert placement_strategy(spread, LeastWaiting()) == Hybrid(
        spread_threshold=0.2, weighs_local=True
    )
    assert spread == read_placement_policy({"policy": "hybrid", "spread_threshold": 0.2})
    assert not spread.starts_here_first
    two_pass = PlacementPolicy(policy="two-pass-random")
    assert two_pass.spreading(0.2) is two_pass
    assert PlacementPolicy().spreading(None) == PlacementPolicy()
    with pytest.raises(ValueError, match="one setting, spread_threshold from 0 to 1"):
        read_placement_policy({"policy": "hybrid", "spread_threshold": 7})


def test_the_local_node_is_weighed_under_hybrid_and_arguments_still_draw() -> None:
    view = cluster("here 3/4CPU\naway 4CPU")
    asked = Request(resources=resources("1CPU"))

    def node(asking: Asking, strategy: Hybrid) -> str:
        found = pick_node(view, asked, asking, Seeded(1), strategy=strategy)
        assert isinstance(found, Placed)
        return found.node

    local = Asking(local="here", preferred="here")
    drawn = Asking(local="away", preferred="here", held_bytes={"here": 1 << 20})
    weighing = Hybrid(spread_threshold=0.0, top_k_fraction=0, weighs_local=True)
    assert node(local, Hybrid(spread_threshold=0.0, top_k_fraction=0)) == "here"
    assert node(local, weighing) == "away"
    assert node(drawn, weighing) == "here"
