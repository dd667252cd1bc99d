"""Async and threaded actors, concurrency groups, and limits of pending calls."""

from __future__ import annotations

import asyncio

import pytest


def test_async_methods_return_their_values(ray, get):
    @ray.remote
    class Plain:
        async def add(self, a, b):
            await asyncio.sleep(0)
            return a + b

    assert get(Plain.remote().add.remote(1, 2)) == 3


@pytest.mark.parametrize("groups", [{}, {"io": 1}])
def test_a_constructor_may_be_a_coroutine(ray, get, groups):
    @ray.remote(num_cpus=0, concurrency_groups=groups)
    class Slow:
        async def __init__(self, value):
            self.loop = asyncio.get_running_loop()
            await asyncio.sleep(0)
            self.value = value

        async def read(self):
            return self.value, asyncio.get_running_loop() is self.loop

    assert get(Slow.remote(3).read.remote()) == (3, True)


def test_async_calls_interleave(ray, get):
    @ray.remote
    class Signal:
        def __init__(self):
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "woken"

        async def send(self):
            self.event.set()

    signal = Signal.remote()
    waiting = [signal.wait.remote() for _ in range(50)]
    get(signal.send.remote())
    assert get(waiting) == ["woken"] * 50


def test_max_concurrency_limits_async_calls(ray, get):
    @ray.remote(max_concurrency=2)
    class Counter:
        def __init__(self):
            self.now = self.most = 0
            self.met = asyncio.Event()

        async def work(self):
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == 2:
                self.met.set()
            await self.met.wait()
            await asyncio.sleep(0.01)  # time for a third to come in, if it may
            self.now -= 1

        async def read(self):
            return self.most

    counter = Counter.remote()
    get([counter.work.remote() for _ in range(6)])
    assert get(counter.read.remote()) == 2


def test_an_exception_of_an_async_method(ray, get):
    @ray.remote
    class Plain:
        async def fail(self):
            raise KeyError("async")

        async def ping(self):
            return "pong"

    actor = Plain.remote()
    with pytest.raises(KeyError):
        get(actor.fail.remote())
    assert get(actor.ping.remote()) == "pong"


def test_an_async_method_awaits_refs(ray, get):
    @ray.remote
    def work(i):
        return i

    @ray.remote
    class Gatherer:
        async def gather(self):
            return await asyncio.gather(*[work.remote(i) for i in range(5)])

    assert get(Gatherer.remote().gather.remote()) == [0, 1, 2, 3, 4]


def test_an_async_method_awaits_another_actor(ray, get):
    @ray.remote
    class Inner:
        async def value(self):
            return 5

    @ray.remote
    class Outer:
        def __init__(self, inner):
            self.inner = inner

        async def ask(self):
            return await self.inner.value.remote() + 1

    assert get(Outer.remote(Inner.remote()).ask.remote()) == 6


def test_a_failure_awaited_in_an_async_method(ray, get):
    @ray.remote
    def fail():
        raise ValueError("awaited")

    @ray.remote
    class Careful:
        async def ask(self):
            try:
                await fail.remote()
            except ValueError:
                return "caught"

    assert get(Careful.remote().ask.remote()) == "caught"


def test_a_sync_method_of_an_async_actor(ray, get):
    @ray.remote
    class Mixed:
        async def later(self):
            return "async"

        def now(self):
            return "sync"

    actor = Mixed.remote()
    assert get([actor.later.remote(), actor.now.remote()]) == ["async", "sync"]


def test_an_async_actor_has_one_running_loop(ray, get):
    @ray.remote
    class Loop:
        async def ident(self):
            return id(asyncio.get_running_loop())

    actor = Loop.remote()
    assert len(set(get([actor.ident.remote() for _ in range(5)]))) == 1


def test_a_threaded_actor_runs_calls_at_the_same_time(ray, get, gate, eventually):
    @ray.remote(max_concurrency=3)
    class Threads:
        def hold(self):
            gate.enter()
            return "held"

    actor = Threads.remote()
    refs = [actor.hold.remote() for _ in range(4)]
    eventually(lambda: gate.entered() == 3)
    gate.open()
    assert get(refs) == ["held"] * 4


