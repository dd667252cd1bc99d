"""Owners, a node and workers without processes. The files of their objects get lost at any moment.

The owners are real; files are names in a set. After any losses and deaths, each result that can be
made again is read in the end, and no state is left over.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.owner.small_world import World, template

from phalanx.objects import failures
from phalanx.protocol.messages import FAILED, INLINE, SHARED, Done, Failed, Recall, Value


class LosingWorld(World):
    """A world in which large results are files, and workers read the files of their inputs
    first.
    """

    def __init__(self, seed, **more):
        super().__init__(seed, **more)
        self.written = 0
        self.successes = {}
        """Task number -> how often it gave a file."""

    def outcome(self, worker, task, took):
        gone = [
            value.data.decode()
            for value in task.inputs
            if value.kind == SHARED and value.data.decode() not in self.files
        ]
        if gone:
            return Failed(task.number, " ".join(gone).encode(), 0.0, took, "lost")
        if task.name == "small":
            return Done(task.number, Value(INLINE, b"small"), 0.0, took)
        self.successes[task.number] = self.successes.get(task.number, 0) + 1
        self.written += 1
        name = f"{worker.worker_id[:6].hex()}-{self.written}"
        self.files.add(name)
        return Done(task.number, Value(SHARED, name.encode(), size=1), 0.0, took)

    def lose_file(self):
        if self.files:
            self.files.discard(self.random.choice(sorted(self.files)))

    def lose_node(self):
        """Lose all files of one writer, and tell the owners."""
        if self.files:
            prefix = self.random.choice(sorted(self.files))[:12]
            self.files -= {name for name in self.files if name.startswith(prefix)}
            for owner in self.owners:
                owner.core.objects.node_lost(bytes.fromhex(prefix))

    def tick(self, seconds):
        super().tick(seconds)
        for owner in self.owners:
            owner.store.collect()

    def read(self, owner, ref):
        """Return what a reader gets in the end: `file`, `small`, or the text of the error."""
        for _ in range(50):
            owner.core.objects.fetch(ref)
            self.settle()
            value = ref._value
            if value.kind == FAILED:
                return str(failures.load(value.data))
            if value.kind == INLINE:
                return "small"
            if value.data.decode() in self.files:
                return "file"
            owner.core.objects.recover(ref, value.data.decode())
        raise AssertionError("it is lost again and again")


def kinds(max_retries):
    return [template(name, max_retries) for name in ("quick", "slow", "small")]


def random_work(world, made, count):
    """Submit tasks on random inputs of their owner, with losses and deaths in between."""
    for _ in range(count):
        owner = world.random.choice(world.owners)
        mine = made[owner.process_id]
        inputs = world.random.sample(mine, min(len(mine), world.random.randrange(4))) or None
        mine.append(owner.begin(world.random.choice(kinds(-1)), inputs))
        if len(mine) > 4 and world.random.random() < 0.4:
            mine.pop(world.random.randrange(len(mine)))
        for _ in range(world.random.randrange(6)):
            world.step()
            chance = world.random.random()
            if chance < 0.08:
                world.lose_file()
            elif chance < 0.1:
                world.lose_node()
            living = [w for w in world.workers.values() if not w.is_dead]
            if living and world.random.random() < 0.03:
                world.kill(world.random.choice(living))
        if world.random.random() < 0.1:
            world.tick(world.random.choice([0.03, 0.4]))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_gets_lost_every_object_is_read_in_the_end(seed):
    world = LosingWorld(seed, cpus=1 + seed % 3)
    made: dict[bytes, list[Any]] = {owner.process_id: [] for owner in world.owners}
    random_work(world, made, 100)
    world.settle()
    for owner in world.owners:
        mine = made[owner.process_id]
        assert {world.read(owner, ref) for ref in mine} <= {"file", "small"}
        world.lose_node()
        assert {world.read(owner, ref) for ref in mine} <= {"file", "small"}
        assert not owner.tasks.machine.pending
        assert not owner.core.reconstruction.running
        del mine[:]
        world.tick(0.4)
        assert len(owner.core.reconstruction.lineage) == 0
    assert not world.files


@pytest.mark.parametrize("seed", range(20))
def test_a_task_that_may_not_run_again_runs_once_however_often_its_inputs_are_lost(
    seed,
):
    world = LosingWorld(seed, owners=1)
    (owner,) = world.owners
    (again, *_), (once, *_) = kinds(-1), kinds(0)
    inputs = [owner.begin(again, None) for _ in range(3)]
    results = [owner.begin(once, inputs) for _ in range(8)]
    for _ in range(400):
        world.step()
        if world.random.random() < 0.1:
            world.lose_file()
    world.settle()
    for ref in results:
        assert world.read(owner, ref) in ("file", owner_text(ref, "quick"))
    assert {world.successes[ref._task] for ref in results} == {1}


def owner_text(ref, name):
    return (
        f"Object {ref.hex()} is lost and cannot be made again: task {name}, which made it, may "
        "not run again (max_retries=0). ["
        "ObjectReconstructionFailedError: OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED]"
    )


def test_a_worker_that_holds_work_back_gives_it_back_while_an_input_is_made_again():
    world = LosingWorld(3, owners=1, cpus=1)
    (owner,) = world.owners
    quick = kinds(3)[0]
    source = owner.begin(quick, None)
    world.settle()
    world.files.clear()
    results = [owner.begin(quick, [source]) for _ in range(30)]
    for _ in range(40):
        world.step()
        for worker in world.workers.values():
            for link in worker.links:
                worker.receive(link, Recall())
    world.settle()
    assert {world.read(owner, ref) for ref in results} == {"file"}
    assert source._hold.lineage.retries == 2, "one loss takes one retry, however many found it"
