"""`cancel`: what is queued, running, finished, nested, and tasks of actors."""

from __future__ import annotations

import asyncio
import time

import pytest


@pytest.fixture
def hold(ray, gate):
    @ray.remote
    def hold():
        gate.enter()
        return "finished"

    return hold


@pytest.fixture
def cancelled(errors, get):
    """Return a function that checks that a task was cancelled, by the reference to its result."""

    def check(ref):
        with pytest.raises(errors.TaskCancelledError):
            get(ref)

    return check


def test_a_queued_task_is_cancelled_and_never_runs(ray, get, hold, gate, eventually, cancelled):
    running = hold.options(num_cpus=4).remote()
    eventually(lambda: gate.entered() == 1)
    queued = hold.remote()
    ray.cancel(queued)
    cancelled(queued)
    gate.open()
    assert get(running) == "finished"
    assert gate.entered() == 1


def test_a_task_that_waits_for_an_argument_is_cancelled(ray, hold, cancelled, tally):
    @ray.remote
    def child(value):
        tally.add()

    ref = child.remote(hold.remote())
    ray.cancel(ref)
    cancelled(ref)
    assert tally.count() == 0


def test_a_running_task_is_interrupted(ray, hold, gate, eventually, cancelled):
    ref = hold.remote()
    eventually(lambda: gate.entered() == 1)
    ray.cancel(ref)
    cancelled(ref)


def test_a_running_task_sees_a_keyboard_interrupt(ray, gate, tally, eventually, cancelled):
    @ray.remote
    def watch():
        try:
            gate.enter()
        except KeyboardInterrupt:
            tally.add("interrupted")
            raise

    ref = watch.remote()
    eventually(lambda: gate.entered() == 1)
    ray.cancel(ref)
    cancelled(ref)
    assert tally.count("interrupted") == 1


def test_force_ends_the_worker(ray, get, gate, tally, eventually, errors):
    @ray.remote
    def stubborn():
        while True:
            try:
                gate.enter()
            except KeyboardInterrupt:
                tally.add("interrupted")

    ref = stubborn.remote()
    eventually(lambda: gate.entered() == 1)
    ray.cancel(ref, force=True)
    with pytest.raises((errors.TaskCancelledError, errors.WorkerCrashedError)):
        get(ref)
    assert gate.entered() == 1


def test_a_cancelled_task_is_not_retried(ray, gate, eventually, cancelled, get):
    @ray.remote(max_retries=5, retry_exceptions=True)
    def watch():
        gate.enter()

    ref = watch.remote()
    eventually(lambda: gate.entered() == 1)
    ray.cancel(ref)
    cancelled(ref)
    assert get(ray.remote(lambda: "next").options(num_cpus=4).remote()) == "next"
    assert gate.entered() == 1


def test_cancelling_a_finished_task_does_nothing(ray, get):
    ref = ray.remote(lambda: "kept").remote()
    assert get(ref) == "kept"
    ray.cancel(ref)
    ray.cancel(ref, force=True)
    assert get(ref) == "kept"


def test_cancelling_twice(ray, hold, gate, eventually, cancelled):
    ref = hold.remote()
    eventually(lambda: gate.entered() == 1)
    ray.cancel(ref)
    ray.cancel(ref)
    cancelled(ref)


def test_cancel_returns_nothing_and_wait_sees_the_ref_ready(ray, hold, gate, eventually):
    ref = hold.remote()
    eventually(lambda: gate.entered() == 1)
    assert ray.cancel(ref) is None
    assert ray.wait([ref], timeout=120) == ([ref], [])


def test_children_are_cancelled_too(ray, get, gate, tally, eventually, cancelled):
    @ray.remote
    def child():
        try:
            gate.enter()
        except KeyboardInterrupt:
            tally.add("child-interrupted")
            raise

    @ray.remote
    def parent():
        return ray.get(child.remote())

    ref = parent.remote()
    eventually(lambda: gate.entered() == 1)
    ray.cancel(ref)
    cancelled(ref)
    eventually(lambda: tally.count("child-interrupted") == 1)


def test_children_go_on_without_recursion(ray, gate, tally, eventually, cancelled):
    @ray.remote
    def child():
        gate.enter()
        tally.add("child-finished")

    @ray.remote
    def parent():
        return ray.get(child.remote())

    ref = parent.remote()
    eventually(lambda: gate.entered() == 1)
    ray.cancel(ref, recursive=False)
    cancelled(ref)
    gate.open()
    eventually(lambda: tally.count("child-finished") == 1)


