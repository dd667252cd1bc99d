"""A node counts each device once, whatever the environment variable lists."""

from __future__ import annotations

import os

import pytest

import phalanx
from phalanx.cluster_utils import Cluster

CUDA = "CUDA_VISIBLE_DEVICES"


@pytest.fixture
def shown(monkeypatch):
    """Yield a function that sets CUDA's list of visible devices. No node runs before or after the
    test.
    """
    phalanx.shutdown()
    yield lambda text: monkeypatch.setenv(CUDA, text)
    phalanx.shutdown()


@pytest.mark.parametrize(
    ("text", "gpus"), [("3,5", 4), ("", 2), ("NoDevFiles", 1), ("3,3", 2), ("3,GPU-6a0f", 2)]
)
def test_more_devices_than_are_visible_are_refused(shown, text, gpus):
    """With such a list, four actors of one GPU each got the devices 3, 5, 2 and 3."""
    shown(text)
    with pytest.raises(ValueError, match=f"{CUDA}={text}"):
        phalanx.init(num_cpus=1, num_gpus=gpus)
    assert not phalanx.is_initialized()


def test_a_cluster_of_tests_refuses_them_too(shown):
    """A refused node leaves no files behind."""
    shown("3,5")
    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=1, num_gpus=2)
        before = sorted(os.listdir(cluster.temp_dir))
        with pytest.raises(ValueError, match=f"{CUDA}=3,5 shows it 2"):
            cluster.add_node(num_cpus=1, num_gpus=3)
        assert sorted(os.listdir(cluster.temp_dir)) == before
    finally:
        cluster.shutdown()


@phalanx.remote(num_gpus=1)
class Holder:
    def sees(self):
        return os.environ[CUDA], phalanx.get_gpu_ids()


def test_a_device_has_one_holder_whatever_a_runtime_environment_says(shown):
    shown("3,5")
    phalanx.init(num_cpus=2, num_gpus=2)
    chosen = Holder.options(runtime_env={"env_vars": {CUDA: "5"}})
    holders = [chosen.remote(), chosen.remote()]
    seen = phalanx.get([one.sees.remote() for one in holders], timeout=60)
    assert sorted(seen) == [("3", [3]), ("5", [5])]


def test_ids_are_those_of_devices_where_the_variable_is_left_alone(shown):
    shown("3,5")
    phalanx.init(num_cpus=2, num_gpus=2)
    left = {"env_vars": {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}}
    holders = [Holder.options(runtime_env=left).remote() for _ in range(2)]
    seen = phalanx.get([one.sees.remote() for one in holders], timeout=60)
    assert sorted(seen) == [("3,5", [3]), ("3,5", [5])]
