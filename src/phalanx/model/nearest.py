"""The known word that a mistyped one stands for."""

from __future__ import annotations

from collections.abc import Iterable

MAX_LENGTH = 64
"""The most characters of a word for which a similar word is searched, because the search takes
quadratic time.
"""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence: "; did you mean 'command'?", or nothing without a similar
    word."""
    if len(word) > MAX_LENGTH:
        return ""
    import difflib  # every worker would carry it, and few words are mistyped

    by_lower = {name.lower(): name for name in sorted(known)}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
