"""Programs that use `phalanx` on a Ray cluster: calls that Ray handles, queues and gangs."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import threading
import time

import pytest
import ray
from tests.polling import eventually

import phalanx
from phalanx import exceptions as ours

from .cluster import PATIENCE_S


@pytest.fixture
def program(phx):
    """Return `phalanx` as a program that uses this cluster imports it."""
    phalanx.init(f"ray:{phx.cluster.address}")
    yield phalanx
    phalanx.shutdown()


@pytest.fixture
def get(program):
    return lambda refs: program.get(refs, timeout=PATIENCE_S)


@pytest.fixture
def queues(program):
    """Make two queues, of weights 2 and 1, that are removed after the test."""
    for name, weight in (("heavy", 2), ("light", 1)):
        program.create_queue(name, weight=weight)
    yield "heavy", "light"
    for name in ("heavy", "light"):

        def is_gone(name=name):
            try:
                program.close_queue(name)
                program.delete_queue(name)
            except ours.RayError:
                return False
            return True

        eventually(is_gone)


@pytest.mark.parametrize("name", [n for n in ours.__all__ if hasattr(ray.exceptions, n)])
def test_rays_errors_are_caught_by_our_names(program, name):
    assert issubclass(getattr(ray.exceptions, name), getattr(ours, name))


def test_references_and_handles_are_rays_own_and_count_as_ours(program, get):
    @program.remote
    class Counter:
        def __init__(self):
            self.value = 0

        @program.method(num_returns=2)
        def add(self):
            self.value += 1
            return self.value, -self.value

    counter = Counter.remote()
    one, other = counter.add.remote()
    assert type(one) is ray.ObjectRef
    assert isinstance(one, program.ObjectRef)
    assert isinstance(counter, program.ActorHandle)
    assert get([one, other]) == [1, -1]
    assert not isinstance(1, program.ObjectRef)


def test_tasks_within_tasks_and_errors_within_await(program, get):
    @program.remote
    def fails():
        raise KeyError("inner")

    @program.remote
    class Careful:
        async def ask(self):
            try:
                await fails.remote()
            except ours.RayTaskError as error:
                return type(error.cause).__name__

    @program.remote
    def outer():
        return phalanx.get(Careful.remote().ask.remote())

    assert get(outer.remote()) == "KeyError"
    with pytest.raises(KeyError):
        get(fails.remote())

    async def here():
        with pytest.raises(ours.RayTaskError):
            await fails.remote()

    asyncio.run(here())


def test_a_task_that_runs_too_long_is_ended(program, get):
    @program.remote(timeout_s=0.2, max_retries=0)
    def sleeps():
        time.sleep(600)

    with pytest.raises(ours.TaskTimeoutError):
        get(sleeps.remote())


def test_a_task_of_a_queue_that_is_not_there_fails(program, get):
    @program.remote
    def nothing():
        return None

    with pytest.raises(phalanx.errors.QueueUnavailableError, match="there is no queue 'nobody'"):
        get(nothing.options(queue="nobody").remote())


def test_tasks_of_queues_are_done_whatever_they_return(program, get, queues):
    @program.remote
    def number(value):
        return value

    @program.remote
    def several():
        yield 1
        yield 2

    heavy = number.options(queue="heavy")
    assert get([heavy.remote(value) for value in range(200)]) == list(range(200))
    assert get(number.options(queue="heavy", priority=3).remote(7)) == 7
    stream = several.options(queue="light").remote()
    assert [get(ref) for ref in stream] == [1, 2]
    assert number.options(queue="light", num_returns=0).remote(1) is None
    one, other = number.options(queue="light", num_returns=2).remote((1, 2))
    assert get([one, other]) == [1, 2]
    chained = number.options(queue="light").remote(heavy.remote(5))
    assert get(chained) == 5


def test_a_cancelled_task_frees_its_place(program, get, queues):
    @program.remote(num_cpus=1)
    def sleeps():
        time.sleep(600)

    @program.remote
    def quick():
        return "done"

    held = [sleeps.options(queue="heavy", max_retries=0).remote() for _ in range(20)]
    for ref in held:
        program.cancel(ref, force=True)
    for ref in held:
        with pytest.raises(ours.RayError):
            get(ref)
    assert get(quick.options(queue="light").remote()) == "done"


def test_cancel_raises_its_errors_though_queues_are_in_use(program, get, queues):
    @program.remote(num_cpus=0)
    def quick():
        return "done"

    @program.remote(num_cpus=0)
    class Idle:
        def rests(self):
            return "rested"

    assert get(quick.options(queue="heavy").remote()) == "done"
    idle = Idle.remote()
    with pytest.raises(ValueError, match="force=True"):
        program.cancel(idle.rests.remote(), force=True)


def test_a_completion_callback_cancels_a_task_of_a_queue(program, get, queues):
    @program.remote(num_cpus=0)
    def quick():
        return "done"

    @program.remote(num_cpus=0)
    def sleeps():
        time.sleep(600)

    held = sleeps.options(queue="heavy", max_retries=0).remote()
    first = quick.options(queue="light").remote()
    first.future().add_done_callback(lambda _: program.cancel(held, force=True))
    with pytest.raises(ours.RayError):
        get(held)


@pytest.mark.slow
def test_tasks_are_cancelled_at_the_moment_of_their_admission(program, get, queues):
    """In an earlier version about one in a thousand rounds of this test made Ray end a process."""

    @program.remote(num_cpus=1)
    def sleeps():
        time.sleep(600)

    for number in range(3000):
        held = [sleeps.options(queue="heavy", max_retries=0).remote() for _ in range(20)]
        threading.Event().wait(number % 40 * 0.0005)
        for ref in held:
            program.cancel(ref, force=True)
        for ref in held:
            with pytest.raises(ours.RayError):
                get(ref)


def test_busy_queues_share_by_weight(program, get, queues, tmp_path):
    """Count the tasks of each queue that began while both queues had waiting tasks. No task begins
    before all are submitted, however long that takes.
    """
    path, go = tmp_path / "began", tmp_path / "go"

    @program.remote(num_cpus=1)
    def begins(queue):
        with open(path, "a") as file:
            file.write(queue[0])
        time.sleep(0.05)

    @program.remote(num_cpus=1)
    def holds(number):
        (tmp_path / f"holds-{number}").touch()
        while not go.exists():
            time.sleep(0.02)

    cpus = int(program.cluster_resources()["CPU"])
    holding = [holds.remote(number) for number in range(cpus)]
    eventually(lambda: len(list(tmp_path.glob("holds-*"))) == cpus)
    refs = [begins.options(queue=q).remote(q) for _ in range(120) for q in queues]
    go.touch()
    get(refs + holding)
    began = path.read_text()[20:170]
    share = began.count("h") / max(1, began.count("l"))
    assert 1.4 < share < 2.9, began


def test_a_gang_starts_as_a_whole_with_devices_of_its_own(program, get, phx):
    @program.remote(num_cpus=0.5, num_gpus=2)
    def member(value):
        gang = phalanx.get_runtime_context().gang
        shown = [int(number) for number in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
        assert shown == phalanx.get_gpu_ids() == gang.devices
        node = ray.get_runtime_context().get_node_id()
        return gang.rank, gang.world_size, (node, shown), int(os.environ["MASTER_PORT"]), value

    gang = member.gang(6).remote([program.put("a value")])
    assert gang.wait_started(PATIENCE_S)
    told = get(list(gang))
    assert [one[0] for one in told] == list(range(6))
    assert {one[1] for one in told} == {6}
    assert len({one[3] for one in told}) == 1
    devices = [(node, number) for _, _, (node, shown), _, _ in told for number in shown]
    assert len(set(devices)) == 12


def test_a_gang_that_waits_is_explained_and_runs_later(program, get, tmp_path):
    stop = tmp_path / "stop"

    @program.remote(num_cpus=0.5, num_gpus=4)
    def holds():
        while not stop.exists():
            time.sleep(0.02)
        return "held"

    first = holds.gang(3).remote()
    assert first.wait_started(PATIENCE_S)
    second = holds.gang(2).remote()
    said = eventually(lambda: phalanx.explain(second[0]))
    assert "GPU (needs 4, most free 0)" in said
    stop.touch()
    assert get(list(first) + list(second)) == ["held"] * 5


def test_a_failed_member_ends_its_gang_with_its_error(program, get):
    @program.remote(num_cpus=0.5, num_gpus=1)
    def member():
        if phalanx.get_runtime_context().gang.rank == 1:
            raise KeyError("one of them")
        time.sleep(600)

    gang = member.gang(2).remote()
    for ref in gang:
        with pytest.raises(KeyError):
            get(ref)


def test_a_preempted_gang_is_warned_and_runs_again(program, get, queues, tmp_path):
    notes, stop = tmp_path / "notes", tmp_path / "stop"

    @program.remote(num_cpus=0.5, num_gpus=4)
    def patient():
        def warned(number, frame):
            with open(notes, "a") as file:
                file.write("w")
            os._exit(0)

        signal.signal(signal.SIGTERM, warned)
        with open(notes, "a") as file:
            file.write("s")
        while not stop.exists():
            time.sleep(0.02)
        return "finished"

    @program.remote(num_cpus=0.5, num_gpus=4)
    def urgent():
        return "urgent"

    low = patient.gang(3, priority=0).remote()
    eventually(lambda: notes.exists() and notes.read_text().count("s") == 3)
    assert get(list(urgent.gang(3, priority=100).remote())) == ["urgent"] * 3
    stop.touch()
    assert get(list(low)) == ["finished"] * 3
    assert notes.read_text().count("w") == 3
    assert notes.read_text().count("s") == 6


def test_a_member_that_crashes_is_replaced_in_its_place(program, get, tmp_path):
    path = tmp_path / "ranks"

    @program.remote(num_cpus=0.5, num_gpus=1, max_retries=1)
    def crashes():
        gang = phalanx.get_runtime_context().gang
        with open(path, "a") as file:
            file.write(str(gang.rank))
        if gang.rank == 1 and path.read_text().count("1") < 2:
            os._exit(3)
        return gang.rank

    assert get(list(crashes.gang(2).remote())) == [0, 1]
    assert sorted(path.read_text()) == ["0", "1", "1"]


def test_a_gang_that_could_never_fit_is_refused(program):
    @program.remote(num_gpus=4)
    def member():
        return None

    with pytest.raises(phalanx.errors.GangInfeasibleError, match="more than 3 here"):
        member.gang(4).remote()


def test_a_gang_is_cancelled_while_it_runs(program, get):
    @program.remote(num_cpus=0.5, num_gpus=1)
    def sleeps():
        time.sleep(600)

    gang = sleeps.gang(2).remote()
    assert gang.wait_started(PATIENCE_S)
    gang.cancel()
    for ref in gang:
        with pytest.raises(ours.RayError):
            get(ref)


def test_a_gang_of_actors_starts_as_a_whole(program, get):
    @program.remote(num_cpus=0.5, num_gpus=2)
    class Trainer:
        def __init__(self, name):
            self.name, self.steps = name, []
            self.place = phalanx.get_runtime_context().gang

        def where(self):
            return self.place.rank, self.place.world_size, ray.get_runtime_context().get_node_id()

        def devices(self):
            return os.environ["CUDA_VISIBLE_DEVICES"]

        def step(self, number):
            self.steps.append(number)
            return self.steps

        @program.method(num_returns=2)
        def two(self, value):
            return self.name, value

        def fails(self):
            raise KeyError("a step")

    @program.remote
    def uses(trainer):
        return phalanx.get(trainer.step.remote(99))

    crew = Trainer.gang(4).remote("crew")
    assert crew.wait_started(PATIENCE_S)
    told = get([one.where.remote() for one in crew])
    assert [rank for rank, _, _ in told] == [0, 1, 2, 3]
    shown = get([one.devices.remote() for one in crew])
    assert len({(node, d) for (_, _, node), d in zip(told, shown, strict=True)}) == 4
    refs = [crew[0].step.remote(number) for number in range(20)]
    assert get(refs)[-1] == list(range(20))
    assert get(crew[1].two.remote(program.put("a value"))) == ["crew", "a value"]
    assert get(uses.remote(crew[2])) == [99]
    with pytest.raises(KeyError):
        get(crew[3].fails.remote())
    with pytest.raises(TypeError):
        crew[3].step.remote()
    with pytest.raises(AttributeError):
        crew[3].nothing
    assert isinstance(crew[0], program.ActorHandle)
    program.kill(crew[0])
    with pytest.raises(ours.RayActorError):
        get(crew[0].where.remote())
    assert get(crew[1].step.remote(1)) == [1]


def test_an_actor_of_a_gang_that_cannot_be_made_says_why(program, get):
    @program.remote(num_cpus=0.5)
    class Broken:
        def __init__(self):
            raise ValueError("no such model")

        def step(self):
            return None

    crew = Broken.gang(2).remote()
    with pytest.raises(ours.RayActorError, match="no such model"):
        get(crew[1].step.remote())


def test_actors_of_a_gang_that_is_cancelled_while_it_waits_answer_with_an_error(program, get):
    @program.remote(num_cpus=0.5, num_gpus=4)
    class Holds:
        def step(self):
            return "held"

    first = Holds.gang(3).remote()
    assert first.wait_started(PATIENCE_S)
    second = Holds.gang(3).remote()
    waits = second[0].step.remote()
    second.cancel()
    with pytest.raises(ours.RayError):
        get(waits)
    with pytest.raises(ours.RayError):
        get(second[1].step.remote())
    assert get(first[2].step.remote()) == "held"


def test_a_task_that_cannot_be_started_holds_no_place(program, get, queues):
    @program.remote(num_cpus=2)
    def number(value):
        return value

    heavy = number.options(queue="heavy")
    for _ in range(30):
        with pytest.raises(TypeError):
            heavy.remote(threading.Lock())
    assert get([heavy.remote(value) for value in range(5)]) == list(range(5))


def test_an_actor_of_a_gang_restarts_in_its_place(program, get):
    @program.remote(num_cpus=0.5, num_gpus=1, max_restarts=1)
    class Mortal:
        def rank(self):
            return phalanx.get_runtime_context().gang.rank, os.environ["CUDA_VISIBLE_DEVICES"]

        def crash(self):
            os._exit(3)

    crew = Mortal.gang(2).remote()
    before = get(crew[1].rank.remote())
    with pytest.raises(ours.RayActorError):
        get(crew[1].crash.remote())
    assert get(crew[1].rank.remote()) == before
    with pytest.raises(ours.RayActorError):
        get(crew[1].crash.remote())
    with pytest.raises(ours.RayActorError):
        get(crew[1].rank.remote())


def test_commands_run_as_jobs(program, tmp_path):
    job = program.submit(program.Job(["sh", "-c", "echo rank $RANK"], members=2, num_cpus=0.5))
    assert job.wait(PATIENCE_S) == "Completed"
    assert job.logs(1).strip() == "rank 1"


def test_the_key_value_table_is_the_clusters(program):
    table = importlib.import_module("phalanx.adapters.ray.modules.internal_kv")
    assert not table._internal_kv_put(b"key", b"one", namespace=b"test")
    assert table._internal_kv_put(b"key", b"two", overwrite=False, namespace=b"test")
    assert table._internal_kv_get(b"key", namespace=b"test") == b"one"
    assert table._internal_kv_get(b"key") is None
    assert table._internal_kv_list(b"k", namespace=b"test") == [b"key"]
    assert table._internal_kv_del(b"key", namespace=b"test") == 1
    assert not table._internal_kv_exists(b"key", namespace=b"test")