def test_a_cancelled_dependency_cancels_the_dependent(ray, hold, gate, eventually, cancelled):
    @ray.remote
    def child(value):
        return value

    source = hold.remote()
    eventually(lambda: gate.entered() == 1)
    dependent = child.remote(source)
    ray.cancel(source)
    cancelled(dependent)


def test_a_task_cancels_another(ray, get, hold, gate, eventually, cancelled):
    @ray.remote
    def stop(refs):
        ray.cancel(refs[0])

    ref = hold.remote()
    eventually(lambda: gate.entered() == 1)
    get(stop.remote([ref]))
    cancelled(ref)


def test_the_machine_works_on_after_a_cancel(ray, get, hold, gate, eventually, cancelled):
    refs = [hold.remote() for _ in range(4)]
    eventually(lambda: gate.entered() == 4)
    for ref in refs:
        ray.cancel(ref)
    for ref in refs:
        cancelled(ref)
    assert get([ray.remote(lambda x: x).remote(i) for i in range(8)]) == list(range(8))


@pytest.mark.parametrize("wrong", [1, "ref", None, [1]], ids=repr)
def test_cancel_of_something_else_is_refused(ray, wrong):
    with pytest.raises(TypeError):
        ray.cancel(wrong)


def test_cancel_of_an_actor_is_refused(ray):
    @ray.remote
    class Plain:
        pass

    actor = Plain.remote()
    with pytest.raises(TypeError):
        ray.cancel(actor)


def test_a_call_of_an_actor_that_waits_for_an_argument_is_cancelled(ray, get, hold, cancelled):
    @ray.remote
    class Plain:
        def echo(self, value):
            return value

    actor = Plain.options(allow_out_of_order_execution=True).remote()
    ref = actor.echo.remote(hold.remote())
    ray.cancel(ref)
    cancelled(ref)
    assert get(actor.echo.remote("next")) == "next"


@pytest.mark.phalanx_only("Ray cancels a call that already reached the actor only by chance")
def test_a_queued_call_of_an_actor_is_cancelled(ray, get, gate, eventually, cancelled):
    @ray.remote
    class Holder:
        def hold(self):
            gate.enter()
            return "held"

    actor = Holder.remote()
    running = actor.hold.remote()
    eventually(lambda: gate.entered() == 1)
    queued = actor.hold.remote()
    ray.cancel(queued)
    cancelled(queued)
    gate.open()
    assert get(running) == "held"
    assert gate.entered() == 1


def test_force_is_refused_for_a_call_of_an_actor(ray, get, gate):
    @ray.remote
    class Holder:
        def hold(self):
            gate.enter()

    ref = Holder.remote().hold.remote()
    with pytest.raises(ValueError, match="force"):
        ray.cancel(ref, force=True)
    gate.open()
    assert get(ref) is None


def test_a_running_async_call_is_cancelled(ray, get, tally, eventually, cancelled):
    @ray.remote
    class Holder:
        async def hold(self):
            tally.add("entered")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                tally.add("cancelled")
                raise

        async def ping(self):
            return "pong"

    actor = Holder.remote()
    ref = actor.hold.remote()
    eventually(lambda: tally.count("entered") == 1)
    ray.cancel(ref)
    cancelled(ref)
    assert tally.count("cancelled") == 1
    assert get(actor.ping.remote()) == "pong"


def test_an_async_call_that_catches_its_cancellation_gives_no_value(
    ray, get, tally, eventually, cancelled
):
    @ray.remote
    class Holder:
        async def hold(self):
            tally.add()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "ended early"

        async def ping(self):
            return "pong"

    actor = Holder.remote()
    ref = actor.hold.remote()
    eventually(lambda: tally.count() == 1)
    ray.cancel(ref)
    cancelled(ref)
    assert get(actor.ping.remote()) == "pong"


def test_a_running_sync_call_sees_that_it_is_cancelled(ray, tally, eventually, cancelled, get):
    @ray.remote
    class Watcher:
        def watch(self):
            import time

            tally.add("entered")
            while not ray.get_runtime_context().is_canceled():
                time.sleep(0.01)
            tally.add("seen")

        def ping(self):
            return "pong"

    actor = Watcher.options(max_concurrency=2).remote()
    ref = actor.watch.remote()
    eventually(lambda: tally.count("entered") == 1)
    ray.cancel(ref)
    eventually(lambda: tally.count("seen") == 1)
    assert get(actor.ping.remote()) == "pong"


