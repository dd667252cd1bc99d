"""Code that is pickled by value keeps its file name, and classes keep their slots, in any version
of cloudpickle.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import pickle
import subprocess
import sys
import traceback
import typing
from types import CodeType

import cloudpickle
import pytest

from phalanx.objects import by_value
from phalanx.objects.serialization import (
    Pickled,
    deregister_serializer,
    dumps_definition,
    dumps_whole,
    register_serializer,
    serialize,
)
from phalanx.runtime.driver import starting

AGAIN = (
    "import pickle, sys; from phalanx.objects import by_value; "
    "sys.stdout.buffer.write(by_value.dumps(pickle.load(sys.stdin.buffer)))"
)


class Registered:
    """A class for which a test registers a serializer."""


@pytest.fixture(params=["as installed", "as 3.1.3"])
def any_cloudpickle(request, monkeypatch):
    """Run the test with the installed cloudpickle. Then run it as with version 3.1.3, which names
    the file of all code `<dynamic-code>`.
    """
    reduce = cloudpickle.Pickler.dispatch_table[CodeType]

    def forget(code):
        make, arguments = reduce(code)
        file = by_value_file_position(arguments, code)
        return make, (*arguments[:file], "<dynamic-code>", *arguments[file + 1 :])

    if request.param == "as 3.1.3":
        monkeypatch.setitem(cloudpickle.Pickler.dispatch_table, CodeType, forget)


def by_value_file_position(arguments, code):
    names = (code.co_filename, "<dynamic-code>")
    return next(i for i, one in enumerate(arguments) if isinstance(one, str) and one in names)


def raiser():
    """Return a function, a method and an inner function, each of which raises."""

    def inner():
        raise KeyError("inner")

    def outer():
        def innermost():
            return inner()

        return [innermost() for _ in range(1)]

    class Has:
        def method(self):
            return outer()

    return Has


def sent_as(how, value):
    if how == "definition":
        return dumps_definition(value, "it")
    if how == "hook":
        return starting._exported(value)
    if how == "failure":
        return dumps_whole(value)
    made = serialize(value)
    return made.data if isinstance(made, Pickled) else made


@pytest.mark.parametrize(
    "how", ["definition", "value", "hook", "failure", "value among registered"]
)
def test_each_frame_names_the_file_of_its_program_and_shows_the_line(any_cloudpickle, how):
    if how == "value among registered":
        register_serializer(Registered, serializer=str, deserializer=str)
    try:
        has = pickle.loads(sent_as(how, raiser()))
    finally:
        deregister_serializer(Registered)
    with pytest.raises(KeyError) as caught:
        has().method()
    frames = traceback.extract_tb(caught.value.__traceback__)[1:]
    assert {frame.filename for frame in frames} == {__file__}
    assert [frame.line for frame in frames if frame.name in ("method", "innermost", "inner")] == [
        "return outer()",
        "return inner()",
        'raise KeyError("inner")',
    ]


def slotted():
    """Return classes that are pickled by value, one for each way of declaring slots."""
    T = typing.TypeVar("T")

    class Plain:
        __slots__ = ("first", "second")

        def __init__(self):
            self.first, self.second = 1, 2

    class OneName:
        __slots__ = "first"  # noqa: PLC0205  (a program may)

        def __init__(self):
            self.first = 1

    class Private:
        __slots__ = ("__first", "second")

        def __init__(self):
            self.__first, self.second = 1, 2

        def first(self):
            return self.__first

    class Documented:
        __slots__ = {"first": "what comes first"}

        def __init__(self):
            self.first = 1

    class Inherits(Plain):
        __slots__ = ("third",)

        def __init__(self):
            super().__init__()
            self.third = 3

    class AddsNone(Plain):
        __slots__ = ()

    class Opens(Plain):
        def __init__(self):
            super().__init__()
            self.anything = 3

    class WithDict:
        __slots__ = ("__dict__", "__weakref__", "first")

        def __init__(self):
            self.first, self.anything = 1, 3

    class Unset:
        __slots__ = ("first", "second")

    class Abstract(abc.ABC):  # noqa: B024
        __slots__ = ("first",)

        def __init__(self):
            self.first = 1

    class Generic(typing.Generic[T]):
        __slots__ = ("first",)

        def __init__(self):
            self.first = 1

    @dataclasses.dataclass(slots=True)
    class Data:
        first: int = 1
        second: list[int] = dataclasses.field(default_factory=list)

    @dataclasses.dataclass(slots=True, frozen=True)
    class Frozen:
        first: int = 1

    class Named(typing.NamedTuple):
        first: int = 1

    named = collections.namedtuple("named", "first", defaults=(1,))
    found = [Plain, OneName, Private, Documented, Inherits, AddsNone, Opens, WithDict, Unset]
    found += [Abstract, Generic, Data, Frozen, Named, named]
    return {cls.__name__: cls for cls in found}


def held(value):
    """Return the contents of an object: each slot, and its `__dict__`."""
    slots = {
        (cls.__name__, name): member.__get__(value)
        for cls in type(value).__mro__
        for name, member in vars(cls).items()
        if type(member).__name__ == "member_descriptor" and hasattr(value, name)
    }
    return (
        slots,
        dict(getattr(value, "__dict__", {})),
        list(value) if type(value) is tuple else None,
    )


@pytest.mark.parametrize("name", slotted())
def test_an_object_with_slots_comes_home_from_another_process(name):
    sent = slotted()[name]()
    answer = subprocess.run(
        [sys.executable, "-c", AGAIN],
        input=by_value.dumps(sent),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    home = pickle.loads(answer)
    assert type(home) is type(sent)
    assert held(home) == held(sent)


@pytest.mark.parametrize("name", ["Plain", "Private", "Inherits", "AddsNone", "Data"])
def test_a_class_with_slots_takes_nothing_else_elsewhere(name):
    elsewhere = subprocess.run(
        [
            sys.executable,
            "-c",
            "import pickle, sys; made = pickle.load(sys.stdin.buffer)(); made.stray = 1",
        ],
        input=by_value.dumps(slotted()[name]),
        stderr=subprocess.PIPE,
        check=False,
    )
    assert f"AttributeError: '{name}' object has no attribute 'stray'" in elsewhere.stderr.decode()


def test_a_class_whose_metaclass_makes_its_own_slots_goes_as_it_did():
    class Makes(type):
        def __new__(cls, name, bases, namespace):
            if "__slots__" in namespace:
                raise TypeError("this metaclass makes the slots")
            return super().__new__(cls, name, bases, {**namespace, "__slots__": ("first",)})

    class Made(metaclass=Makes):
        def __init__(self):
            self.first = 1

    read = subprocess.run(
        [sys.executable, "-c", "import pickle, sys; print(pickle.load(sys.stdin.buffer)().first)"],
        input=by_value.dumps(Made),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert read.stdout == b"1\n"
