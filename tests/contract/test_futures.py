"""Refs as awaitables and as futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import pytest


@pytest.fixture
def work(ray):
    @ray.remote
    def work(i):
        return i

    return work


@pytest.fixture
def fail(ray):
    @ray.remote
    def fail():
        raise ValueError("failed")

    return fail


def run(coroutine):
    async def limited():
        return await asyncio.wait_for(coroutine, timeout=120)

    return asyncio.run(limited())


def test_a_ref_can_be_awaited(work):
    async def main():
        return await work.remote(5)

    assert run(main()) == 5


def test_a_put_object_can_be_awaited(ray):
    async def main():
        return await ray.put("x")

    assert run(main()) == "x"


def test_refs_can_be_gathered(work):
    async def main():
        return await asyncio.gather(*[work.remote(i) for i in range(10)])

    assert run(main()) == list(range(10))


def test_a_ref_can_be_awaited_twice(work):
    async def main():
        ref = work.remote(5)
        return await ref, await ref

    assert run(main()) == (5, 5)


def test_awaiting_a_failure_raises_its_class(fail):
    async def main():
        with pytest.raises(ValueError):
            await fail.remote()

    run(main())


def test_wait_for_times_out_on_a_ref(ray, gate):
    @ray.remote
    def hold():
        gate.enter()

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(hold.remote(), timeout=0.05)

    run(main())


def test_the_loop_goes_on_while_a_ref_is_awaited(ray, gate):
    @ray.remote
    def hold():
        gate.enter()
        return "held"

    async def main():
        async def open_later():
            gate.open()

        value, _ = await asyncio.gather(hold.remote(), open_later())
        return value

    assert run(main()) == "held"


def test_asyncio_wait_on_wrapped_futures(work):
    async def main():
        futures = [asyncio.wrap_future(work.remote(i).future()) for i in range(3)]
        done, pending = await asyncio.wait(futures)
        return sorted(f.result() for f in done), len(pending)

    assert run(main()) == ([0, 1, 2], 0)


def test_future_is_a_concurrent_future(work):
    future = work.remote(5).future()
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(timeout=120) == 5


def test_a_future_carries_the_failure(fail):
    future = fail.remote().future()
    assert isinstance(future.exception(timeout=120), ValueError)
    with pytest.raises(ValueError):
        future.result(timeout=120)


def test_concurrent_as_completed(work):
    futures = [work.remote(i).future() for i in range(5)]
    done = concurrent.futures.as_completed(futures, timeout=120)
    assert sorted(f.result() for f in done) == list(range(5))


def test_a_future_calls_back(work, eventually):
    seen = []
    work.remote(5).future().add_done_callback(lambda f: seen.append(f.result()))
    eventually(lambda: seen == [5])


def test_on_completed_is_given_the_value(work, eventually):
    seen: list[Any] = []
    work.remote(5)._on_completed(seen.append)
    eventually(lambda: seen == [5])


def test_a_large_value_can_be_awaited(ray):
    @ray.remote
    def blob():
        return bytes(1_000_000)

    async def main():
        return len(await blob.remote())

    assert run(main()) == 1_000_000


def test_async_calls_of_an_actor_are_awaited_in_the_driver(ray):
    @ray.remote
    class Plain:
        async def add(self, a, b):
            return a + b

    async def main():
        return await Plain.remote().add.remote(1, 2)

    assert run(main()) == 3
