"""Counts that must not grow in processes that live long."""

from __future__ import annotations

import pytest

import phalanx


@pytest.fixture(scope="module")
def ray():
    phalanx.shutdown()
    phalanx.init(num_cpus=2)
    yield phalanx
    phalanx.shutdown()


@pytest.mark.parametrize("kind", ["in order", "async"])
def test_an_actor_forgets_the_tasks_that_its_calls_started(ray, kind):
    @ray.remote
    def child():
        return 1

    class Spawns:
        def spawn(self):
            ray.get([child.remote() for _ in range(3)])

        def kept(self):
            from tests.present import current_runtime

            return len(current_runtime().owner.children)

    class SpawnsAsync:
        async def spawn(self):
            for ref in [child.remote() for _ in range(3)]:
                await ref

        async def kept(self):
            from tests.present import current_runtime

            return len(current_runtime().owner.children)

    actor = ray.remote(Spawns if kind == "in order" else SpawnsAsync).remote()
    for _ in range(5):
        ray.get(actor.spawn.remote(), timeout=120)
    assert ray.get(actor.kept.remote(), timeout=120) == 0
