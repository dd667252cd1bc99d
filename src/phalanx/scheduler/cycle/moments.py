"""Times of day in words, computed without a calendar library.

A date is computed from the days since the epoch, in eras of 400 years with 146,097 days each.
"""

from __future__ import annotations

import math

_DAY_S = 86_400
_ERA_DAYS = 146_097
_EPOCH = 719_468
"""The number of days from 1 March of the year 0 to the epoch."""


def moment(at_s: float) -> str:
    """Return a time, given in seconds since the epoch, as text in UTC: `2026-11-23 14:00:00
    UTC`.
    """
    days, second = divmod(math.floor(at_s), _DAY_S)
    era, day = divmod(days + _EPOCH, _ERA_DAYS)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * year + year // 4 - year // 100)
    march = (5 * of_year + 2) // 153
    month = march + 3 if march < 10 else march - 9
    date = (400 * era + year + (month <= 2), month, of_year - (153 * march + 2) // 5 + 1)
    clock = (second // 3600, second // 60 % 60, second % 60)
    return "{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC".format(*date, *clock)
