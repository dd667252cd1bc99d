"""Counts of licenses that a job requests: how they are read, checked and written.

In the form of text they are written as in sbatch(1): `matlab:2,ansys`. A manifest may have a
mapping instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from phalanx.manifests.fields import Fields
from phalanx.manifests.findings import Fault
from phalanx.model.reservations import MAX_COUNT

MAX_KINDS = 100
"""The largest number of kinds of licenses that one job may request."""
NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.@]{0,61}[A-Za-z0-9])?", re.ASCII)
Licenses = tuple[tuple[str, int], ...]


def read_licenses(written: str) -> Licenses:
    """Return the licenses in a text such as `matlab:2,ansys`. Raises ValueError that says what is
    allowed.
    """
    given: dict[str, Any] = {}
    for word in written.split(","):
        name, colon, count = word.strip().partition(":")
        if "|" in word:
            raise ValueError("'|' (any of several) is not supported; ask for each with a comma")
        if name in given:
            raise ValueError(f"{name[:40]!r} is given twice")
        given[name] = (
            (int(count) if count.isdecimal() and len(count) < 10 else count) if colon else 1
        )
    return licenses_of(given)


def licenses_of(given: Mapping[str, Any]) -> Licenses:
    """Return the licenses in a mapping of counts by name. Raises ValueError."""
    made = tuple(sorted(given.items()))
    for fault in _faults(made):
        raise ValueError(fault)
    return made


def read_licenses_field(at: Fields) -> Licenses:
    """Return the licenses in the field `licenses` of a job's spec."""
    value = at.raw("licenses")
    if value is None:
        return ()
    try:
        if isinstance(value, str):
            return read_licenses(value)
        if not isinstance(value, dict):
            raise ValueError("write a mapping like {matlab: 2}, or a text like 'matlab:2'")
        return licenses_of({str(name): count for name, count in value.items()})
    except ValueError as error:
        at.error("licenses", "licenses_invalid", f"licenses: {error}")
        return ()


def license_faults(licenses: Licenses) -> list[Fault]:
    """Return the faults of a spec's licenses. Manifests are checked when they are read; this check
    is for the specs that programs submit.
    """
    reasons = _faults(licenses)
    return [Fault(("spec", "licenses"), "licenses_invalid", f"licenses: {r}") for r in reasons]


def license_fault(name: str, count: int) -> str | None:
    """Return why a license cannot have this name or count; None if both are allowed."""
    if not NAME.fullmatch(name):
        return f"{name[:40]!a} is not a valid name of a license: up to 63 letters, digits, '-_.@'"
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_COUNT:
        return (
            f"a count of {name} must be a whole number from 0 to {MAX_COUNT}, "
            f"not {str(count)[:40]!a}"
        )
    return None


def _faults(licenses: Licenses) -> list[str]:
    if len(licenses) > MAX_KINDS:
        return [f"a job may ask for at most {MAX_KINDS} kinds of licenses, not {len(licenses)}"]
    found = [fault for name, count in licenses if (fault := license_fault(name, count))]
    return found or [
        f"a job must ask for 1 of {n} or more, not 0" for n, count in licenses if not count
    ]
