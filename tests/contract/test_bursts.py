"""Many calls of one function, or of one actor, directly after each other: each is a call of its
own, whatever happens to the others.
"""

from __future__ import annotations

import os
import threading

import pytest


def test_an_argument_that_cannot_be_pickled_spoils_no_other_call(ray, get):
    @ray.remote
    def same(value):
        return value

    refs = []
    for number in range(1000):
        if number == 700:
            with pytest.raises(TypeError):
                same.remote(threading.Lock())
        else:
            refs.append(same.remote(number))
    assert get(refs) == [number for number in range(1000) if number != 700]


def test_an_argument_of_an_actor_that_cannot_be_pickled_spoils_no_other_call(ray, get, counter):
    one = counter.remote()
    refs = []
    for number in range(1000):
        if number == 700:
            with pytest.raises(TypeError):
                one.add.remote(threading.Lock())
        else:
            refs.append(one.add.remote())
    assert get(refs) == list(range(1, 1000))


def test_arguments_are_those_at_the_time_of_the_call(ray, get):
    @ray.remote
    def same(*values, last=None):
        return values, last

    mutable: list[int] = []
    refs = []
    for number in range(300):
        mutable.append(number)
        refs.append(same.remote(number, mutable if number % 3 else "text", last=None))
        refs.append(same.remote(number))
    found = get(refs)
    for number in range(300):
        second = list(range(number + 1)) if number % 3 else "text"
        assert found[2 * number] == ((number, second), None)
        assert found[2 * number + 1] == ((number,), None)


def test_every_kind_of_plain_value_arrives_as_it_was(ray, get):
    @ray.remote
    def same(*values):
        return values

    values = (1, -(1 << 200), 1 << 300, 2.5, True, None, "text", "\ud800", b"bytes", "x" * 5000, 1j)
    calls = [values[at:] for at in range(len(values) + 1)] * 20
    found = get([same.remote(*call) for call in calls])
    assert found == calls
    assert [list(map(type, call)) for call in found] == [list(map(type, call)) for call in calls]


def test_results_of_every_size_come_back_in_order(ray, get):
    @ray.remote
    def text(size):
        return "x" * size

    sizes = [(10, 20_000, 0, 300_000, 3)[number % 5] for number in range(200)]
    assert [len(found) for found in get([text.remote(size) for size in sizes])] == sizes


def test_one_that_fails_fails_alone(ray, get):
    @ray.remote
    def odd(number):
        if number % 100 == 50:
            raise ValueError(number)
        return number

    refs = [odd.remote(number) for number in range(500)]
    for number, ref in enumerate(refs):
        if number % 100 == 50:
            with pytest.raises(ValueError, match=str(number)):
                get(ref)
        else:
            assert get(ref) == number


def test_a_worker_that_dies_in_the_middle_loses_no_call(ray, get, tally):
    @ray.remote(max_retries=2)
    def die_once(number):
        if number % 150 == 75 and not tally.count(f"died{number}"):
            tally.add(f"died{number}")
            os._exit(1)
        return number

    assert get([die_once.remote(number) for number in range(600)]) == list(range(600))
    assert sum(tally.count(f"died{number}") for number in range(75, 600, 150)) == 4


def test_an_actor_that_dies_in_the_middle_runs_each_call(ray, get, tally):
    @ray.remote(max_restarts=1, max_task_retries=1)
    class Fragile:
        def call(self, number):
            if number == 250 and not tally.count("died"):
                tally.add("died")
                os._exit(1)
            return number

    fragile = Fragile.remote()
    assert get([fragile.call.remote(number) for number in range(500)]) == list(range(500))


def test_calls_of_an_actor_that_died_fail_from_the_one_that_ended_it_on(ray, get, errors):
    @ray.remote
    class Fragile:
        def call(self, number):
            if number == 250:
                os._exit(1)
            return number

    fragile = Fragile.remote()
    get(fragile.call.remote(0))
    refs = [fragile.call.remote(number) for number in range(1, 500)]
    ended = 0
    for ref in refs:
        try:
            get(ref)
            ended += 1
        except errors.RayActorError:
            pass
    assert ended <= 249
    with pytest.raises(errors.RayActorError):
        get(refs[249])


