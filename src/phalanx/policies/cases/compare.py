"""What a case expected and what came, and when these agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.policies.bundles.request import BundleRejection, BundlesPlaced
from phalanx.policies.outcome import Outcome, Placed, Rejection

Case = Mapping[str, Any]

NO_NODE = ("none", "not_placed", "not placed", None)
"""Ways to say that no node was found, whether there could ever be one or not."""

DRAWS = 24
"""How often a choice that may be random is made, each time with another seed."""

DRAWS_TO_SEE_ALL = 400
"""How often it is made where each of several answers must be seen."""


class Unusable(ValueError):
    """A case or a file that cannot be understood; the message says where and why."""


class No(str):
    """The reason why there is no node: text that is never taken for a node of that name."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One answer that was compared. `what` names the step where a case has several."""

    what: str
    expected: Any
    got: Any
    agrees: bool


Findings = Iterator[Finding]


def equal(what: str, expected: Any, got: Any) -> Finding:
    """Agrees when both are the same value; numbers up to a millionth."""
    return Finding(what=what, expected=expected, got=got, agrees=_same(expected, got))


def chosen(what: str, expected: Any, draw: Callable[[int], Any], draws: int = DRAWS) -> Finding:
    """Agrees when what `draw(seed)` gives, for every seed, is among what is expected.

    Expected is a name, a way to say none, `any_of`, or `only` with `each_seen` where each must
    come up. Draws are names or rejection reasons.
    """
    sees_all = isinstance(expected, Mapping) and bool(expected.get("each_seen"))
    drawn = [draw(seed) for seed in range(max(draws, DRAWS_TO_SEE_ALL if sees_all else 1))]
    distinct = [value for at, value in enumerate(drawn) if value not in drawn[:at]]
    agrees = all(_among(expected, value) for value in distinct)
    if sees_all:
        listed = expected.get("only", expected.get("any_of", []))
        agrees = agrees and all(any(_among(one, value) for value in distinct) for one in listed)
    return Finding(
        what=what,
        expected=expected,
        got=distinct[0] if len(distinct) == 1 else {"any_of": distinct},
        agrees=agrees,
    )


def said(outcome: Outcome, names: Callable[[str], str]) -> str:
    """An outcome as cases write it: the node's name, or the reason of a rejection."""
    return names(outcome.node) if isinstance(outcome, Placed) else No(outcome.reason)


def said_bundles(
    outcome: BundlesPlaced | BundleRejection, names: Callable[[str], str]
) -> str | list[str]:
    """An outcome for bundles as cases write it."""
    if isinstance(outcome, Rejection):
        return No(outcome.reason)
    return [names(node) for node in outcome.nodes]


def need(case: Case, key: str) -> Any:
    """The value of a key that must be there."""
    if key not in case:
        raise Unusable(f"lacks {key!r}; it has {', '.join(map(str, case))}")
    return case[key]


def expectation(case: Case) -> Any:
    """What the case expects; `any_of` may stand beside the case's other keys."""
    return {"any_of": case["any_of"]} if "any_of" in case else need(case, "expect")


def only_known(given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuses keys that would be ignored."""
    for key in given:
        if key not in known:
            raise Unusable(f"unknown key {key!r}; known here: {', '.join(known)}")


def amounts_in(text: str) -> dict[str, float]:
    """`{CPU 2, GPU 4}` as amounts."""
    found = re.findall(r"([\w./:-]+)[\s:]+(\d+(?:\.\d+)?)", text)
    if not found:
        raise Unusable(f"no amounts in {text!r}")
    return {name: float(amount) for name, amount in found}


def _among(expected: Any, value: Any) -> bool:
    if isinstance(expected, Mapping) and expected.keys() & {"any_of", "only"}:
        listed = expected.get("any_of", expected.get("only"))
        return any(_among(one, value) for one in listed)
    if expected in NO_NODE:
        return value is None or isinstance(value, No)
    return _same(expected, value)


def _same(expected: Any, got: Any) -> bool:
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return abs(expected - got) < 1e-6 * max(1.0, abs(expected))
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        return expected.keys() == got.keys() and all(_same(expected[k], got[k]) for k in expected)
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        return len(expected) == len(got) and all(map(_same, expected, got))
    return bool(expected == got)
