"""The search for the known word that is most similar to a mistyped word."""

from __future__ import annotations

from collections.abc import Iterable

MAX_LENGTH = 64
"""The largest number of characters of a word for which a similar word is searched, because the
search takes quadratic time.
"""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence, such as "; did you mean 'command'?"; "" if no known word is
    similar.
    """
    if len(word) > MAX_LENGTH:
        return ""
    # not at the top: every worker would have difflib in memory, and few words are mistyped
    import difflib

    by_lower = {name.lower(): name for name in sorted(known)}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
