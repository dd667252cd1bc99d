"""Generators whose reader stops reading or dies."""

from __future__ import annotations

import os
import signal

import pytest


def test_a_generator_nobody_reads_any_more_is_not_held_back(runtime, get, tmp_path):
    """Each such generator kept its CPU for ever, so that with two CPUs the third one never
    began.
    """

    @runtime.remote(_generator_backpressure_num_objects=1)
    def numbers(path):
        yield from range(5)
        path.touch()

    paths = [tmp_path / str(i) for i in range(4)]
    ends = []
    for path in paths:
        stream = numbers.remote(path)
        assert get(next(stream)) == 0
        ends.append(stream.completed())
        del stream
    get(ends)
    assert all(path.exists() for path in paths)


def test_a_generator_that_nobody_ever_read_runs_to_its_end(runtime, get, tmp_path):
    @runtime.remote(_generator_backpressure_num_objects=1)
    def numbers(path):
        yield from range(5)
        path.touch()

    end = numbers.remote(tmp_path / "end").completed()
    get(end)
    assert (tmp_path / "end").exists()


def test_a_generator_that_runs_again_is_not_held_back_by_what_was_read_before(
    runtime, get, tmp_path
):
    """The second run waited for its reader to take items that the reader had already taken from the
    first run.
    """

    @runtime.remote(_generator_backpressure_num_objects=2, max_retries=1)
    def numbers(path):
        for number in range(8):
            yield number
            if number == 4 and not path.exists():
                path.touch()
                os._exit(1)

    stream = numbers.remote(tmp_path / "died")
    assert [get(ref) for ref in take(stream, 8)] == list(range(8))
    assert (tmp_path / "died").exists()


def take(stream, count):
    """Return this many references of a stream; fail instead of waiting for ever."""
    for _ in range(count):
        ref = stream._next_sync(30)
        assert not ref.is_nil(), "no further item came"
        yield ref


@pytest.mark.parametrize("is_async", [False, True])
def test_an_actor_answers_others_after_a_reader_of_its_items_was_killed(runtime, get, is_async):
    """A reader took one item and was killed. The actor waited for ever for this reader to take
    more.
    """

    class Source:
        def ping(self):
            return "pong"

        def items(self):
            yield from range(100)

    class AsyncSource(Source):
        async def ping(self):
            return "pong"

        async def items(self):
            for number in range(100):
                yield number

    class Reader:
        def begin(self, source):
            options = {"num_returns": "streaming", "_generator_backpressure_num_objects": 2}
            self.items = source.items.options(**options).remote()
            return os.getpid(), runtime.get(next(self.items))

    kind = AsyncSource if is_async else Source
    source = runtime.remote(num_cpus=0, max_concurrency=1)(kind).remote()
    reader = runtime.remote(num_cpus=0)(Reader).remote()
    pid, first = get(reader.begin.remote(source))
    assert first == 0
    os.kill(pid, signal.SIGKILL)
    assert get(source.ping.remote()) == "pong"
