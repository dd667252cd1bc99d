"""Values and exceptions as bytes: pickled by reference or by value, with references kept separate.
An error names the path of the part that cannot be pickled.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx import errors
from phalanx.objects import failures
from phalanx.objects.reference import make_ref
from phalanx.objects.serialization import (
    Pickled,
    blame,
    deregister_serializer,
    deserialize,
    register_serializer,
    serialize,
)

LOCK = threading.Lock()
SIMPLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


class Importable:
    """A class that is pickled by its name."""


class Holder:
    def __init__(self, held):
        self.held = held


def copy_of(value):
    """Serialize a value and return what is read back. Its arrays are not kept in separate
    buffers.
    """
    data = serialize(value)
    assert isinstance(data, bytes)
    return deserialize(data)


@given(SIMPLE)
def test_plain_values_are_plain_bytes_and_come_back(value):
    data = serialize(value)
    assert type(data) is bytes
    assert deserialize(data) == value


def test_arrays_travel_beside_the_pickle_and_share_its_memory():
    array = numpy.arange(1000)
    pickled = serialize({"a": array, "b": [array[:10].copy()]})
    assert isinstance(pickled, Pickled)
    assert len(pickled.buffers) == 2
    assert len(pickled.data) < 500
    found = deserialize(pickled.data, pickled.buffers)
    assert numpy.shares_memory(found["a"], array)


def test_what_can_be_imported_travels_by_name():
    data = serialize(Importable)
    assert isinstance(data, bytes)
    assert len(data) < 100
    assert deserialize(data) is Importable


def test_what_cannot_be_imported_travels_by_value():
    def local(number):
        return number + 1

    class Local:
        value = 7

    assert copy_of(local)(1) == 2
    assert copy_of(Local()).value == 7
    assert copy_of(Local).value == 7


def test_what_stands_in_main_travels_by_value():
    program = (
        "import pickle\n"
        "from phalanx.objects.serialization import serialize\n"
        "class Mine:\n    value = 7\n"
        "data = serialize([Mine()])\n"
        "print((data if type(data) is bytes else data.data).hex())\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    (found,) = pickle.loads(bytes.fromhex(out.decode()))
    assert found.value == 7


def test_references_are_put_aside_in_order_and_replaced():
    refs = [make_ref(b"o" * 16, n) for n in (5, 6)]
    mine = [make_ref(b"o" * 16, n) for n in (5, 6)]
    pickled = serialize({"first": refs[0], "both": [refs[1], refs[0]]})
    assert isinstance(pickled, Pickled)
    assert [r._number for r in pickled.refs][:2] == [5, 6]
    order = [mine[r._number - 5] for r in pickled.refs]
    found = deserialize(pickled.data, pickled.buffers, order)
    assert found["first"] is mine[0]
    assert found["both"] == [mine[1], mine[0]]


def test_a_failed_try_leaves_no_reference_behind():
    ref = make_ref(b"o" * 16, 5)
    pickled = serialize([ref, lambda: 1])
    assert isinstance(pickled, Pickled)
    assert len(pickled.refs) == 1
    with pytest.raises(TypeError):
        serialize([ref, LOCK])
    assert type(serialize([1])) is bytes


def test_registered_serializers_go_first():
    register_serializer(Holder, serializer=lambda h: h.held, deserializer=lambda v: ("made", v))
    try:
        assert copy_of([Holder(3)]) == [("made", 3)]
    finally:
        deregister_serializer(Holder)
    assert copy_of(Holder(3)).held == 3


def closure():
    held = LOCK
    return lambda: held


BLAMED = {
    "itself": (LOCK, "it is a _thread.lock"),
    "a key": ({"model": {"lock": LOCK}}, "at ['model']['lock'] is a _thread.lock"),
    "a place": ([1, (2, LOCK)], "at [1][1] is"),
    "an attribute": (Holder(Holder([LOCK])), "at .held.held[0] is"),
    "a closure": (closure(), "at .<closure held> is"),
}


@pytest.mark.parametrize("name", BLAMED)
def test_blame_names_the_piece(name):
    value, words = BLAMED[name]
    assert words in blame(value, TypeError("no"))


def test_blame_survives_what_has_no_repr():
    class Silent:
        def __repr__(self):
            raise RuntimeError

        def __reduce__(self):
            raise TypeError("never")

    assert "<no repr>" in blame(Silent(), TypeError("no"))


# ---- exceptions ------------------------------------------------------------------------------


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


class Plain(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Unpicklable(Exception):
    def __init__(self):
        super().__init__("held")
        self.lock = LOCK


def travel(error):
    return failures.load(failures.describe(error, "f", 42))


def test_an_exception_is_also_of_its_own_class():
    found = travel(raised(KeyError("k")))
    assert isinstance(found, KeyError)
    assert isinstance(found, errors.TaskError)
    assert "f() (pid=42" in str(found)
    assert "KeyError: 'k'" in str(found)


def test_an_exception_that_cannot_rebuild_itself_keeps_its_text():
    found = travel(raised(Plain(7, "seven")))
    assert isinstance(found, errors.TaskError)
    assert "7: seven" in str(found)


def test_an_exception_that_cannot_travel_keeps_its_text():
    found = travel(raised(Unpicklable()))
    assert type(found) is errors.TaskError
    assert "held" in str(found)


def test_an_exception_without_text_is_told_by_its_class():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    assert "Broken" in str(travel(raised(Broken())))


def test_a_failed_dependency_shows_the_first_failure():
    first = travel(raised(ValueError("first")))
    found = failures.load(failures.describe(raised(first), "g", 43))
    assert isinstance(found, ValueError)
    assert "f() (pid=42" in str(found)
    assert str(found).count("ValueError: first") == 1


def test_errors_of_ours_travel_as_they_are():
    error = errors.ObjectLostError("ab", "it is lost")
    found = failures.load(failures.pack(error))
    assert type(found) is errors.ObjectLostError
    assert str(found) == str(error)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_large_bytes_are_a_buffer_and_bytes_again_where_they_are_read(kind):
    """The bytes contain the text `__main__`, but must not count as a class of the program."""
    value = kind(b"__main__" + bytes(1 << 16))
    packed = serialize(value)
    assert isinstance(packed, Pickled)
    assert len(packed.data) < 200
    assert [buffer.raw().nbytes for buffer in packed.buffers] == [len(value)]
    again = deserialize(packed.data, [bytes(buffer.raw()) for buffer in packed.buffers])
    assert type(again) is kind
    assert again == value
    assert not isinstance(serialize(kind(b"x" * ((1 << 16) - 1))), Pickled)
