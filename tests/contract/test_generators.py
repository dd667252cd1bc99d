"""Tasks and methods that yield: streaming, dynamic, back-pressure, async iteration."""

# ruff: noqa: UP028 - fixtures are arguments; Ray cannot drive `yield from range(n)`
from __future__ import annotations

import asyncio

import pytest


@pytest.fixture
def count(ray):
    @ray.remote
    def count(n):
        for i in range(n):
            yield i

    return count


def test_a_generator_function_streams_by_default(ray, count):
    assert isinstance(count.remote(3), ray.ObjectRefGenerator)


def test_a_stream_gives_refs_in_order(ray, get, count):
    refs = list(count.remote(5))
    assert all(isinstance(ref, ray.ObjectRef) for ref in refs)
    assert get(refs) == [0, 1, 2, 3, 4]


def test_an_empty_stream(count):
    assert list(count.remote(0)) == []


def test_an_ended_stream_stays_ended(count):
    generator = count.remote(1)
    next(generator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(generator)


def test_a_stream_can_be_read_while_it_is_written(ray, get, gate):
    @ray.remote
    def stream():
        yield "early"
        gate.enter()
        yield "late"

    generator = stream.remote()
    assert get(next(generator)) == "early"
    gate.open()
    assert get(next(generator)) == "late"


def test_num_returns_streaming_by_option(ray, get):
    @ray.remote(num_returns="streaming")
    def stream():
        yield "a"
        yield "b"

    assert get(list(stream.remote())) == ["a", "b"]


def test_an_exception_is_the_last_ref_of_a_stream(ray, get):
    @ray.remote
    def stream():
        yield 1
        raise ValueError("mid-stream")

    first, last = list(stream.remote())
    assert get(first) == 1
    with pytest.raises(ValueError, match="mid-stream"):
        get(last)


def test_an_exception_before_the_first_yield(ray, get):
    @ray.remote
    def stream(fails):
        if fails:
            raise KeyError("first")
        yield

    [ref] = list(stream.remote(True))
    with pytest.raises(KeyError):
        get(ref)


def test_yielded_refs_can_be_passed_on(ray, get, count):
    @ray.remote
    def double(x):
        return 2 * x

    assert get([double.remote(ref) for ref in count.remote(3)]) == [0, 2, 4]


def test_large_yields(ray, get):
    @ray.remote
    def blobs():
        for i in range(4):
            yield bytes([i]) * 300_000

    assert [b[0] for b in get(list(blobs.remote()))] == [0, 1, 2, 3]


def test_get_of_a_generator_gives_it_back(ray, count):
    generator = count.remote(1)
    assert ray.get(generator) is generator


def test_completed_is_ready_when_the_stream_ends(ray, get, gate):
    @ray.remote
    def stream():
        yield 1
        gate.enter()

    generator = stream.remote()
    done = generator.completed()
    assert isinstance(done, ray.ObjectRef)
    assert ray.wait([done], timeout=0.05) == ([], [done])
    gate.open()
    get(done)
    assert get(list(generator)) == [1]


def test_is_finished_after_everything_was_read(get, count):
    generator = count.remote(2)
    assert not generator.is_finished()
    get(list(generator))
    assert generator.is_finished()


def test_wait_accepts_a_generator(ray, get, gate):
    @ray.remote
    def stream():
        gate.enter()
        yield 1

    generator = stream.remote()
    assert ray.wait([generator], timeout=0.05) == ([], [generator])
    gate.open()
    assert ray.wait([generator], timeout=120) == ([generator], [])
    assert get(next(generator)) == 1


def test_wait_finds_a_generator_ready_when_there_is_nothing_more(ray, get, count):
    generator = count.remote(1)
    get(next(generator))
    get(generator.completed())
    for _ in range(2):
        assert ray.wait([generator], timeout=120) == ([generator], [])
        with pytest.raises(StopIteration):
            next(generator)


def test_next_sync_times_out_with_a_nil_ref(ray, gate):
    @ray.remote
    def stream():
        gate.enter()
        yield 1

    generator = stream.remote()
    assert generator._next_sync(timeout_s=0.05).is_nil()
    gate.open()
    assert not generator._next_sync(timeout_s=30).is_nil()


def test_a_stream_can_be_iterated_with_async_for(ray, count):
    async def collect():
        return [await ref async for ref in count.remote(4)]

    assert asyncio.run(collect()) == [0, 1, 2, 3]


def test_anext_ends_with_stop_async_iteration(ray, count):
    async def collect():
        generator = count.remote(1)
        first = await (await generator.__anext__())
        with pytest.raises(StopAsyncIteration):
            await generator.__anext__()
        return first

    assert asyncio.run(collect()) == 0


def test_backpressure_pauses_the_producer(ray, get, tally, eventually):
    @ray.remote(_generator_backpressure_num_objects=2)
    def stream():
        for i in range(10):
            tally.add("yielded")
            yield i

    generator = stream.remote()
    eventually(lambda: tally.count("yielded") >= 2)
    assert tally.count("yielded") <= 3
    assert get([next(generator) for _ in range(4)]) == [0, 1, 2, 3]
    eventually(lambda: tally.count("yielded") >= 6)
    assert tally.count("yielded") <= 7
    assert get(list(generator)) == [4, 5, 6, 7, 8, 9]


def test_backpressure_of_one_steps_with_its_reader(ray, get, tally, eventually):
    @ray.remote(_generator_backpressure_num_objects=1)
    def stream():
        for i in range(3):
            tally.add("yielded")
            yield i

    generator = stream.remote()
    eventually(lambda: tally.count("yielded") == 1)
    assert get(list(generator)) == [0, 1, 2]


def test_a_crash_mid_stream_is_retried(ray, get, tally):
    import os

    @ray.remote(max_retries=1)
    def stream():
        tally.add()
        yield "a"
        if tally.count() == 1:
            os._exit(1)
        yield "b"

    assert get(list(stream.remote())) == ["a", "b"]


def test_dynamic_returns_are_one_ref_to_a_generator(ray, get):
    @ray.remote(num_returns="dynamic")
    def split(n):
        for i in range(n):
            yield i

    ref = split.remote(3)
    assert isinstance(ref, ray.ObjectRef)
    generator = get(ref)
    assert isinstance(generator, ray.DynamicObjectRefGenerator)
    assert len(generator) == 3
    assert get(list(generator)) == [0, 1, 2]


def test_dynamic_returns_can_be_passed_to_a_task(ray, get):
    @ray.remote(num_returns="dynamic")
    def split(n):
        for i in range(n):
            yield i

    @ray.remote
    def total(generator):
        return sum(ray.get(list(generator)))

    assert get(total.remote(split.remote(4))) == 6


def test_a_fixed_number_of_yields(ray, get):
    @ray.remote(num_returns=3)
    def three():
        yield 1
        yield 2
        yield 3

    assert get(three.remote()) == [1, 2, 3]


def test_too_few_yields_are_an_error(ray, get):
    @ray.remote(num_returns=3)
    def two():
        yield 1
        yield 2

    with pytest.raises(ValueError):
        get(two.remote())


def test_an_actor_method_that_yields_streams(ray, get):
    @ray.remote
    class Source:
        def stream(self, n):
            for i in range(n):
                yield i

    generator = Source.remote().stream.remote(3)
    assert isinstance(generator, ray.ObjectRefGenerator)
    assert get(list(generator)) == [0, 1, 2]


def test_an_async_generator_method_streams(ray, get):
    @ray.remote
    class Source:
        async def stream(self, n):
            for i in range(n):
                await asyncio.sleep(0)
                yield i

    assert get(list(Source.remote().stream.remote(3))) == [0, 1, 2]


def test_an_exception_in_an_async_generator(ray, get):
    @ray.remote
    class Source:
        async def stream(self):
            yield 1
            raise ValueError("mid-stream")

    first, last = list(Source.remote().stream.remote())
    assert get(first) == 1
    with pytest.raises(ValueError):
        get(last)


def test_a_task_reads_a_stream(ray, get, count):
    @ray.remote
    def total(n):
        return sum(ray.get(ref) for ref in count.remote(n))

    assert get(total.remote(5)) == 10


def test_several_streams_at_once(ray, get, count):
    generators = [count.remote(n) for n in (1, 2, 3)]
    assert [get(list(g)) for g in generators] == [[0], [0, 1], [0, 1, 2]]


@pytest.mark.parametrize("is_actor", [False, True])
def test_what_a_counted_generator_gave_before_it_raised_stays(ray, get, is_actor):
    class Source:
        def three(self):
            yield 1
            raise KeyError("two")

    @ray.remote(num_returns=3)
    def three():
        yield 1
        raise KeyError("two")

    if is_actor:
        first, second, third = ray.remote(Source).remote().three.options(num_returns=3).remote()
    else:
        first, second, third = three.remote()
    assert get(first) == 1
    for ref in (second, third):
        with pytest.raises(KeyError):
            get(ref)


def test_items_beyond_the_count_are_dropped(ray, get):
    @ray.remote(num_returns=2)
    def three():
        yield from range(3)

    assert get(three.remote()) == [0, 1]
    assert get(three.options(num_returns=1).remote()) == 0


def test_a_dynamic_generator_that_raises_gives_what_came_before(ray, get):
    @ray.remote(num_returns="dynamic", max_retries=0)
    def two():
        yield 1
        raise KeyError("two")

    first, second = get(two.remote())
    assert get(first) == 1
    with pytest.raises(KeyError):
        get(second)


def test_a_finished_generator_has_no_next_item(ray, get):
    @ray.remote
    def one():
        yield 1

    generator = one.remote()
    get(generator.completed())
    assert generator.next_ready()
    assert get(next(generator)) == 1
    assert not generator.next_ready()
    assert generator.is_finished()