def test_a_streaming_task_is_cancelled(ray, get, gate, eventually, errors):
    @ray.remote
    def stream():
        yield 1
        gate.enter()
        yield 2

    generator = stream.remote()
    assert get(next(generator)) == 1
    eventually(lambda: gate.entered() == 1)
    ray.cancel(generator)
    with pytest.raises(errors.TaskCancelledError):
        get(next(generator))


def test_a_task_sees_its_own_end_before_that_of_its_children(ray, get, tally, eventually):
    """The task's children are cancelled with it. The task must be interrupted before the call in
    which it waits for a child fails.
    """

    @ray.remote
    class Sleeper:
        async def sleep(self):
            import asyncio

            tally.add()
            await asyncio.sleep(60)

    @ray.remote
    def wait(sleeper):
        try:
            ray.get(sleeper.sleep.remote())
        except KeyboardInterrupt:
            return ray.get_runtime_context().is_canceled()

    ref = wait.remote(Sleeper.remote())
    eventually(lambda: tally.count() == 1)
    ray.cancel(ref)
    assert get(ref) is True


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_that_looks_whether_it_is_cancelled_gives_no_value(
    ray, get, tally, eventually, errors, threads
):
    @ray.remote(max_concurrency=threads)
    class Looking:
        def run(self):
            tally.add()
            while not ray.get_runtime_context().is_canceled():
                time.sleep(0.01)
            return "ended early"

        def look(self):
            return "alive"

    actor = Looking.remote()
    ref = actor.run.remote()
    eventually(lambda: tally.count() == 1)
    ray.cancel(ref, recursive=False)
    with pytest.raises(errors.TaskCancelledError):
        get(ref)
    assert get(actor.look.remote()) == "alive"


def test_async_actors_are_not_asked_whether_they_are_cancelled(ray, get):
    @ray.remote
    class OnLoop:
        async def look(self):
            return ray.get_runtime_context().is_canceled()

    with pytest.raises(RuntimeError, match="not supported in an async actor"):
        get(OnLoop.remote().look.remote())


def test_calls_of_an_async_actor_are_cancelled_at_any_moment(ray, get, errors):
    """Calls are cancelled before they are sent, before they start, and while they run."""

    @ray.remote
    class Sleeper:
        async def sleep(self):
            import asyncio

            await asyncio.sleep(60)

    sleeper = Sleeper.remote()
    get(sleeper.__ray_ready__.remote())
    refs = []
    for _ in range(200):
        refs.append(sleeper.sleep.remote())
        ray.cancel(refs[-1])
    for ref in refs:
        with pytest.raises(errors.TaskCancelledError):
            get(ref)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("queued", [False, True])
def test_a_cancelled_call_of_an_actor_raised_nothing_itself(
    ray, get, gate, tally, eventually, errors, is_async, queued
):
    class Sync:
        def work(self):
            tally.add("entered")
            context = ray.get_runtime_context()
            while not (gate.door.exists() or context.is_canceled()):
                time.sleep(0.01)

    class Async:
        async def work(self):
            tally.add("entered")
            while not gate.door.exists():
                await asyncio.sleep(0.01)

    worker = ray.remote(max_concurrency=1)(Async if is_async else Sync).remote()
    first = worker.work.remote()
    eventually(lambda: gate.entered() == 1)
    cancelled = worker.work.remote() if queued else first
    ray.cancel(cancelled)
    if queued:
        gate.open()  # else the call looks for its end
    with pytest.raises(errors.TaskCancelledError) as caught:
        get(cancelled)
    assert not isinstance(caught.value, errors.RayTaskError)


def test_what_a_cancelled_task_raises_itself_is_its_error(ray, get, tally, eventually, errors):
    @ray.remote
    def stubborn():
        tally.add("begun")
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            raise ValueError("half done") from None

    ref = stubborn.remote()
    eventually(lambda: tally.count("begun") == 1)
    ray.cancel(ref)
    with pytest.raises(ValueError, match="half done") as caught:
        get(ref)
    assert isinstance(caught.value, errors.RayTaskError)
