"""Lists of people in a queue: the people who may submit to it, and the people who administer it.

A list names users (`alice`), groups of accounts (`@ml`), tokens (`token:ci`) or everybody (`*`).
"""

from __future__ import annotations

import re
from functools import lru_cache

SUBMIT, ADMIN = "phalanx/submit", "phalanx/admin"
"""The annotations of a queue with its two lists."""
_WORD = re.compile(r"\*|@[^\s,@:*]{1,253}|(?:unix:|token:)?[^\s,@:*]{1,253}")
MOST = 1_000
"""The largest number of entries in a list."""


@lru_cache(maxsize=4_096)
def read_people(text: str) -> frozenset[str]:
    """Return the entries of a list, which are separated by commas. Raises ValueError for an entry
    in another form.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if _WORD.fullmatch(word) is None:
            raise ValueError(
                f"{word[:100]!r} names nobody: a list has users (alice), groups (@ml), tokens "
                "(token:ci) or * for everybody, separated by commas"
            )
    if len(words) > MOST:
        raise ValueError(f"a list names at most {MOST:,} people, not {len(words):,}")
    return frozenset(words)
