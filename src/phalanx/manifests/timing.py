"""The times in a job's manifest: how they are read, checked and written.

Volcano has no fields for them. Phalanx adds these fields to a job's `spec`: `time`, `begin`,
`deadline`, `signal`, `requeue` and `hold`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from phalanx.manifests.fields import Fields
from phalanx.manifests.findings import Fault
from phalanx.manifests.times import read_length, read_moment, written_moment
from phalanx.model.jobs.timing import (
    LATEST_S,
    LONGEST_S,
    REQUEUE_REASONS,
    SIGNALS,
    Moment,
    Requeue,
    Timing,
    WarningSignal,
)
from phalanx.model.options import LARGEST_NUMBER
from phalanx.model.readable import length_text

T = TypeVar("T")
_SIGNAL = re.compile(r"(B:)?(?:SIG)?([A-Z0-9]{1,6})(?:@([0-9]{1,40}))?", re.ASCII)
MAX_EXIT_CODES = 255
"""The largest number of exit codes that a rule for requeueing may list: all codes other than 0."""


def read_timing(at: Fields) -> Timing:
    """Return the times in the fields of a job's spec."""
    return Timing(
        limit_s=_read(at, "time", "time_invalid", read_length),
        begin=_read(at, "begin", "begin_invalid", read_moment),
        deadline=_read(at, "deadline", "deadline_invalid", read_moment),
        signal=_read(at, "signal", "signal_invalid", read_signal),
        requeue=_requeue(at),
        is_held=at.flag("hold"),
    )


def read_length_field(at: Fields, key: str) -> float | None:
    """Return the duration at `key` in seconds; None if it is not given."""
    return _read(at, key, "time_invalid", read_length)


def _read(at: Fields, key: str, code: str, read: Callable[[str], T]) -> T | None:
    value = at.raw(key)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # `time: 90` means 90 minutes, as in Slurm
    if not isinstance(value, str):
        at.error(key, code, f"{key} must be text, not {type(value).__name__} {value!r}"[:80])
        return None
    try:
        return read(value)
    except ValueError as error:
        at.error(key, code, f"{key}: {error}")
        return None


def read_signal(written: str) -> WarningSignal:
    """Return the signal in a text in sbatch(1)'s form, [B:]NAME[@SECONDS]. Raises ValueError."""
    found = _SIGNAL.fullmatch(written.strip().upper())
    name = found[2] if found is not None else ""
    numbers = {str(number): name for name, number in SIGNALS.items()}
    name = numbers.get(name, name)
    if found is None or name not in SIGNALS:
        raise ValueError(
            f"a signal before the end is like USR1@300 (seconds) or B:TERM@60, of "
            f"{', '.join(SIGNALS)}, not {written[:40]!r}"
        )
    only_shell = found[1] is not None
    if found[3] is None:
        return WarningSignal(name=name, only_shell=only_shell)
    return WarningSignal(name=name, before_s=float(found[3]), only_shell=only_shell)


def _requeue(at: Fields) -> Requeue | None:
    if not at.has("requeue"):
        at.raw("requeue")
        return None
    inner = at.fields("requeue")
    default = Requeue()
    reasons = inner.texts("reasons") if "reasons" in inner.known else default.reasons
    codes = _exit_codes(inner)
    most = inner.optional_whole("max")
    inner.warn_unknown()
    made = Requeue(
        reasons=tuple(dict.fromkeys(reasons)),
        exit_codes=codes,
        most=default.most if most is None else most,
    )
    faults = _requeue_faults(made)
    for key, fault in faults:
        inner.error(key, "requeue_invalid", fault)
    return None if faults else made