def test_a_threaded_actor_uses_several_threads(ray, get):
    import threading

    @ray.remote(max_concurrency=2)
    class Threads:
        def __init__(self):
            self.barrier = threading.Barrier(2, timeout=120)

        def meet(self):
            self.barrier.wait()
            return threading.get_ident()

    actor = Threads.remote()
    assert len(set(get([actor.meet.remote(), actor.meet.remote()]))) == 2


def test_a_plain_actor_runs_one_call_at_a_time(ray, get, gate, eventually):
    @ray.remote
    class Plain:
        def hold(self):
            gate.enter()
            return gate.entered()

    actor = Plain.remote()
    refs = [actor.hold.remote() for _ in range(3)]
    eventually(lambda: gate.entered() == 1)
    assert ray.wait(refs, timeout=0.05)[0] == []
    gate.open()
    assert get(refs) == [1, 2, 3]


def test_a_failure_in_a_threaded_actor(ray, get):
    @ray.remote(max_concurrency=2)
    class Threads:
        def fail(self):
            raise ValueError("threaded")

        def ping(self):
            return "pong"

    actor = Threads.remote()
    with pytest.raises(ValueError):
        get(actor.fail.remote())
    assert get(actor.ping.remote()) == "pong"


def test_concurrency_groups_do_not_wait_for_each_other(ray, get, gate, eventually):
    @ray.remote(concurrency_groups={"slow": 1, "quick": 1})
    class Grouped:
        @ray.method(concurrency_group="slow")
        def hold(self):
            gate.enter()
            return "held"

        @ray.method(concurrency_group="quick")
        def ping(self):
            return "pong"

        def plain(self):
            return "plain"

    actor = Grouped.remote()
    held = actor.hold.remote()
    eventually(lambda: gate.entered() == 1)
    assert get([actor.ping.remote(), actor.plain.remote()]) == ["pong", "plain"]
    gate.open()
    assert get(held) == "held"


def test_a_concurrency_group_has_its_own_limit(ray, get, gate, eventually):
    @ray.remote(concurrency_groups={"pair": 2})
    class Grouped:
        @ray.method(concurrency_group="pair")
        def hold(self):
            gate.enter()
            return gate.entered()

    actor = Grouped.remote()
    refs = [actor.hold.remote() for _ in range(3)]
    eventually(lambda: gate.entered() == 2)
    assert ray.wait(refs, timeout=0.05)[0] == []
    gate.open()
    assert len(get(refs)) == 3


def test_a_call_chooses_its_concurrency_group(ray, get, gate, eventually):
    @ray.remote(concurrency_groups={"other": 1})
    class Grouped:
        def hold(self):
            gate.enter()
            return "held"

        def ping(self):
            return "pong"

    actor = Grouped.remote()
    held = actor.hold.remote()
    eventually(lambda: gate.entered() == 1)
    assert get(actor.ping.options(concurrency_group="other").remote()) == "pong"
    gate.open()
    assert get(held) == "held"


def test_concurrency_groups_of_an_async_actor(ray, get, gate, eventually):
    @ray.remote(concurrency_groups={"io": 1})
    class Grouped:
        @ray.method(concurrency_group="io")
        async def hold(self):
            await asyncio.to_thread(gate.enter)
            return "held"

        async def ping(self):
            return "pong"

    actor = Grouped.remote()
    refs = [actor.hold.remote(), actor.hold.remote()]
    eventually(lambda: gate.entered() == 1)
    assert get(actor.ping.remote()) == "pong"
    assert gate.entered() == 1
    gate.open()
    assert get(refs) == ["held"] * 2


@pytest.mark.phalanx_only("in Ray the actor's process ends with a failed internal check")
def test_an_unknown_concurrency_group_fails_the_call(ray, get):
    @ray.remote(concurrency_groups={"io": 1})
    class Grouped:
        def ping(self):
            return "pong"

    actor = Grouped.remote()
    with pytest.raises(ValueError, match="nowhere"):
        get(actor.ping.options(concurrency_group="nowhere").remote())


