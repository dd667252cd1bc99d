"""The health of a head: a finding for each thing that may be wrong, from the head's own report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from phalanx.model.readable import duration, size
from phalanx.model.rows.cluster import StatusInfo
from phalanx.model.rows.events import EventInfo
from phalanx.model.rows.work import RulesInfo
from phalanx.observe.events import details
from phalanx.observe.metrics.definitions import Numbers

WELL: Final = "well"
LOOK: Final = "look"
"""The state of a finding that is no fault, but that an administrator should look at."""
BAD: Final = "bad"
LAG_LOOK_S = 0.5
LAG_BAD_S = 5.0
"""Two lags of the head's loop in seconds. If the loop lags by at least the first, the state is
LOOK; if it lags by at least the second, the state is BAD.
"""
WAITING_LOOK_BYTES = 8 << 20
"""If at least this many bytes wait to be written to the store, the state is LOOK."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding about the head: its subject, its state, and a text."""

    what: str
    state: str
    """The state: `WELL`, `LOOK` or `BAD`."""
    said: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a head: all findings about it."""

    state: str
    """The worst state of the findings."""
    findings: list[Finding]
    requests: list[tuple[str, int, float]]
    """(name, count, total seconds) of the kinds of requests on which the head spent most time."""
    refused: EventInfo | None
    """The latest event of a refused scheduler configuration, if it is still kept."""


class HeadReport(msgspec.Struct, array_like=True, kw_only=True):
    """The report of a head about itself."""

    began: float
    """The time at which the head started, in seconds since the epoch."""
    protocol: int
    """The version of the protocol that the head speaks."""
    known: dict[str, int]
    """The numbers of nodes, gangs, actors and events in the head's tables."""
    numbers: list[Numbers]
    """The head's own metrics, without its nodes' metrics."""
    held: list[str] = []
    """One sentence about each node that gets no new work because of its health."""


def health(
    report: HeadReport,
    status: StatusInfo,
    rules: RulesInfo,
    refused: Sequence[EventInfo],
    *,
    now: float,
    version: str,
    protocol: int,
) -> Health:
    """Return the health of a head, judged by its report.

    `refused`: the events of refused scheduler configurations, the oldest first. `now`: seconds
    since the epoch. `version`, `protocol`: the version of the asking program and of its protocol.
    """
    numbers = {one.name: one for one in report.numbers}
    findings = [
        _versions(report, version, protocol),
        _head(report, status, now),
        _loop(numbers),
        _store(status, numbers),
        _cycles(numbers),
        _rules(rules),
        _refusal(refused),
        *_defects(status, now),
        *_lost_nodes(status),
        *(Finding(what="head", state=BAD, said=text) for text in status.troubles),
        *(Finding(what="node", state=BAD, said=text) for text in report.held),
    ]
    order = (WELL, LOOK, BAD)
    return Health(
        state=max((one.state for one in findings), key=order.index),
        findings=findings,
        requests=_requests(numbers),
        refused=refused[-1] if refused else None,
    )


def _versions(report: HeadReport, version: str, protocol: int) -> Finding:
    said = f"this is {version}, which speaks version {protocol} of the protocol"
    if protocol == report.protocol:
        return Finding(what="versions", state=WELL, said=f"{said}, as the head does")
    return Finding(
        what="versions", state=BAD, said=f"{said}; the head speaks version {report.protocol}"
    )


def _head(report: HeadReport, status: StatusInfo, now: float) -> Finding:
    known = ", ".join(
        f"{count} {what.removesuffix('s') if count == 1 else what}"
        for what, count in report.known.items()
    )
    where = status.address or "inside the only node"
    runs = duration(max(now - report.began, 0.0))
    return Finding(what="head", state=WELL, said=f"{where}, for {runs}; it knows {known}")


