"""Files of pools, and the faults in them."""

from __future__ import annotations

import pytest

from phalanx.cli.provisioning.pools import read_pools

GOOD = """
[pools.gpu]
up = ["/bin/up", "--fast"]
down = ["/bin/down"]
resources = { CPU = 32, GPU = 4, memory = "2GiB" }
labels = { rack = "r1" }
max = 3
idle = "90s"
boot = "5m"
"""


def test_a_file_is_read_with_its_units() -> None:
    (pool,) = read_pools(GOOD)
    assert pool.resources == {"CPU": 32.0, "GPU": 4.0, "memory": 2.0 * 2**30}
    assert (pool.idle_s, pool.boot_s, pool.min, pool.max) == (90.0, 300.0, 0, 3)
    assert pool.up == ("/bin/up", "--fast")
    declared = pool.declared(["gpu-2"])
    assert declared.names == ["gpu-1", "gpu-2", "gpu-3"]
    assert (declared.name, declared.booting) == ("gpu", ["gpu-2"])


def test_a_pool_owns_the_nodes_with_its_name_and_a_number() -> None:
    (pool,) = read_pools(GOOD)
    assert pool.owns("gpu-12")
    assert not any(map(pool.owns, ("gpu", "gpu-", "gpu-x", "my-gpu-1", "gpu-1-2")))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("max = 3", "", "pool gpu: .*max"),
        ("max = 3", "max = -1", "min is from 0 to max"),
        ("max = 3", "maxx = 3", "maxx is no key; did you mean 'max'"),
        ('idle = "90s"', 'idle = "soon"', "a length of time"),
        ('memory = "2GiB"', 'memory = "much"', "pool gpu"),
        ('down = ["/bin/down"]', "down = []", "up and down must each name a program"),
        ("[pools.gpu]", "[pool.gpu]", "tables of the form"),
        ("[pools.gpu]", '[pools."a b"]', "usable in the names of nodes"),
        ("max = 3", "max = ", "this is no TOML"),
    ],
)
def test_a_fault_is_named(old: str, new: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_pools(GOOD.replace(old, new))


def test_a_pool_is_not_named_like_a_node_of_another() -> None:
    with pytest.raises(ValueError, match="pool gpu-1 has the name of a node of pool gpu"):
        read_pools(GOOD + GOOD.replace("pools.gpu", "pools.gpu-1"))
