"""Objects: immutability, zero copy, lifetime by references, what can be serialized."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import os
import pickle
import uuid
from typing import Any

import numpy as np
import pytest

LARGE = 1 << 20


def test_an_array_comes_back_equal_and_read_only(ray, get):
    array = get(ray.put(np.arange(LARGE)))
    assert np.array_equal(array, np.arange(LARGE))
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@pytest.mark.with_a_node("each get of a client brings the value over the network")
def test_two_gets_of_an_array_share_its_memory(ray, get):
    ref = ray.put(np.zeros(LARGE))
    assert np.shares_memory(get(ref), get(ref))


def test_the_array_that_was_put_stays_writable_and_apart(ray, get):
    array = np.zeros(LARGE)
    ref = ray.put(array)
    array[0] = 1
    assert get(ref)[0] == 0


def test_a_copy_of_an_array_is_writable(ray, get):
    array = get(ray.put(np.zeros(LARGE))).copy()
    array[0] = 1
    assert array[0] == 1


def test_an_array_argument_is_read_only_in_a_task(ray, get):
    @ray.remote
    def write(array):
        array[0] = 1

    with pytest.raises(ValueError, match="read-only"):
        get(write.remote(ray.put(np.zeros(LARGE))))


def test_an_array_returned_by_a_task_is_read_only(ray, get):
    @ray.remote
    def make():
        return np.ones(LARGE)

    array = get(make.remote())
    assert array.sum() == LARGE
    assert not array.flags.writeable


def test_a_small_array_is_read_only_too(ray, get):
    assert not get(ray.put(np.zeros(10))).flags.writeable
    assert not get(ray.put(np.zeros(1000))).flags.writeable


@pytest.mark.parametrize("size", [1000, 6000, LARGE])
def test_arrays_lie_at_a_line_of_the_cache(ray, get, size):
    @ray.remote
    def address(array):
        return int(array.ctypes.data)

    array = np.arange(size)
    refs = [ray.put(array) for _ in range(5)]
    assert [get(ref).ctypes.data % 64 for ref in refs] == [0] * 5
    assert np.array_equal(get(refs[0]), array)
    assert get(address.remote(array)) % 64 == 0


def test_arrays_inside_containers_are_read_only(ray, get):
    value = get(ray.put({"a": [np.zeros(LARGE)], "b": (np.ones(3),)}))
    assert not value["a"][0].flags.writeable
    assert np.array_equal(value["b"][0], np.ones(3))


def test_an_array_outlives_its_ref(ray, get):
    ref = ray.put(np.arange(LARGE))
    array = get(ref)
    del ref
    others = [ray.put(np.zeros(LARGE)) for _ in range(4)]
    assert array[-1] == LARGE - 1
    del others


ARRAYS = {
    "empty": np.zeros(0),
    "scalar": np.array(5),
    "fortran": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "strided": np.arange(20)[::2],
    "complex": np.array([1 + 2j]),
    "bool": np.array([True, False]),
    "text": np.array(["a", "bcd"]),
    "bytes": np.array([b"a", b"bcd"]),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "objects": np.array([1, "a", None], dtype=object),
    "records": np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    "half": np.arange(4, dtype=np.float16),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_every_kind_of_array(ray, get, kind):
    array = ARRAYS[kind]
    again = get(ray.put(array))
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert np.array_equal(again, array)


def test_large_bytes_come_back_equal(ray, get):
    blob = bytes(range(256)) * 8192
    assert get(ray.put(blob)) == blob


def test_identity_within_one_object_is_kept(ray, get):
    inner = [1]
    first, second = get(ray.put((inner, inner)))
    assert first is second


def test_a_recursive_structure(ray, get):
    loop: list[Any] = [1]
    loop.append(loop)
    again = get(ray.put(loop))
    assert again[1] is again


VALUES = {
    "big number": 1 << 500,
    "decimal": decimal.Decimal("1.10"),
    "date": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "uuid": uuid.UUID(int=5),
    "set": {1, 2},
    "frozenset": frozenset({1}),
    "range": range(5),
    "slice": slice(1, 2),
    "deque": collections.deque([1, 2], maxlen=5),
    "counter": collections.Counter("aab"),
    "ordered": collections.OrderedDict(b=1, a=2),
    "unicode": "naïve ☃ 雪",
    "surrogate": "\ud800",
    "ellipsis": ...,
    "builtin": len,
    "type": int,
    "nested": {"a": [{"b": ({1}, [None])}]},
}


@pytest.mark.parametrize("kind", VALUES)
def test_every_kind_of_value(ray, get, kind):
    again = get(ray.put(VALUES[kind]))
    assert again == VALUES[kind]
    assert type(again) is type(VALUES[kind])


def test_local_dataclasses_enums_and_named_tuples(ray, get):
    @dataclasses.dataclass
    class Point:
        x: int

    class Colour(enum.Enum):
        RED = 1

    Pair = collections.namedtuple("Pair", "a b")

    @ray.remote
    def read(point, colour, pair):
        return point.x, colour.name, pair.b

    assert get(read.remote(Point(1), Colour.RED, Pair(1, 2))) == (1, "RED", 2)


def test_functions_and_closures_are_values(ray, get):
    factor = 3
    assert get(ray.put(lambda x: x * factor))(2) == 6


def test_a_users_reduce_is_respected(ray, get):
    class Doubled:
        def __init__(self, value):
            self.value = value

        def __reduce__(self):
            return type(self), (self.value * 2,)

    assert get(ray.put(Doubled(2))).value == 4


def test_a_registered_serializer_is_used(ray, get, part):
    import threading

    class Guarded:
        def __init__(self, value):
            self.value = value
            self.lock = threading.Lock()

    util = part("util")
    util.register_serializer(
        Guarded, serializer=lambda g: g.value, deserializer=lambda value: Guarded(value)
    )
    try:
        assert get(ray.put(Guarded(7))).value == 7
    finally:
        util.deregister_serializer(Guarded)
    with pytest.raises(TypeError):
        ray.put(Guarded(7))


def test_a_generator_cannot_be_put(ray):
    with pytest.raises(TypeError):
        ray.put(i for i in range(3))


def test_inspect_serializability_names_the_culprit(ray, part, capsys):
    import threading

    lock = threading.Lock()

    def use():
        return lock

    inspect = part("util").inspect_serializability
    good, none = inspect(1)
    assert good is True
    assert none == set()
    bad, culprits = inspect(use, name="use")
    assert bad is False
    assert [culprit.obj for culprit in culprits] == [lock]


def test_an_inner_ref_keeps_its_object_alive(ray, get):
    inner = ray.put(np.arange(LARGE))
    outer = ray.put([inner])
    del inner
    assert get(get(outer)[0])[-1] == LARGE - 1


def test_a_pending_task_keeps_its_arguments_alive(ray, get, gate):
    @ray.remote
    def read(array, refs):
        gate.enter()
        return array[-1], ray.get(refs[0])[-1]

    ref = read.remote(ray.put(np.arange(LARGE)), [ray.put(np.arange(LARGE))])
    gate.open()
    assert get(ref) == (LARGE - 1, LARGE - 1)


def test_a_ref_kept_by_an_actor_keeps_its_object_alive(ray, get):
    @ray.remote
    class Keeper:
        def keep(self, refs):
            self.refs = refs

        def read(self):
            return ray.get(self.refs[0])

    keeper = Keeper.remote()
    ref = ray.put("kept")
    get(keeper.keep.remote([ref]))
    del ref
    assert get(keeper.read.remote()) == "kept"


def test_a_ref_returned_through_two_owners(ray, get):
    @ray.remote
    def inner():
        return [ray.put("deep")]

    @ray.remote
    def outer():
        return ray.get(inner.remote())

    assert get(get(outer.remote())[0]) == "deep"


def test_a_ref_captured_by_a_closure(ray, get):
    ref = ray.put("captured")

    @ray.remote
    def read():
        return ray.get(ref)

    assert get(read.remote()) == "captured"


def test_a_pending_object_dies_with_its_owner(ray, get, gate, errors, ends):
    @ray.remote
    def late():
        gate.enter()

    @ray.remote
    class Owner:
        def submit(self):
            return [late.remote()], os.getpid()

    owner = Owner.remote()
    [ref], pid = get(owner.submit.remote())
    ray.kill(owner)
    ends(pid)
    gate.open()
    with pytest.raises(errors.OwnerDiedError):
        get(ref)


def test_a_ref_can_be_pickled_outside(ray, get):
    ref = ray.put("outside")
    again = pickle.loads(pickle.dumps(ref))
    assert again == ref
    assert get(again) == "outside"


def test_many_small_objects(ray, get):
    refs = [ray.put(i) for i in range(1000)]
    assert get(refs) == list(range(1000))


def test_frozen_views_of_large_text(ray, get):
    text = "é" * 500_000
    assert get(ray.put(text)) == text


def test_more_objects_than_the_store_holds_stay_readable(fresh, get):
    fresh.init(num_cpus=2, object_store_memory=100 * LARGE, include_dashboard=False)

    @fresh.remote
    def first(array):
        return int(array[0])

    refs = [fresh.put(np.full(10 * LARGE, i, dtype=np.uint8)) for i in range(25)]
    assert [int(get(ref)[-1]) for ref in refs] == list(range(25))
    assert get([first.remote(ref) for ref in refs]) == list(range(25))


def test_more_results_than_the_store_holds_stay_readable(fresh, get):
    fresh.init(num_cpus=2, object_store_memory=100 * LARGE, include_dashboard=False)

    @fresh.remote
    def make(i):
        return np.full(10 * LARGE, i, dtype=np.uint8)

    refs = [make.remote(i) for i in range(25)]
    assert [int(get(ref)[-1]) for ref in refs] == list(range(25))


def test_values_held_by_the_driver_survive_a_full_store(fresh, get):
    fresh.init(num_cpus=2, object_store_memory=100 * LARGE, include_dashboard=False)
    refs = [fresh.put(np.full(10 * LARGE, i, dtype=np.uint8)) for i in range(4)]
    held = get(refs)
    others = [fresh.put(np.full(10 * LARGE, 99, dtype=np.uint8)) for _ in range(20)]
    assert [int(array[0]) for array in held] == [0, 1, 2, 3]
    assert {int(get(ref)[0]) for ref in others} == {99}


def test_one_object_may_be_larger_than_the_store(fresh, get):
    fresh.init(num_cpus=2, object_store_memory=100 * LARGE, include_dashboard=False)

    @fresh.remote
    def make():
        return np.ones(150 * LARGE, dtype=np.uint8)

    assert get(fresh.put(np.ones(150 * LARGE, dtype=np.uint8)))[-1] == 1
    assert get(make.remote())[-1] == 1


def test_dropped_objects_make_room(fresh, get):
    fresh.init(num_cpus=2, object_store_memory=100 * LARGE, include_dashboard=False)
    for i in range(40):
        assert get(fresh.put(np.full(20 * LARGE, i, dtype=np.uint8)))[0] == i


def test_a_ref_cannot_be_iterated_or_ordered(ray):
    ref = ray.put([1])
    for wrong in (iter, len, int):
        with pytest.raises(TypeError):
            wrong(ref)
    with pytest.raises(TypeError):
        sorted([ref, ray.put(2)])
    assert bool(ref)


def test_copies_of_a_ref_are_the_same_ref(ray, get):
    import copy

    ref = ray.put("x")
    assert copy.copy(ref) == ref
    [again] = copy.deepcopy([ref])
    assert again == ref
    assert get(again) == "x"
