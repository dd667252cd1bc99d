"""The arguments that plugins and actions declare, and the checks of a configuration against them.

A value of the wrong kind is refused with its line. A value of the right kind but out of bounds is
left to the plugin, which treats it as Volcano does. The plan warns of arguments that are unknown or
have no effect here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from phalanx.model.nearest import nearest
from phalanx.scheduler.cycle.arguments import clock_minutes, quantity, seconds
from phalanx.scheduler.cycle.documents import MOST, Place


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of value: its name in messages, and a test whether a value is of this kind."""

    says: str
    good: Callable[[Any], bool]


Accepted: TypeAlias = "Mapping[str, Kind | Accepted]"
"""The arguments that a plugin or action accepts, each with the kind of its value.

For an argument whose value is a mapping, the entry is not a kind but another `Accepted` with the
members of that mapping. A name that ends in `*` stands for all names that begin in this way, and
`[]` stands for the items of a list.
"""


class Together(dict[str, "Kind | Accepted"]):
    """Arguments whose values are also checked against each other. `fault` returns why the values do
    not go together, or "".
    """

    def __init__(
        self, accepted: Mapping[str, Kind | Accepted], fault: Callable[[Mapping[str, Any]], str]
    ) -> None:
        super().__init__(accepted)
        self.fault = fault


def _number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        return abs(float(value)) <= MOST
    except (TypeError, ValueError, OverflowError):
        return False


def _flag(value: Any) -> bool:
    known = ("true", "false", "t", "f", "1", "0")
    return isinstance(value, bool) or str(value).strip().lower() in known


def _is_true(value: Any) -> bool:
    return str(value).strip().lower() in ("true", "t", "1")


def _hours(value: Any) -> bool:
    start, _, end = str(value).partition("-")
    return clock_minutes(start) is not None and clock_minutes(end) is not None


NUMBER = Kind(says="a number", good=_number)
WHOLE = Kind(says="a whole number", good=lambda v: _number(v) and float(v).is_integer())
FLAG = Kind(says="true or false", good=_flag)
ONLY_ONE = Kind(says="true or false", good=_flag)
"""Like FLAG, but at most one argument of this kind may be true in a plugin."""
TEXT = Kind(says="text", good=lambda v: isinstance(v, str))
DURATION = Kind(
    says="a duration such as 1h30m", good=lambda v: isinstance(v, str) and seconds(v) is not None
)
QUANTITY = Kind(
    says="an amount such as 250m or 200Mi",
    good=lambda v: not isinstance(v, bool) and quantity(v) is not None,
)
HOURS = Kind(says="hours such as 22:00-04:00", good=_hours)
FOREIGN = Kind(says="anything", good=lambda _: True)
"""An argument that Volcano accepts but that has no effect here."""


def one_of(*words: str) -> Kind:
    return Kind(says=" or ".join(words), good=lambda v: v in words)


def check_arguments(at: Place, accepted: Accepted) -> None:
    """Raise BatchFileError, with the line, for a value of the wrong kind, and for values that do
    not go together.
    """
    alone = [
        k for k, v in at.members().items() if accepted.get(k) is ONLY_ONE and _is_true(v.value)
    ]
    if len(alone) > 1:
        at.get(alone[1]).fail(f"at most one of {', '.join(alone)} is true")
    for key, place in at.members().items():
        kind = _of(accepted, key)
        if place.value is None or kind is None:
            continue
        if isinstance(kind, Kind):
            if not kind.good(place.value):
                place.fail(f"{key} is {kind.says}, not {place.value!r}")
        elif "[]" in kind:
            inner = kind["[]"]
            for item in place.items():
                if not isinstance(inner, Kind):
                    check_arguments(item, inner)
        else:
            check_arguments(place, kind)
    if isinstance(accepted, Together) and (wrong := accepted.fault(at.mapping())):
        at.fail(wrong)


def strange(name: str, arguments: Mapping[str, Any], accepted: Accepted) -> Iterator[str]:
    """Yield a warning for each argument that has no effect here."""
    for key, value in arguments.items():
        kind = _of(accepted, key)
        if kind is None:
            known = f"known are {', '.join(accepted)}" if accepted else "it takes none"
            yield f"{name} has no argument {key!r}; {known}{nearest(key, accepted)}"
        elif kind is FOREIGN and value not in (False, "false", None):
            yield f"{name}: {key} has no meaning here"


def _of(accepted: Accepted, key: str) -> Kind | Accepted | None:
    found = accepted.get(key)
    if found is not None:
        return found
    return next(
        (k for n, k in accepted.items() if n.endswith("*") and key.startswith(n[:-1])), None
    )
