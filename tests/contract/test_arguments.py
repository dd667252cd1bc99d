"""Values that travel into a task and back: arguments, references, closures, definitions."""

from __future__ import annotations

from typing import Any

import pytest


def test_keyword_and_default_arguments(ray, get):
    @ray.remote
    def shape(a, b=2, *rest, c=3, **more):
        return a, b, rest, c, more

    assert get(shape.remote(1)) == (1, 2, (), 3, {})
    assert get(shape.remote(1, 5, 6, c=7, d=8)) == (1, 5, (6,), 7, {"d": 8})


def test_wrong_arguments_fail_at_the_call(ray):
    @ray.remote
    def one_argument(a):
        return a

    with pytest.raises(TypeError):
        one_argument.remote()
    with pytest.raises(TypeError):
        one_argument.remote(1, 2)
    with pytest.raises(TypeError):
        one_argument.remote(1, wrong=2)


def test_top_level_refs_are_resolved_before_the_task_starts(ray, get):
    @ray.remote
    def plus(a, *, b):
        return a + b

    assert get(plus.remote(ray.put(1), b=plus.remote(2, b=3))) == 6


def test_refs_inside_containers_stay_refs(ray, get):
    @ray.remote
    def inspect(items):
        ref = items["inner"][0]
        return isinstance(ref, ray.ObjectRef), ray.get(ref)

    assert get(inspect.remote({"inner": [ray.put("kept")]})) == (True, "kept")


def test_one_ref_given_to_many_tasks(ray, get):
    @ray.remote
    def total(numbers, factor):
        return factor * sum(numbers)

    numbers = ray.put(list(range(10)))
    assert get([total.remote(numbers, k) for k in range(5)]) == [0, 45, 90, 135, 180]


def test_closures_and_globals_travel_with_the_function(ray, get):
    offset = 41

    def helper(x):
        return x + offset

    @ray.remote
    def call():
        return helper(1)

    assert get(call.remote()) == 42


def test_a_closure_is_captured_when_the_function_is_first_called(ray, get):
    box = {"value": 1}

    @ray.remote
    def read():
        return box["value"]

    assert get(read.remote()) == 1
    box["value"] = 2
    assert get(read.remote()) == 1


def test_none_true_and_empty_values_come_back_as_they_are(ray, get):
    @ray.remote
    def identity(x):
        return x

    values: list[Any] = [None, True, False, 0, "", b"", [], {}, (), 1.5, float("inf")]
    assert get([identity.remote(v) for v in values]) == values


def test_modules_are_imported_by_name_in_workers(ray, get):
    import fractions

    @ray.remote
    def half():
        return fractions.Fraction(1, 2)

    assert get(half.remote()) == fractions.Fraction(1, 2)


def test_local_classes_travel_by_value(ray, get):
    class Point:
        def __init__(self, x):
            self.x = x

    @ray.remote
    def move(point):
        return type(point)(point.x + 1)

    moved = get(move.remote(Point(1)))
    assert moved.x == 2


def test_an_argument_changed_after_the_call_does_not_reach_the_task(ray, get, gate):
    @ray.remote
    def read(items):
        gate.enter()
        return items

    items = [1]
    ref = read.remote(items)
    items.append(2)
    gate.open()
    assert get(ref) == [1]


def test_an_argument_changed_by_the_task_does_not_reach_the_caller(ray, get):
    @ray.remote
    def change(items):
        items.append(2)
        return items

    items = [1]
    assert get(change.remote(items)) == [1, 2]
    assert items == [1]


def test_large_arguments_and_results_pass_through(ray, get):
    @ray.remote
    def grow(blob):
        return blob + blob

    blob = bytes(range(256)) * 4096
    assert get(grow.remote(blob)) == blob + blob


def test_a_remote_function_can_be_passed_to_a_task(ray, get):
    @ray.remote
    def add(a, b):
        return a + b

    @ray.remote
    def call(function, *args):
        return ray.get(function.remote(*args))

    assert get(call.remote(add, 1, 2)) == 3


def test_a_default_argument_that_is_a_ref_stays_a_ref(ray, get):
    ref = ray.put(9)

    @ray.remote
    def read(x=ref):
        return isinstance(x, ray.ObjectRef), ray.get(x)

    assert get(read.remote()) == (True, 9)


def test_refs_in_sets_keys_and_attributes_stay_refs(ray, get):
    class Box:
        def __init__(self, content):
            self.content = content

    @ray.remote
    def read(in_set, as_key, in_box):
        [one], [two] = in_set, as_key
        return ray.get([one, two, in_box.content])

    assert get(read.remote({ray.put(1)}, {ray.put(2): None}, Box(ray.put(3)))) == [1, 2, 3]


def test_hundreds_of_refs_as_arguments(ray, get):
    @ray.remote
    def total(*numbers):
        return sum(numbers)

    assert get(total.remote(*[ray.put(i) for i in range(300)])) == sum(range(300))
