"""`get`, `put` and `wait`: what they accept, return and refuse."""

from __future__ import annotations

import pytest


def test_get_of_one_ref(ray):
    assert ray.get(ray.put("x"), timeout=120) == "x"


def test_get_of_a_list_keeps_its_order(ray):
    refs = [ray.put(i) for i in range(10)]
    assert ray.get(refs[::-1], timeout=120) == list(range(10))[::-1]


def test_get_of_an_empty_list(ray):
    assert ray.get([]) == []


def test_get_of_the_same_ref_twice(ray):
    ref = ray.put("x")
    assert ray.get([ref, ref], timeout=120) == ["x", "x"]


@pytest.mark.parametrize("wrong", [1, "ref", None, {"a": 1}, 1.5], ids=repr)
def test_get_of_something_else_is_refused(ray, wrong):
    with pytest.raises(ValueError):
        ray.get(wrong)


def test_get_of_a_tuple_is_refused(ray):
    with pytest.raises(ValueError):
        ray.get((ray.put(1),))


def test_get_of_a_list_with_something_else_is_refused(ray):
    with pytest.raises(TypeError):
        ray.get([ray.put(1), 2])


def test_get_times_out(ray, gate, errors):
    @ray.remote
    def hold():
        gate.enter()

    ref = hold.remote()
    with pytest.raises(errors.GetTimeoutError):
        ray.get(ref, timeout=0.05)
    with pytest.raises(TimeoutError):
        ray.get([ref], timeout=0.05)


def test_get_with_timeout_zero_only_looks(ray, gate, get, errors):
    @ray.remote
    def hold():
        gate.enter()
        return 1

    ref = hold.remote()
    with pytest.raises(errors.GetTimeoutError):
        ray.get(ref, timeout=0)
    gate.open()
    assert get(ref) == 1
    assert ray.get(ref, timeout=0) == 1


def test_a_timed_out_get_can_be_repeated(ray, gate, get, errors):
    @ray.remote
    def hold():
        gate.enter()
        return "late"

    ref = hold.remote()
    with pytest.raises(errors.GetTimeoutError):
        ray.get(ref, timeout=0.01)
    gate.open()
    assert get(ref) == "late"


def test_get_of_a_list_raises_the_first_failure(ray, get):
    @ray.remote
    def fail(kind):
        raise kind("failed")

    refs = [ray.put(1), fail.remote(KeyError), fail.remote(ValueError)]
    ray.wait(refs, num_returns=3, timeout=120)
    with pytest.raises(KeyError):
        get(refs)


def test_put_gives_a_ref_to_an_equal_value(ray, get):
    value = {"a": [1, 2.5, "x", None], "b": (True, b"bytes")}
    assert get(ray.put(value)) == value


def test_put_takes_a_snapshot(ray, get):
    items = [1]
    ref = ray.put(items)
    items.append(2)
    assert get(ref) == [1]


def test_each_get_of_a_mutable_value_is_a_new_copy(ray, get):
    ref = ray.put([1])
    get(ref).append(2)
    assert get(ref) == [1]


def test_put_of_a_ref_is_refused(ray):
    with pytest.raises(TypeError):
        ray.put(ray.put(1))


def test_put_of_a_list_of_refs_keeps_the_refs(ray, get):
    inner = ray.put("inner")
    outer = get(ray.put([inner]))
    assert outer == [inner]
    assert get(outer[0]) == "inner"


def test_two_puts_of_one_value_are_two_objects(ray):
    assert ray.put("same") != ray.put("same")


def test_wait_returns_one_by_default(ray, gate):
    @ray.remote
    def hold():
        gate.enter()

    done, late = ray.put(1), hold.remote()
    ready, pending = ray.wait([late, done], timeout=120)
    assert (ready, pending) == ([done], [late])


def test_wait_returns_at_most_num_returns_even_if_more_are_ready(ray):
    refs = [ray.put(i) for i in range(4)]
    ready, pending = ray.wait(refs, num_returns=2, timeout=120)
    assert len(ready) == 2
    assert len(pending) == 2


def test_wait_keeps_the_order_of_its_input(ray):
    refs = [ray.put(i) for i in range(6)]
    ready, pending = ray.wait(refs, num_returns=4, timeout=120)
    assert ready == [r for r in refs if r in ready]
    assert pending == [r for r in refs if r in pending]
    assert set(ready) | set(pending) == set(refs)


def test_wait_for_all(ray):
    @ray.remote
    def work(i):
        return i

    refs = [work.remote(i) for i in range(8)]
    assert ray.wait(refs, num_returns=8, timeout=120) == (refs, [])


def test_wait_that_times_out_returns_what_is_ready(ray, gate):
    @ray.remote
    def hold():
        gate.enter()

    done, late = ray.put(1), hold.remote()
    assert ray.wait([done, late], num_returns=2, timeout=0.1) == ([done], [late])


def test_wait_with_timeout_zero_returns_at_once(ray, gate):
    @ray.remote
    def hold():
        gate.enter()

    late = hold.remote()
    assert ray.wait([late], timeout=0) == ([], [late])


def test_wait_does_not_raise_a_failed_task(ray):
    @ray.remote
    def fail():
        raise ValueError("failed")

    ref = fail.remote()
    assert ray.wait([ref], timeout=120) == ([ref], [])


def test_wait_of_nothing(ray):
    assert ray.wait([]) == ([], [])


def test_wait_takes_fetch_local(ray):
    ref = ray.put(1)
    assert ray.wait([ref], fetch_local=False, timeout=120) == ([ref], [])


def test_wait_of_a_single_ref_is_refused(ray):
    with pytest.raises(TypeError):
        ray.wait(ray.put(1))


def test_wait_of_other_things_is_refused(ray):
    with pytest.raises(TypeError):
        ray.wait([1])
    with pytest.raises(TypeError):
        ray.wait("refs")


def test_wait_of_a_duplicate_is_refused(ray):
    ref = ray.put(1)
    with pytest.raises(ValueError):
        ray.wait([ref, ref], num_returns=2)


@pytest.mark.parametrize("num_returns", [0, -1, 3])
def test_wait_for_an_impossible_number_is_refused(ray, num_returns):
    with pytest.raises(ValueError):
        ray.wait([ray.put(1), ray.put(2)], num_returns=num_returns)


def test_wait_with_a_negative_timeout_is_refused(ray):
    with pytest.raises(ValueError):
        ray.wait([ray.put(1)], timeout=-1)


def test_wait_num_returns_must_be_a_whole_number(ray):
    with pytest.raises(TypeError):
        ray.wait([ray.put(1)], num_returns="1")


def test_wait_inside_a_task(ray, get):
    @ray.remote
    def leaf(i):
        return i

    @ray.remote
    def gather():
        ready, pending = ray.wait([leaf.remote(i) for i in range(3)], num_returns=3)
        return sorted(ray.get(ready)), pending

    assert get(gather.remote()) == ([0, 1, 2], [])


def test_pop_ready_refs_until_none_remain(ray, get):
    @ray.remote
    def work(i):
        return i

    pending, seen = [work.remote(i) for i in range(20)], []
    while pending:
        ready, pending = ray.wait(pending, timeout=120)
        seen += get(ready)
    assert sorted(seen) == list(range(20))


def test_a_failure_that_is_there_is_not_held_back_by_what_hangs(ray, get, gate):
    @ray.remote
    def fail():
        raise KeyError("gone")

    failed = fail.remote()
    ray.wait([failed])

    @ray.remote
    def hang():
        gate.enter()

    with pytest.raises(KeyError):
        get([hang.remote(), failed])