def _exit_codes(inner: Fields) -> tuple[int, ...]:
    value = inner.raw("exitCodes")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(_is_whole(code) for code in value):
        inner.error("exitCodes", "requeue_invalid", "exitCodes must be a list, like [75]")
        return ()
    return tuple(dict.fromkeys(value))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def requeue_of(given: Mapping[str, Any]) -> Requeue:
    """Return the rule for requeueing in a mapping of the form {"reasons": [...], "exitCodes":
    [...], "max": 3}.

    Raises ValueError.
    """
    unknown = sorted(map(str, given.keys() - {"reasons", "exitCodes", "max"}))
    if unknown:
        raise ValueError(f"there is no field {unknown[0]!r}; known: reasons, exitCodes, max")
    default = Requeue()
    reasons, codes = given.get("reasons", default.reasons), given.get("exitCodes", ())
    most = given.get("max", default.most)
    lists = all(isinstance(one, Sequence) and not isinstance(one, str) for one in (reasons, codes))
    if not lists or not all(_is_whole(code) for code in (*codes, most)):
        raise ValueError("reasons and exitCodes must be lists, max a whole number")
    made = Requeue(
        reasons=tuple(dict.fromkeys(map(str, reasons))),
        exit_codes=tuple(dict.fromkeys(codes)),
        most=most,
    )
    for _, fault in _requeue_faults(made):
        raise ValueError(fault)
    return made


def _requeue_faults(rule: Requeue) -> list[tuple[str, str]]:
    faults = []
    for reason in rule.reasons:
        if reason not in REQUEUE_REASONS:
            there = ", ".join(REQUEUE_REASONS)
            faults.append(("reasons", f"requeue.reasons: {reason[:40]!r} is not one of {there}"))
    for code in rule.exit_codes:
        if not 1 <= code <= 255:
            fault = f"requeue.exitCodes: an exit code must be 1 to 255, not {code}"
            faults.append(("exitCodes", fault))
    if not 0 <= rule.most <= LARGEST_NUMBER:
        faults.append(("max", f"requeue.max must be 0 to {LARGEST_NUMBER}, not {rule.most}"))
    return faults


def timing_faults(timing: Timing) -> list[Fault]:
    """Return the faults of a spec's times. Manifests are checked when they are read; this check is
    for the specs that programs submit.
    """
    found: list[tuple[str, str]] = []
    limit_s = timing.limit_s
    if limit_s is not None and not 0 < limit_s <= LONGEST_S:
        reason = f"time must be more than 0 and at most {LONGEST_S:g} s, not {limit_s:g}"
        found.append(("time", reason))
    for name in ("begin", "deadline"):
        moment: Moment | None = getattr(timing, name)
        if moment is not None and not _is_moment(moment):
            found.append((name, f"{name} must be one moment, up to the year 9999"))
    signal = timing.signal
    if signal is not None and (signal.name not in SIGNALS or not 0 <= signal.before_s <= LONGEST_S):
        reason = (
            f"signal must be one of {', '.join(SIGNALS)}, at most {LONGEST_S:g} s before the end"
        )
        found.append(("signal", reason))
    if timing.requeue is not None:
        if len(timing.requeue.exit_codes) > MAX_EXIT_CODES:
            reason = f"requeue.exitCodes may have at most {MAX_EXIT_CODES} codes"
            found.append(("requeue", reason))
        else:
            found += [("requeue", fault) for _, fault in _requeue_faults(timing.requeue)]
    return [Fault(("spec", field), f"{field}_invalid", reason) for field, reason in found]


def _is_moment(moment: Moment) -> bool:
    if (moment.at is None) == (moment.after_s is None):
        return False
    if moment.at is not None:
        return 0 <= moment.at <= LATEST_S
    return moment.after_s is not None and 0 <= moment.after_s <= LONGEST_S


def written_timing(timing: Timing) -> dict[str, Any]:
    """Return the fields for `read_timing`; None for those that the job does not set."""
    limit_s, begin, deadline = timing.limit_s, timing.begin, timing.deadline
    return {
        "time": None if limit_s is None or not math.isfinite(limit_s) else length_text(limit_s),
        "begin": None if begin is None else written_moment(begin),
        "deadline": None if deadline is None else written_moment(deadline),
        "signal": None if timing.signal is None else _written_signal(timing.signal),
        "requeue": None if timing.requeue is None else _written_requeue(timing.requeue),
        "hold": timing.is_held or None,
    }


def _written_signal(signal: WarningSignal) -> str:
    return f"{'B:' if signal.only_shell else ''}{signal.name}@{signal.before_s:.0f}"


def _written_requeue(rule: Requeue) -> dict[str, Any]:
    return {
        "reasons": list(rule.reasons),
        "exitCodes": list(rule.exit_codes),
        "max": rule.most,
    }
