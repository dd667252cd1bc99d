"""Amounts as Kubernetes writes them (500m, 2Gi, 1e3), and the names of resources in Phalanx."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from phalanx.model.gpu_sharing import TERMS

_WRITTEN = re.compile(
    r"([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))"
    r"(?:(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)|[eE]([+-]?\d{1,3}))?",
    re.ASCII,
)
_SCALE: dict[str, Fraction] = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6)}
_SCALE |= {"m": Fraction(1, 1000), "k": Fraction(1000)}
_SCALE |= {s: Fraction(1000**i) for i, s in enumerate("MGTPE", 2)}
_SCALE |= {f"{s}i": Fraction(1024**i) for i, s in enumerate("KMGTPE", 1)}

_PLAIN = ("cpu", "memory", "pods")

LARGEST = 2.0**63
"""The largest amount, which is also Kubernetes' bound: a larger amount must be a mistake."""

HOUSE = {"cpu": "CPU", "gpu": "GPU", "nvidia.com/gpu": "GPU", "amd.com/gpu": "GPU"}
HOUSE |= {"CPU": "CPU", "GPU": "GPU", "volcano.sh/gpu-number": "GPU"}
"""The resources that processes request, under the names that leases use."""

BATCH = {"CPU": "cpu", "GPU": "nvidia.com/gpu", "gpu": "nvidia.com/gpu"}
BATCH |= {"amd.com/gpu": "nvidia.com/gpu", "volcano.sh/gpu-number": "nvidia.com/gpu"}
"""The same resources under the names that the scheduler uses (`batch.amounts`)."""

NOT_HERE = ("ephemeral-storage", "hugepages-", "attachable-volumes-")
"""The resources that exist only in a Kubernetes cluster."""


def quantity(written: Any) -> float:
    """Return the amount in a text or number. Raises ValueError that says what is allowed."""
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError(f"an amount must be a number like 2, 500m or 4Gi, not {written!r}")
    match = _WRITTEN.fullmatch(str(written).strip())
    if match is None:
        raise ValueError(f"an amount must be a number like 2, 500m or 4Gi, not {written!r}")
    number, suffix, exponent = match.groups()
    value = Fraction(number)
    if suffix:
        value *= _SCALE[suffix]
    elif exponent:
        value *= Fraction(10) ** int(exponent)
    if abs(value) > LARGEST:
        raise ValueError(f"{written} is more than the largest amount, 2^63")
    out = float(value)
    assert math.isfinite(out)
    return out


def is_not_here(resource: str) -> bool:
    """Whether no node can have this resource."""
    return resource.startswith(NOT_HERE)


def batch_amounts(needs: dict[str, float]) -> tuple[tuple[str, float], ...]:
    """Return amounts under the scheduler's names of resources, sorted. Leases use other names."""
    return tuple(sorted((batch_name(name), amount) for name, amount in needs.items()))


def batch_name(name: str) -> str:
    """Return the scheduler's name of a resource.

    A custom name without a slash gets the prefix `phalanx/`, because the scheduler counts only
    resources with a slash in their names.
    """
    is_plain = "/" in name or name in _PLAIN or name in TERMS or name.startswith(NOT_HERE)
    return BATCH.get(name, name if is_plain else f"phalanx/{name}")
