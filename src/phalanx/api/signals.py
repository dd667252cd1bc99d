"""Names of signals, as users write them."""

from __future__ import annotations

import signal

from phalanx.model.nearest import nearest

_NAMES = {one.name.removeprefix("SIG"): int(one) for one in signal.Signals}


def signal_number(given: str | int) -> int:
    """Return the number of a signal: USR1, SIGUSR1, usr1 or 10. Raises ValueError for anything
    else.

    >>> signal_number("usr1"), signal_number(15)
    (10, 15)
    """
    text = str(given).strip().upper().removeprefix("SIG")
    if text in _NAMES:
        return _NAMES[text]
    if text.isdecimal() and text.isascii() and 1 <= int(text) <= signal.NSIG - 1:
        return int(text)
    there = "USR1, TERM, HUP, ... or a number from 1 to 64"
    raise ValueError(f"{given!r} is no signal{nearest(text, list(_NAMES))}; allowed: {there}")
