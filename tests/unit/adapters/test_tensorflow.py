"""TF_CONFIG of members of a gang."""

from __future__ import annotations

import json

import pytest

import phalanx
from phalanx.adapters.tensorflow import tf_config


@pytest.fixture(scope="module", autouse=True)
def _machine():
    phalanx.init(num_cpus=2)
    yield
    phalanx.shutdown()


@phalanx.remote
def config():
    return tf_config()


def test_each_worker_has_a_port_of_its_own_and_knows_which_it_is():
    first, second = map(json.loads, phalanx.get(config.gang(2, ports=2).remote()))
    assert first["cluster"] == second["cluster"]
    assert len(set(first["cluster"]["worker"])) == 2
    assert [one["task"]["index"] for one in (first, second)] == [0, 1]


def test_too_few_ports_and_no_gang_are_told():
    with pytest.raises(ValueError, match=r"gang\(\.\.\., ports=2\)"):
        phalanx.get(config.gang(2).remote())
    with pytest.raises(RuntimeError, match="members of a gang"):
        phalanx.get(config.remote())
