"""Draws random values of a type from its annotation, as a malicious peer could send them.

One `Maker` serves all requests, messages and manifests, so that a new field is tried without a
change here. `known` lists existing names and ids that a field with this name and type may refer to;
other values are drawn by type. Values are drawn from a seed and not by hypothesis, which takes ten
times as long for structs of this size.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

HOSTILE_TEXTS = [
    "", ".", "..", "../../etc/passwd", "/", "a/b", "a//b", "default/", "/default", "~", "-rf", "--",
    "a b", " ", "\t", "a\nb", "a\r\nb", "\0", "a\0b", "\x1b[2J\x1b[31mred", "\x1b]0;title\x07",
    "\x9b2J", "\u202egnp.exe", "\u200b", "\ufeff", "é", "e\u0301", "名前", "\U0001f4a5", "\ud7ff",
    "%s%n", "{0.__class__}", "$(touch x)", "`id`", "; rm -rf *", "'", '"', "|", "*", "[", "(a+)+$",
    "\\", "None", "null", "true", "0", "-1", "1e999", "nan", "١", "A" * 64, "a" * 254, "x" * 5000,
    "a." * 200, "default", "root", "\x7f", "\0files", "a=b", "a,b", "#", "&a", "*a", "!!python/x",
    "m" * (1 << 20),
]  # fmt: skip
"""Texts that have a special meaning for a file system, a shell, a terminal, a pattern or a
parser.
"""
INTEGERS = [
    0, 0, 1, 1, 2, 3, 5, -1, -2, 7, 100, 65_535, 65_536, 100_000, 100_001, 2**31 - 1, 2**31, 2**53,
    2**63 - 1, -(2**63),
]  # fmt: skip
FLOATS = [
    0.0, 1.0, 2.0, 0.5, 1.5, -1.0, 1e-9, 0.0001, 0.00001, 3.0, 1e6, 1e18, 1e300, -0.0, 5e-324,
    float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
BYTES = [b"", b"g", bytes(16), bytes(18), b"\x01" * 18, b"\xff" * 24, b"../x", b"\x81\xa1a\xc0"]
RESOURCES = ["CPU", "CPU", "GPU", "memory", "cpu", "nvidia.com/gpu", "object_store_memory", "x"]
_MANY = 3
"""The most elements of a drawn list."""
_DEPTH = 6
"""The depth of nesting from which optional fields of structs keep their defaults."""

Known = Mapping[tuple[str, Any], Sequence[Any]]
"""The existing names or ids that a field of this name and type may refer to."""


class Maker:
    """Draws values from one random generator."""

    def __init__(
        self,
        rng: random.Random,
        known: Known | None = None,
        special: Mapping[Any, Callable[[Maker], Any]] | None = None,
    ) -> None:
        """`special`: functions that make values of types whose fields do not describe them fully.

        The probability of wild values (see `is_wild`) is drawn for each maker. Where wild values
        are frequent, a request is refused early, and little of the code behind the checks is
        tested.
        """
        self.rng = rng
        self._wild = rng.choice([0.01, 0.03, 0.1, 0.4])
        self._known = known or {}
        self._special = special or {}
        self._depth = 0

    def value(self, kind: Any, name: str = "") -> Any:
        """Return a value of this type. `name` is the name of the field that gets the value."""
        while isinstance(kind, NewType):  # at run time an id is what it is made of
            kind = kind.__supertype__
        meant = self._known.get((name, kind))
        if meant is not None and not self.is_wild():
            return self.rng.choice(meant)
        if kind in self._special:
            return self._special[kind](self)
        plain = _PLAIN.get(kind)
        return plain(self) if plain is not None else self._composed(kind, name)

    def _composed(self, kind: Any, name: str) -> Any:
        origin, inside = get_origin(kind), get_args(kind)
        if kind is Any or isinstance(kind, TypeVar):
            return self.document()
        if origin is Literal:
            return self.rng.choice(inside)
        if origin in (Union, types.UnionType):
            return self.value(self.rng.choice(inside), name)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(kind)
        if isinstance(kind, type) and hasattr(kind, "__annotations__"):  # NamedTuple, dataclass
            return kind(*(self.value(one, at) for at, one in get_type_hints(kind).items()))
        if origin is dict or origin is Mapping:
            return {self.value(inside[0]): self.value(inside[1]) for _ in self._few()}
        if origin is tuple and inside[-1:] != (Ellipsis,):
            return tuple(self.value(one) for one in inside)
        if origin is tuple:
            return tuple(self.value(inside[0], name) for _ in self._few())
        if origin is list:
            return [self.value(inside[0], name) for _ in self._few()]
        raise TypeError(f"nothing here makes a {kind}: teach {__name__}")

    def is_wild(self) -> bool:
        """Whether the next value is to be one that nobody would send on purpose."""
        return self.rng.random() < self._wild

    def struct(self, kind: type[msgspec.Struct], sane: float = 0.6) -> Any:
        """Return a struct. `sane` is the probability that a field with a default keeps the
        default.
        """
        self._depth += 1
        fields = {}
        for field in msgspec.structs.fields(kind):
            if field.required or (self._depth < _DEPTH and self.rng.random() > sane):
                fields[field.name] = self.value(field.type, field.name)
        self._depth -= 1
        try:
            return kind(**fields)
        except ValueError:  # what no decoder would make either
            return self.struct(kind, sane)

    def _few(self) -> range:
        return range(0 if self._depth > _DEPTH else self.rng.randint(0, _MANY))

    def text(self) -> str:
        """Return a text that a frame can carry, at times a hostile one."""
        rng = self.rng
        if not self.is_wild():
            return rng.choice("abcdq")
        if rng.random() < 0.3:
            return rng.choice("abcdq") + "".join(rng.choices("abc-0.", k=rng.randint(0, 4)))
        if rng.random() < 0.7:
            return rng.choice(HOSTILE_TEXTS)
        codes = (rng.randrange(0xD7FF) for _ in range(rng.randint(0, 8)))
        return "".join(map(chr, codes))

    def document(self, depth: int = 0) -> Any:
        """Return a value that JSON or YAML can express."""
        kind = self.rng.randrange(8 if depth < 3 else 6)
        if kind < 6:
            return (None, True, self.value(int), self.value(float), self.text(), "x")[kind]
        several = [self.document(depth + 1) for _ in self._few()]
        return several if kind == 6 else {self.text(): one for one in several}

    def amounts(self) -> dict[str, float]:
        """Return amounts by the names of resources."""
        rng, found = self.rng, {}
        for _ in range(rng.randint(0, 2)):
            name = self.text() if self.is_wild() else rng.choice(RESOURCES)
            found[name] = self.number()
        return found

    def pairs(self) -> tuple[tuple[str, float], ...]:
        """Return drawn amounts as structs hold them: pairs of a name and an amount."""
        return tuple(sorted(self.amounts().items()))

    def integer(self) -> int:
        """Return an integer that fits into 64 bits, as msgpack requires."""
        rng = self.rng
        if not self.is_wild():
            return rng.choice([0, 1, 1, 2, 3])
        return rng.choice(INTEGERS) if rng.random() < 0.9 else rng.randrange(-(2**63), 2**63)

    def number(self) -> float:
        """Return a float of any size, or NaN or infinity."""
        return self.rng.choice(FLOATS if self.is_wild() else [0.0, 0.5, 1.0, 1.0, 2.0])


_PLAIN: dict[Any, Callable[[Maker], Any]] = {
    str: Maker.text,
    bytes: lambda maker: maker.rng.choice(BYTES),
    int: Maker.integer,
    float: Maker.number,
    bool: lambda maker: maker.rng.random() < 0.5,
    type(None): lambda maker: None,
    msgspec.Raw: lambda maker: msgspec.Raw(msgspec.msgpack.encode(maker.document())),
    dict[str, float]: Maker.amounts,
    tuple[tuple[str, float], ...]: Maker.pairs,
}
