"""Makes the comparison that `phalanx what-if` prints, and its text."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from phalanx.cli.listing import fitted_table
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.snapshots import one_snapshot
from phalanx.head.jobs.what_if import Supposition, suppose, with_ids
from phalanx.model.rows.explanation import cost_in_words, in_words
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.scheduler.forecast.what_if import Comparison, Start, change_words, start_words


def compared(
    address: str | None,
    snapshot: Path | None,
    *,
    add_nodes: Iterable[str],
    remove_nodes: Iterable[str],
    weights: Iterable[str],
    submit: Iterable[Path],
    consolidates: bool,
) -> Comparison:
    """Return the comparison that the command's options describe. Ends the command for wrong
    options.
    """
    before = one_snapshot(snapshot, address)
    supposed = Supposition(
        add_nodes=tuple(add_nodes),
        remove_nodes=tuple(remove_nodes),
        weights=tuple(weights),
        manifests=tuple((str(file), _read(file)) for file in submit),
        consolidates=consolidates,
    )
    try:
        if snapshot is None and (supposed.add_nodes or supposed.remove_nodes):
            supposed = with_ids(supposed, ask(address, GetStatus()).nodes)
        return suppose(before, supposed)
    except ValueError as error:
        fail(str(error), USAGE)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        fail(f"{file}: cannot be read: {error.strerror}", USAGE)


_RANKS = {"QUEUE": 2, "CHANGE": 1}


def comparison_text(found: Comparison) -> str:
    """Return a table with a row for each gang that waits before or after the change.

    The last lines name the gangs that would be stopped or moved.
    """
    lines = []
    if found.starts:
        head = ("GANG", "QUEUE", "START", "IF", "CHANGE")
        lines.append(fitted_table(head, [_row(one, found.stopped) for one in found.starts], _RANKS))
    else:
        lines.append("No gang waits, before or after the change.")
    if found.stopped:
        lines += ["", f"Would be stopped, and wait again: {', '.join(map(_name, found.stopped))}"]
    if found.moves:
        lines.append("")
    for one in found.moves:
        names = in_words([_name(job.podgroup) for job in one.jobs])
        cost = cost_in_words(one.lost_s, one.restart_s)
        lines.append(f"Would be moved ({cost}): {names}. {_name(one.claimant)} starts at once.")
    return "\n".join(lines)


def _row(one: Start, stopped: Collection[str]) -> list[str]:
    is_stopped = one.podgroup in stopped
    before = "runs" if is_stopped else start_words(one.before_s)
    after, change = start_words(one.after_s), change_words(one, stopped)
    return [_name(one.podgroup), one.queue, before, after, change]


def _name(podgroup: str) -> str:
    return podgroup.removeprefix("default/")
