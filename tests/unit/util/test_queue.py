"""Queue: its order, its limits, waiting, batches, use by several tasks, shutdown."""

from __future__ import annotations

import asyncio
import queue

import pytest

from phalanx.util.queue import Empty, Full, Queue


def test_first_in_first_out(ray):
    line = Queue()
    for item in range(5):
        line.put(item)
    assert (len(line), line.qsize(), line.size()) == (5, 5, 5)
    assert [line.get() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert line.empty()


def test_a_full_queue_refuses(ray):
    line = Queue(maxsize=1)
    line.put("first")
    assert line.full()
    with pytest.raises(Full):
        line.put_nowait("second")
    with pytest.raises(queue.Full):
        line.put("second", timeout=0.01)
    assert line.get() == "first"


def test_an_empty_queue_has_nothing_to_give(ray):
    line = Queue()
    with pytest.raises(Empty):
        line.get_nowait()
    with pytest.raises(queue.Empty):
        line.get(timeout=0.01)


@pytest.mark.parametrize("call", ["get", "put"])
def test_a_negative_timeout_is_refused(ray, call):
    line = Queue()
    arguments = (1,) if call == "put" else ()
    with pytest.raises(ValueError, match="-1"):
        getattr(line, call)(*arguments, timeout=-1)


def test_get_waits_for_a_task_to_put(ray):
    line = Queue()

    @ray.remote
    def produce(line):
        line.put("made elsewhere")

    waiting = line.actor.get.remote(None)
    ref = produce.remote(line)
    assert ray.get(waiting, timeout=120) == "made elsewhere"
    ray.get(ref)


def test_put_waits_for_room(ray):
    line = Queue(maxsize=1)
    line.put(1)

    @ray.remote
    def produce(line):
        line.put(2)

    ref = produce.remote(line)
    assert [line.get(timeout=120), line.get(timeout=120)] == [1, 2]
    ray.get(ref)


def test_batches_go_in_and_out_whole_or_not_at_all(ray):
    line = Queue(maxsize=3)
    line.put_nowait_batch([1, 2])
    with pytest.raises(Full, match="2 items do not fit"):
        line.put_nowait_batch(iter([3, 4]))
    with pytest.raises(Empty, match="3 items requested"):
        line.get_nowait_batch(3)
    assert line.get_nowait_batch(2) == [1, 2]
    assert line.get_nowait_batch(0) == []


@pytest.mark.parametrize(
    ("call", "argument", "error"),
    [
        ("put_nowait_batch", 1, TypeError),
        ("get_nowait_batch", "1", TypeError),
        ("get_nowait_batch", -1, ValueError),
    ],
)
def test_bad_batches_are_refused(ray, call, argument, error):
    with pytest.raises(error):
        getattr(Queue(), call)(argument)


def test_the_async_calls(ray):
    line = Queue(maxsize=1)

    async def use():
        await line.put_async("a")
        with pytest.raises(Full):
            await line.put_async("b", block=False)
        assert await line.get_async() == "a"
        with pytest.raises(Empty):
            await line.get_async(timeout=0.01)

    asyncio.run(use())


def test_actor_options_reach_the_actor(ray):
    Queue(actor_options={"name": "line", "lifetime": "detached"}).put("kept")
    actor = ray.get_actor("line")
    assert ray.get(actor.qsize.remote()) == 1
    ray.kill(actor)


@pytest.mark.parametrize("force", [False, True])
def test_shutdown_ends_the_actor(ray, force):
    line = Queue()
    actor = line.actor
    line.shutdown(force=force)
    line.shutdown(force=force)
    from phalanx.errors import ActorDiedError

    with pytest.raises(ActorDiedError):
        ray.get(actor.qsize.remote(), timeout=120)
