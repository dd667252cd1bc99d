"""`util`: pools of actors, queues, process pools, and helpers over many refs."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture
def util(part, ray):
    return part("util")


@pytest.fixture
def worker(ray):
    @ray.remote
    class Worker:
        def double(self, x):
            return 2 * x

        def fail(self, x):
            raise ValueError(x)

    return Worker


@pytest.fixture
def pool(util, worker):
    return util.ActorPool([worker.remote() for _ in range(2)])


def double(actor, x):
    return actor.double.remote(x)


def test_a_pool_maps_in_order(pool):
    assert list(pool.map(double, range(6))) == [0, 2, 4, 6, 8, 10]


def test_a_pool_maps_in_any_order(pool):
    assert sorted(pool.map_unordered(double, range(6))) == [0, 2, 4, 6, 8, 10]


def test_a_pool_hands_out_results_in_order_of_submission(pool):
    for i in range(4):
        pool.submit(double, i)
    assert [pool.get_next(timeout=120) for _ in range(4)] == [0, 2, 4, 6]
    assert not pool.has_next()


def test_a_pool_hands_out_results_as_they_come(pool):
    for i in range(4):
        pool.submit(double, i)
    assert sorted(pool.get_next_unordered(timeout=120) for _ in range(4)) == [0, 2, 4, 6]


def test_a_pool_knows_what_is_free(pool):
    assert pool.has_free()
    pool.submit(double, 1)
    pool.submit(double, 2)
    assert not pool.has_free()
    assert pool.has_next()
    assert [pool.get_next(timeout=120), pool.get_next(timeout=120)] == [2, 4]
    assert pool.has_free()


def test_a_pool_without_results_refuses_get_next(pool):
    with pytest.raises(StopIteration):
        pool.get_next()
    with pytest.raises(StopIteration):
        pool.get_next_unordered()


def test_a_pools_get_next_times_out(ray, util, gate):
    @ray.remote
    class Holder:
        def hold(self, x):
            gate.enter()
            return x

    pool = util.ActorPool([Holder.remote()])
    pool.submit(lambda actor, x: actor.hold.remote(x), 1)
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0.05)
    gate.open()
    assert pool.get_next(timeout=120) == 1


def test_actors_are_pushed_and_popped(util, worker):
    pool = util.ActorPool([worker.remote()])
    actor = pool.pop_idle()
    assert actor is not None
    assert pool.pop_idle() is None
    pool.push(actor)
    assert list(pool.map(double, [3])) == [6]
    with pytest.raises(ValueError):
        pool.push(actor)


def test_a_failure_in_a_pool_is_raised_at_its_result(pool):
    pool.submit(lambda actor, x: actor.fail.remote(x), 1)
    with pytest.raises(ValueError):
        pool.get_next(timeout=120)


@pytest.fixture
def queues(part, ray):
    return part("util.queue")


@pytest.fixture
def make_queue(queues):
    made = []

    def make(*args, **options):
        made.append(queues.Queue(*args, **options))
        return made[-1]

    yield make
    for queue in made:
        queue.shutdown(force=True)


def test_a_queue_is_first_in_first_out(make_queue):
    queue = make_queue()
    for i in range(5):
        queue.put(i)
    assert [queue.get(timeout=120) for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_queue_tells_its_size(make_queue):
    queue = make_queue(2)
    assert (queue.qsize(), queue.size(), queue.empty(), queue.full()) == (0, 0, True, False)
    queue.put(1)
    queue.put(2)
    assert (queue.qsize(), len(queue), queue.empty(), queue.full()) == (2, 2, False, True)


def test_an_empty_queue_refuses(make_queue, queues):
    queue = make_queue()
    with pytest.raises(queues.Empty):
        queue.get_nowait()
    with pytest.raises(queues.Empty):
        queue.get(block=False)
    with pytest.raises(queues.Empty):
        queue.get(timeout=0.05)


def test_a_full_queue_refuses(make_queue, queues):
    queue = make_queue(maxsize=1)
    queue.put("only")
    with pytest.raises(queues.Full):
        queue.put_nowait("more")
    with pytest.raises(queues.Full):
        queue.put("more", block=False)
    with pytest.raises(queues.Full):
        queue.put("more", timeout=0.05)


def test_a_negative_timeout_of_a_queue_is_refused(make_queue):
    queue = make_queue()
    with pytest.raises(ValueError):
        queue.get(timeout=-1)
    with pytest.raises(ValueError):
        queue.put(1, timeout=-1)


def test_a_queue_in_batches(make_queue, queues):
    queue = make_queue(maxsize=4)
    queue.put_nowait_batch([1, 2, 3])
    with pytest.raises(queues.Full):
        queue.put_nowait_batch([4, 5])
    assert queue.get_nowait_batch(2) == [1, 2]
    with pytest.raises(queues.Empty):
        queue.get_nowait_batch(2)


def test_the_errors_of_a_queue_are_the_standard_ones(queues):
    import queue

    assert issubclass(queues.Empty, queue.Empty)
    assert issubclass(queues.Full, queue.Full)


def test_a_queue_between_tasks(ray, get, make_queue):
    @ray.remote
    def produce(queue):
        for i in range(5):
            queue.put(i)

    @ray.remote
    def consume(queue):
        return [queue.get(timeout=120) for _ in range(5)]

    queue = make_queue(maxsize=2)
    consumed = consume.remote(queue)
    get(produce.remote(queue))
    assert get(consumed) == [0, 1, 2, 3, 4]


def test_a_queue_with_async_calls(make_queue):
    queue = make_queue()

    async def main():
        await queue.put_async("x")
        return await queue.get_async(timeout=120)

    assert asyncio.run(main()) == "x"


def test_a_queue_passes_options_to_its_actor(ray, make_queue):
    queue = make_queue(actor_options={"num_cpus": 0, "name": "queue_by_name"})
    queue.put(1)
    assert ray.get_actor("queue_by_name") == queue.actor


def test_a_queue_that_was_shut_down_is_dead(get, queues, errors):
    queue = queues.Queue()
    queue.put(1)
    actor = queue.actor
    queue.shutdown(force=True)
    with pytest.raises(errors.RayActorError):
        get(actor.qsize.remote())


@pytest.fixture
def processes(part, ray):
    pool = part("util.multiprocessing").Pool(2)
    yield pool
    pool.terminate()
    pool.join()


def test_a_process_pool(processes):
    power = lambda x, y=2: x**y  # noqa: E731 - a local function travels by value
    assert processes.apply(power, (3,), {"y": 3}) == 27
    assert processes.map(lambda x: x * x, range(5)) == [0, 1, 4, 9, 16]
    assert processes.starmap(lambda x, y: x + y, [(1, 2), (3, 4)]) == [3, 7]


def test_a_process_pool_iterates(processes):
    assert list(processes.imap(lambda x: x * x, range(5))) == [0, 1, 4, 9, 16]
    unordered = processes.imap_unordered(lambda x: x * x, range(5), chunksize=2)
    assert sorted(unordered) == [0, 1, 4, 9, 16]


def test_a_process_pools_async_results(processes):
    one = processes.apply_async(lambda x: x + 1, (1,))
    many = processes.map_async(lambda x: x + 1, range(3))
    stars = processes.starmap_async(lambda x, y: x * y, [(2, 3)])
    assert one.get(timeout=120) == 2
    assert many.get(timeout=120) == [1, 2, 3]
    assert stars.get(timeout=120) == [6]
    assert one.ready()
    assert one.successful()


def test_a_process_pools_callbacks(processes, eventually):
    seen: list[str] = []
    failed: list[Exception] = []

    def fail(x):
        raise ValueError(x)

    processes.apply_async(lambda: "value", callback=seen.append)
    processes.apply_async(fail, (1,), error_callback=failed.append)
    eventually(lambda: seen and failed)
    assert seen == ["value"]
    assert isinstance(failed[0], Exception)


def test_a_failure_in_a_process_pool_is_raised(processes):
    def fail(x):
        raise KeyError(x)

    with pytest.raises(KeyError):
        processes.map(fail, [1])
    result = processes.apply_async(fail, (1,))
    with pytest.raises(KeyError):
        result.get(timeout=120)
    assert not result.successful()


def test_a_result_of_a_process_pool_times_out(processes, gate):
    import multiprocessing

    result = processes.apply_async(gate.enter)
    with pytest.raises(multiprocessing.TimeoutError):
        result.get(timeout=0.05)
    gate.open()
    assert result.get(timeout=120) is None


def test_the_initializer_of_a_process_pool_runs_in_each_process(part, ray, tally):
    with part("util.multiprocessing").Pool(2, tally.add, ("initialized",)) as pool:
        assert pool.map(lambda x: x, range(4)) == [0, 1, 2, 3]
        assert tally.count("initialized") == 2


def test_a_closed_process_pool_refuses_work_and_can_be_joined(part, ray):
    pool = part("util.multiprocessing").Pool(1)
    result = pool.apply_async(lambda: 1)
    with pytest.raises(ValueError):
        pool.join()
    pool.close()
    with pytest.raises(ValueError):
        pool.apply(lambda: 1)
    pool.join()
    assert result.get(timeout=120) == 1


def test_as_completed_yields_every_value(ray, util):
    @ray.remote
    def work(i):
        return i

    refs = [work.remote(i) for i in range(6)]
    assert sorted(util.as_completed(refs)) == list(range(6))


def test_as_completed_yields_what_is_ready_first(ray, util, gate):
    @ray.remote
    def hold():
        gate.enter()
        return "late"

    @ray.remote
    def quick():
        return "early"

    values = util.as_completed([hold.remote(), quick.remote()], chunk_size=1)
    assert next(values) == "early"
    gate.open()
    assert list(values) == ["late"]


def test_as_completed_yields_refs_when_asked(ray, util, get):
    refs = [ray.put(i) for i in range(3)]
    assert set(util.as_completed(refs, yield_obj_refs=True)) == set(refs)


def test_map_unordered_calls_a_task_for_each_item(ray, util):
    @ray.remote
    def work(i):
        return i * i

    assert sorted(util.map_unordered(work, range(4))) == [0, 1, 4, 9]
