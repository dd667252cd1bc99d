"""The head is killed under load and started again: nothing promised is lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.polling import eventually

import phalanx
from phalanx.storage.opening import open_storage
from phalanx.util import get_placement_group, placement_group, placement_group_table
from phalanx.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from phalanx_benchmarks.redis_server import RedisServer


@pytest.fixture
def store(request, tmp_path):
    """Yield the address of a store of this kind, with a running server if it needs one."""
    tmp_path.chmod(0o700)
    if request.param == "sqlite":
        yield str(tmp_path / "control.db")
        return
    with RedisServer(str(tmp_path / "redis")) as server:
        yield server.url


@phalanx.remote(max_retries=-1)
def echo(i):
    return i


@phalanx.remote(max_restarts=-1)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count


@pytest.mark.parametrize("store", ["sqlite", "redis"], indirect=True)
def test_everything_is_there_again_and_nothing_stops_meanwhile(new_cluster, get, store):
    cluster = new_cluster(1, 1, store=store)
    kept = Counter.options(name="kept", lifetime="detached").remote()
    assert get(kept.add.remote()) == 1
    group = placement_group([{"CPU": 1}], name="group", lifetime="detached")
    assert group.wait(60)
    inside = PlacementGroupSchedulingStrategy(group, 0)
    echoes = [echo.remote(i) for i in range(2000)]
    for restart in range(2):
        cluster.kill_head()
        # Without a head: tasks run, actors answer.
        assert get([kept.add.remote() for _ in range(5)])[-1] == 6 * (restart + 1)
        assert get([echo.remote(i) for i in range(100)]) == list(range(100))
        # Calls that need the head wait for it.
        late: list[Any] = []
        name = f"late {restart}"

        def make(name=name, late=late):
            made = Counter.options(name=name, lifetime="detached").remote()
            late.append(get(made.add.remote()))

        maker = threading.Thread(target=make)
        maker.start()
        cluster.start_head()
        maker.join(120)
        assert late == [1]
        cluster.wait_for_nodes(60)
        assert get(phalanx.get_actor("kept").add.remote()) == 6 * (restart + 1) + 1
        assert get(echo.options(scheduling_strategy=inside).remote(7)) == 7
    assert get(echoes) == list(range(2000))
    assert placement_group_table(get_placement_group("group"))["state"] == "CREATED"
    phalanx.kill(phalanx.get_actor("kept"))
    with pytest.raises(ValueError, match="kept"):
        phalanx.get_actor("kept")


@pytest.mark.parametrize("store", ["redis"], indirect=True)
def test_a_head_whose_store_another_has_claimed_ends_and_the_next_goes_on(new_cluster, get, store):
    cluster = new_cluster(1, store=store)
    open_storage(store).close()
    group = placement_group([{"CPU": 1}])
    eventually(lambda: cluster._head.process.poll() is not None)
    assert cluster._head.process.returncode == 1
    cluster.start_head()
    assert group.wait(60)


def test_a_node_without_a_head_keeps_its_job_and_an_unused_one_ends(new_cluster, tmp_path):
    cluster = new_cluster(1, store=str(tmp_path / "control.db"))
    busy = cluster.add_node(num_cpus=2, patience_s=1.0)
    unused = cluster.add_node(num_cpus=1, patience_s=1.0)
    done, began = tmp_path / "done", tmp_path / "began"
    command = f"echo >> {began}; until test -e {done}; do sleep 0.05; done"
    job = phalanx.submit(phalanx.Job(command, num_cpus=2))
    eventually(began.exists)
    assert cluster.remaining_processes_alive()
    cluster.kill_head()
    eventually(lambda: not unused.is_running)
    assert not cluster.remaining_processes_alive()
    cluster.worker_nodes.discard(unused)
    assert busy.is_running
    cluster.start_head()
    done.touch()
    assert job.wait(60) == "Completed"
    assert began.read_text() == "\n", "it ran once"