def _loop(numbers: Mapping[str, Numbers]) -> Finding:
    lag_s = _value(numbers, "phalanx_loop_lag_seconds")
    if lag_s is None:
        return Finding(what="loop", state=WELL, said="its lag is not known here")
    state = BAD if lag_s >= LAG_BAD_S else LOOK if lag_s >= LAG_LOOK_S else WELL
    said = f"its largest lag since the last question was {1000 * lag_s:.1f} ms"
    return Finding(what="loop", state=state, said=said)


def _store(status: StatusInfo, numbers: Mapping[str, Numbers]) -> Finding:
    said = [status.store]
    in_files = _value(numbers, "phalanx_store_bytes")
    if in_files:
        said.append(f"{size(in_files)} in files")
    waiting = _value(numbers, "phalanx_journal_bytes") or 0.0
    said.append(f"{size(waiting)} wait to be written")
    count, took_s = _observed(numbers, "phalanx_store_commit_seconds")
    if count:
        said.append(f"written {count:.0f} times, {1000 * took_s / count:.1f} ms each")
    state = LOOK if waiting >= WAITING_LOOK_BYTES else WELL
    return Finding(what="store", state=state, said=", ".join(said))


def _cycles(numbers: Mapping[str, Numbers]) -> Finding:
    count, took_s = _observed(numbers, "phalanx_schedule_cycle_seconds")
    if not count:
        return Finding(what="cycles", state=WELL, said="none yet: nothing has waited")
    failed = sum(
        sample.value
        for sample in numbers["phalanx_schedule_cycles_total"].samples
        if sample.labels == ("failed",)
    )
    said = f"{count:.0f}, {1000 * took_s / count:.2f} ms each"
    if failed:
        return Finding(what="cycles", state=LOOK, said=f"{said}; {failed:.0f} failed")
    return Finding(what="cycles", state=WELL, said=said)


def _rules(rules: RulesInfo) -> Finding:
    if rules.trouble:
        return Finding(what="rules", state=BAD, said=f"not followed: {rules.trouble}")
    whose = f"set from {rules.file}" if rules.is_own else "those that come with the cluster"
    said = f"{whose}: {', '.join(rules.actions)}"
    return Finding(what="rules", state=WELL, said=said)


def _refusal(refused: Sequence[EventInfo]) -> Finding:
    if not refused:
        return Finding(what="refused rules", state=WELL, said="none is remembered")
    last = refused[-1]
    return Finding(what="refused rules", state=WELL, said=f"the last: {last.name}; {details(last)}")


def _defects(status: StatusInfo, now: float) -> list[Finding]:
    defects = status.defects
    if not defects:
        return [Finding(what="defects", state=WELL, said="none since the head began")]
    return [
        Finding(
            what="defects",
            state=LOOK,
            said=f"{kind}: {one.count}, the last {duration(now - one.at)} ago: {one.last}",
        )
        for kind, one in sorted(defects.items())
    ]


def _lost_nodes(status: StatusInfo) -> list[Finding]:
    if not status.lost_nodes:
        return [Finding(what="nodes", state=WELL, said="none died unexpectedly in the last hour")]
    return [Finding(what="nodes", state=LOOK, said=said) for said in status.lost_nodes]


def _requests(numbers: Mapping[str, Numbers]) -> list[tuple[str, int, float]]:
    found = numbers.get("phalanx_rpc_seconds")
    rows = [
        (sample.labels[0], int(sum(sample.counts or ())), sample.value)
        for sample in (found.samples if found is not None else ())
    ]
    rows.sort(key=lambda row: -row[2])  # by total seconds
    return rows[:10]


def _value(numbers: Mapping[str, Numbers], name: str) -> float | None:
    found = numbers.get(name)
    return max((sample.value for sample in found.samples), default=None) if found else None


def _observed(numbers: Mapping[str, Numbers], name: str) -> tuple[float, float]:
    """Return how many values a histogram has counted, and the sum of these values."""
    found = numbers.get(name)
    samples = found.samples if found is not None else []
    return sum(sum(one.counts or ()) for one in samples), sum(one.value for one in samples)
