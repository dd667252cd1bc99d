"""Counts of licences that a job asks for: read, checked, and written again.

In text they are as sbatch(1) has them, `matlab:2,ansys`; in a manifest also a mapping.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from phalanx.manifests.fields import Fields
from phalanx.manifests.queue_rules import Fault
from phalanx.model.reservations import MAX_COUNT

MAX_KINDS = 100
"""So many kinds of licences one job may ask for."""
NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.@]{0,61}[A-Za-z0-9])?", re.ASCII)
Licenses = tuple[tuple[str, int], ...]


def read_licenses(written: str) -> Licenses:
    """What `matlab:2,ansys` means. Raises ValueError with what would be right."""
    given: dict[str, Any] = {}
    for word in written.split(","):
        name, colon, count = word.strip().partition(":")
        if "|" in word:
            raise ValueError("'|' (any of several) is not read; ask for each with a comma")
        if name in given:
            raise ValueError(f"{name[:40]!r} stands there twice")
        given[name] = (
            (int(count) if count.isdecimal() and len(count) < 10 else count) if colon else 1
        )
    return licenses_of(given)


def licenses_of(given: Mapping[str, Any]) -> Licenses:
    """The same from counts by name. Raises ValueError."""
    made = tuple(sorted(given.items()))
    for fault in _faults(made):
        raise ValueError(fault)
    return made


def read_licenses_field(at: Fields) -> Licenses:
    """The field of a job's spec."""
    value = at.raw("licenses")
    if value is None:
        return ()
    try:
        if isinstance(value, str):
            return read_licenses(value)
        if not isinstance(value, dict):
            raise ValueError("it is a mapping as {matlab: 2}, or a text as 'matlab:2'")
        return licenses_of({str(name): count for name, count in value.items()})
    except ValueError as error:
        at.error("licenses", "licenses_invalid", f"licenses: {error}")
        return ()


def license_faults(licenses: Licenses) -> list[Fault]:
    """What no manifest could say: whoever sends a spec may have read none."""
    reasons = _faults(licenses)
    return [Fault(("spec", "licenses"), "licenses_invalid", f"licenses: {r}") for r in reasons]


def license_fault(name: str, count: int) -> str | None:
    """Why there can be no such count of a licence, or None."""
    if not NAME.fullmatch(name):
        return f"{name[:40]!a} is no name of a licence: up to 63 letters, digits, '-_.@'"
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_COUNT:
        return f"a count of {name} is a whole number from 0 to {MAX_COUNT}, not {str(count)[:40]!a}"
    return None


def _faults(licenses: Licenses) -> list[str]:
    if len(licenses) > MAX_KINDS:
        return [f"a job asks for at most {MAX_KINDS} kinds of licences, not {len(licenses)}"]
    found = [fault for name, count in licenses if (fault := license_fault(name, count))]
    return found or [
        f"a job asks for 1 of {n} or more, not 0" for n, count in licenses if not count
    ]
