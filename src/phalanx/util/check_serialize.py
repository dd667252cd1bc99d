"""Finds the pieces because of which an object cannot be pickled and sent to a worker."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any, TextIO

from phalanx.objects import by_value

DEPTH = 8
TEXT_LIMIT = 80


class FailureTuple:
    """A piece that cannot be pickled.

    `obj` is the piece, `path` the names that lead to it from the inspected object, and `parent` the
    object that holds it (None for the inspected object itself).
    """

    def __init__(self, obj: Any, path: tuple[str, ...], parent: Any) -> None:
        self.obj = obj
        self.path = path
        self.parent = parent

    @property
    def name(self) -> str:
        """The last step of the path."""
        return self.path[-1] if self.path else ""

    def __repr__(self) -> str:
        return f"FailTuple({_joined(self.path)} [obj={_short(self.obj)}])"


def inspect_serializability(
    base_obj: Any,
    name: str | None = None,
    depth: int = DEPTH,
    print_file: TextIO | None = None,
) -> tuple[bool, set[FailureTuple]]:
    """Return whether `base_obj` can be pickled, and the pieces that cannot.

    Prints the tree of the inspected pieces to `print_file` (default: standard output). Examines
    closures, the globals that a function uses, defaults, attributes and containers, down to `depth`
    levels.

    Example:
        lock = threading.Lock()
        is_fine, failures = inspect_serializability(lambda: lock, name="task")
        assert not is_fine
    """
    root = name or getattr(base_obj, "__qualname__", None) or type(base_obj).__name__
    search = _Search(print_file)
    search.visit(base_obj, (root,), None, depth)
    for failure in search.failures:
        print(f"{_joined(failure.path)} was found to be non-serializable.", file=print_file)
    return not search.failures, set(search.failures)


class _Search:
    """The search for the pieces that are the cause. It follows every branch that cannot be pickled
    down to a piece whose own parts can all be pickled.
    """

    def __init__(self, print_file: TextIO | None) -> None:
        self.failures: list[FailureTuple] = []
        self._print_file = print_file
        self._seen: set[int] = set()

    def visit(self, obj: Any, path: tuple[str, ...], parent: Any, depth: int) -> bool:
        """Return whether `obj` can be pickled. If not, add the pieces that are the cause to
        `failures`.
        """
        error = _error_of(obj)
        if error is None:
            return True
        self._say(path, f"{_short(obj)} cannot be pickled")
        if id(obj) in self._seen:
            return False
        self._seen.add(id(obj))
        fine = True
        if depth > 0:
            for step, piece in _pieces(obj):
                fine &= self.visit(piece, (*path, step), obj, depth - 1)
        if fine:
            self.failures.append(FailureTuple(obj, path, parent))
            self._say(path, f"this is the cause: {error}", arrow=True)
        return False

    def _say(self, path: tuple[str, ...], text: str, *, arrow: bool = False) -> None:
        indent = "    " * (len(path) - 1)
        line = f"{indent}└── {text}" if arrow else f"{indent}{path[-1]}: {text}"
        print(line, file=self._print_file)


def _error_of(obj: Any) -> str | None:
    try:
        by_value.dumps(obj)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _pieces(obj: Any) -> Iterator[tuple[str, Any]]:
    """Yield the pieces that are pickled with `obj`, each with the step of the path to it."""
    if isinstance(obj, types.FunctionType):
        yield from _pieces_of_function(obj)
    elif isinstance(obj, types.MethodType):
        yield "__self__", obj.__self__
        yield "__func__", obj.__func__
    elif isinstance(obj, dict):
        for key, value in obj.items():
            yield f"[{_short(key)}]", value
    elif isinstance(obj, (list, tuple, set, frozenset)):
        for place, value in enumerate(obj):
            yield f"[{place}]", value
    elif isinstance(obj, type):
        for key, value in vars(obj).items():
            if not _is_machinery(key):
                yield key, getattr(value, "__func__", value)
    else:
        yield from _attributes(obj)


def _pieces_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    try:
        variables = inspect.getclosurevars(function)
    except ValueError:  # a closure whose variable has no value yet
        return
    for names in (variables.nonlocals, variables.globals):
        yield from names.items()
    for place, value in enumerate(function.__defaults__ or ()):
        yield f"default[{place}]", value
    yield from (function.__kwdefaults__ or {}).items()


def _attributes(obj: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(obj, "__dict__", {}).items()
    for kind in type(obj).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if not _is_machinery(slot) and hasattr(obj, slot):
                yield slot, getattr(obj, slot)
    if type(obj).__module__ != "builtins" and isinstance(type(obj), type):
        yield "class", type(obj)


def _is_machinery(name: str) -> bool:
    return name in ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__")


def _joined(path: tuple[str, ...]) -> str:
    return "".join(path[:1]) + "".join(
        step if step.startswith("[") else f".{step}" for step in path[1:]
    )


def _short(obj: Any) -> str:
    text = " ".join(repr(obj).split())
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
