"""Amounts of memory as people write them and as commands show them: `4Gi`, `512MiB`, `1.5 GiB`.

`manifests.quantities` reads only Kubernetes' forms, to which manifests are limited. This module
also reads the forms that commands print, so that an amount can be copied from an output to an
option.
"""

from __future__ import annotations

import re
from typing import Any

from phalanx.manifests.quantities import quantity

FORMS = "4Gi, 512MiB, 1.5 GiB, 100M or 1e9 (bytes)"
OF_MEMORY = ("memory", "object_store_memory")
"""The resources that are counted in bytes."""
_WRITTEN = re.compile(
    r"([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?)"
    r"\s*([kKMGTPE]i?)?(?:[bB]|bytes)?",
    re.ASCII,
)


def read_size(written: Any) -> float:
    """Return the number of bytes in a text or number. Raises ValueError that lists the forms.

    Units with an `i` are powers of 1024, and units without an `i` are powers of 1000. A `B` at the
    end changes nothing. A number without a unit counts bytes.

    >>> read_size("100MiB") == read_size("100.0 MiB") == read_size("100Mi") == 100 * 2**20
    True
    >>> read_size("100M"), read_size("100 MB"), read_size("1e9"), read_size(512)
    (100000000.0, 100000000.0, 1000000000.0, 512.0)
    """
    text = written.strip() if isinstance(written, str) else written
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if match is not None:
        number, unit = match.groups()
        text = number + ({"K": "k", "ki": "Ki"}.get(unit, unit) if unit else "")
    try:
        return quantity(text)
    except ValueError as error:
        if "largest" in str(error):
            raise
        raise ValueError(f"an amount of memory is like {FORMS}, not {written!r}") from None


def read_amount(resource: str, written: Any) -> float:
    """Return an amount of a resource: memory is read by `read_size`, and every other resource as a
    quantity.

    Raises ValueError that says what is allowed.
    """
    return read_size(written) if resource in OF_MEMORY else quantity(written)