@pytest.mark.with_a_node("the driver counts the calls, so the error is the result of the call")
def test_too_many_pending_calls_are_refused(ray, get, gate, eventually, errors):
    @ray.remote(max_pending_calls=2)
    class Holder:
        def hold(self):
            gate.enter()
            return "held"

    actor = Holder.remote()
    refs = [actor.hold.remote() for _ in range(2)]
    with pytest.raises(errors.PendingCallsLimitExceeded):
        actor.hold.remote()
    gate.open()
    assert get(refs) == ["held"] * 2
    assert get(actor.hold.remote()) == "held"


def test_out_of_order_execution_lets_a_ready_call_pass(ray, get, gate):
    @ray.remote
    def late():
        gate.enter()
        return "late"

    @ray.remote(allow_out_of_order_execution=True)
    class Plain:
        def echo(self, value):
            return value

    actor = Plain.remote()
    waiting = actor.echo.remote(late.remote())
    assert get(actor.echo.remote("early")) == "early"
    gate.open()
    assert get(waiting) == "late"


def test_an_async_actor_lets_a_ready_call_pass(ray, get, gate):
    @ray.remote
    def late():
        gate.enter()
        return "late"

    @ray.remote
    class Plain:
        async def echo(self, value):
            return value

    actor = Plain.remote()
    waiting = actor.echo.remote(late.remote())
    assert get(actor.echo.remote("early")) == "early"
    gate.open()
    assert get(waiting) == "late"


def test_async_constructor_is_not_needed_for_a_loop_in_methods(ray, get):
    @ray.remote
    class Background:
        def __init__(self):
            self.done = []

        async def start(self):
            self.task = asyncio.create_task(self.work())

        async def work(self):
            self.done.append("worked")

        async def read(self):
            await self.task
            return self.done

    actor = Background.remote()
    get(actor.start.remote())
    assert get(actor.read.remote()) == ["worked"]


def test_a_call_that_blocks_its_loop_holds_up_its_own_group_alone(ray, get, gate, eventually):
    @ray.remote(concurrency_groups={"slow": 1, "fast": 1})
    class Grouped:
        @ray.method(concurrency_group="slow")
        async def block(self):
            gate.enter()

        async def block_too(self):
            gate.enter()

        @ray.method(concurrency_group="fast")
        def answer(self):
            return "ok"

    actor = Grouped.remote()
    refs = [actor.block.remote(), actor.block.remote(), actor.block_too.remote()]
    eventually(lambda: gate.entered() == 2)
    assert get(actor.answer.remote()) == "ok"
    gate.open()
    get(refs)


@pytest.mark.parametrize("is_async", [False, True])
def test_each_group_has_threads_of_its_own(ray, get, is_async):
    import threading

    class Grouped:
        def ident(self):
            return threading.get_ident()

    class OnLoops(Grouped):
        async def other(self):
            pass

    made = ray.remote(concurrency_groups={"io": 1, "compute": 1})(OnLoops if is_async else Grouped)
    actor = made.remote()
    io, compute = (actor.ident.options(concurrency_group=name) for name in ("io", "compute"))
    first, second, third = get([io.remote(), compute.remote(), actor.ident.remote()])
    assert len({first, second, third}) == 3
    assert get([io.remote(), compute.remote()]) == [first, second]


def test_a_plain_method_of_an_async_actor_gives_a_reference_away(ray, get):
    @ray.remote
    def one():
        return 1

    @ray.remote
    class Keeper:
        async def begin(self):
            self.ref = one.remote()
            return await self.ref

        def kept(self):
            return self.ref

        def kept_in_a_list(self):
            return [self.ref]

    keeper = Keeper.remote()
    assert get(keeper.begin.remote()) == 1
    assert get(get(keeper.kept.remote())) == 1
    assert get(get(keeper.kept_in_a_list.remote())) == [1]


@pytest.mark.phalanx_only("Ray says so in the worker, by an assertion")
def test_a_method_of_a_group_that_its_class_does_not_have_is_refused(ray):
    class Mistaken:
        @ray.method(concurrency_group="oi")
        def read(self):
            return 1

    for options in ({"num_cpus": 0}, {"concurrency_groups": {"io": 1}}):
        with pytest.raises(ValueError, match=r"Mistaken\.read .*'oi'"):
            ray.remote(**options)(Mistaken)