def test_calls_of_an_actor_keep_their_order(ray, get, counter):
    @ray.remote
    class Log:
        def __init__(self):
            self.seen = []

        def note(self, number):
            self.seen.append(number)

        def note_list(self, numbers):
            self.seen += numbers

        def all(self):
            return self.seen

    log = Log.remote()
    for number in range(900):
        if number % 7 == 3:
            log.note_list.remote([number])
        elif number % 7 == 5:
            log.note.remote(ray.put(number))
        else:
            log.note.remote(number)
    assert get(log.all.remote()) == list(range(900))


@pytest.mark.parametrize("is_known", [True, False])
def test_one_that_is_cancelled_ends_alone(ray, get, errors, gate, eventually, tally, is_known):
    @ray.remote(num_cpus=4)
    def note(number):
        if number == "first":
            gate.enter()
        tally.add(f"ran{number}")
        return number

    if is_known:  # then many calls are sent to a worker that runs another one
        get([note.remote(1000 + number) for number in range(50)])
    first = note.remote("first")
    refs = [note.remote(number) for number in range(100)]
    eventually(lambda: gate.entered() == 1)
    gone = {0, 1, 40, 41, 42, 99}
    for number in gone:
        ray.cancel(refs[number])
    ray.wait([refs[number] for number in gone], num_returns=len(gone), timeout=120)
    gate.open()
    get(first)
    for number, ref in enumerate(refs):
        if number in gone:
            with pytest.raises(errors.TaskCancelledError):
                get(ref)
        else:
            assert get(ref) == number
    assert [tally.count(f"ran{number}") for number in sorted(gone)] == [0] * len(gone)


def test_a_call_of_an_actor_that_is_cancelled_ends_alone(ray, get, errors, gate, eventually):
    @ray.remote
    class Door:
        def __init__(self):
            self.seen = []

        def enter(self):
            gate.enter()

        def note(self, number):
            self.seen.append(number)
            return number

        def all(self):
            return self.seen

    door = Door.remote()
    door.enter.remote()
    eventually(lambda: gate.entered() == 1)
    refs = [door.note.remote(number) for number in range(100)]
    gone = (30, 31, 99)
    for number in gone:
        ray.cancel(refs[number])
    ray.wait([refs[number] for number in gone], num_returns=len(gone), timeout=120)
    gate.open()
    for number in gone:
        with pytest.raises(errors.TaskCancelledError):
            get(refs[number])
    kept = [number for number in range(100) if number not in gone]
    assert get([refs[number] for number in kept]) == kept
    assert get(door.all.remote()) == kept


def test_each_call_knows_its_own_id(ray, get):
    @ray.remote
    def own_id():
        return ray.get_runtime_context().get_task_id()

    refs = [own_id.remote() for _ in range(300)]
    assert get(refs) == [ref.task_id().hex() for ref in refs]


def test_tasks_submit_bursts_and_wait_for_them(ray, get):
    @ray.remote
    def leaf(number):
        return number

    @ray.remote
    def tree(count):
        return sum(ray.get([leaf.remote(number) for number in range(count)]))

    assert get([tree.remote(200) for _ in range(8)]) == [sum(range(200))] * 8


def test_two_functions_in_turn(ray, get):
    @ray.remote
    def plus(number):
        return number + 1

    @ray.remote
    def minus(number):
        return number - 1

    refs = [(plus if number % 2 else minus).remote(number) for number in range(300)]
    assert get(refs) == [number + 1 if number % 2 else number - 1 for number in range(300)]


def test_several_threads_submit_at_the_same_time(ray, get):
    @ray.remote
    def same(number):
        return number

    found: dict[int, list[int]] = {}

    def submit(base):
        found[base] = get([same.remote(base + number) for number in range(400)])

    threads = [threading.Thread(target=submit, args=[base]) for base in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {base: list(range(base, base + 400)) for base in (0, 1000, 2000)}
