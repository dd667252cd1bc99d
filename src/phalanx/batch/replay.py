"""Decide a snapshot file again, touching nothing: `python -m phalanx.batch.replay FILE`.

Prints one line per snapshot, or with --json the plans. Ends with 0 when nothing differs from what
the file expects, 1 when something does, 2 for a file that cannot be used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from phalanx.batch import explain
from phalanx.batch.aftermath import after
from phalanx.batch.cycle import run_cycle
from phalanx.batch.expectation import differences
from phalanx.batch.plan import Plan
from phalanx.batch.reading import holds_list, read_snapshots
from phalanx.batch.registry import known_plugins
from phalanx.batch.specs import Snapshot
from phalanx.errors import BatchFileError

Write = Callable[[str], None]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot's plans, one per cycle, and how they differ from what it expects (None: it does
    not say)."""

    name: str
    snapshot: Snapshot
    plans: tuple[Plan, ...]
    differences: tuple[str, ...] | None

    @property
    def ok(self) -> bool | None:
        return None if self.differences is None else not self.differences


def replay_text(text: str, file: str = "", cycles: int = 1) -> list[Outcome]:
    """Decide every snapshot of a text. Raises BatchFileError."""
    return [replay(s, cycles) for s in read_snapshots(text, known_plugins(), file)]


def replay(snapshot: Snapshot, cycles: int = 1) -> Outcome:
    """Decide one snapshot, `cycles` times, each over what the last one left; what the snapshot
    expects is compared with all of them together."""
    now = snapshot
    plans: list[Plan] = []
    for i in range(max(1, cycles)):
        if i:
            now = after(now, plans[-1])
        plans.append(run_cycle(now))
    found = None
    if snapshot.expect is not None:
        found = tuple(differences(snapshot, plans))
    return Outcome(name=snapshot.name, snapshot=snapshot, plans=tuple(plans), differences=found)


def as_data(outcome: Outcome) -> dict[str, Any]:
    """The JSON of one snapshot; with several cycles, of them together."""
    last = outcome.plans[-1]
    binds: dict[str, str] = {}
    evicted: list[str] = []
    for plan in outcome.plans:
        binds.update(plan.binds)
        evicted += [t for t in plan.evicted if t not in evicted]
    return {
        "name": outcome.name,
        "binds": binds,
        "evicted": sorted(evicted),
        "pipelined": dict(last.pipelined),
        "phases": dict(last.phases),
        "rejections": explain.as_data(last.rejections),
        "ok": outcome.ok,
    }


def replay_file(file: str, *, as_json: bool, cycles: int, write: Write, complain: Write) -> int:
    """The command: replays `file`, writes to `write` and `complain`, returns the exit status."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as e:
        complain(f"{file}: cannot be read: {e.strerror}")
        return 2
    except UnicodeDecodeError as e:
        complain(f"{file}: cannot be read: it is no text: {e}")
        return 2
    try:
        outcomes = replay_text(text, file, cycles)
    except BatchFileError as e:
        complain(str(e))
        return 2
    for warning in dict.fromkeys(w for o in outcomes for p in o.plans for w in p.warnings):
        complain(f"warning: {warning}")
    if as_json:
        data = [as_data(o) for o in outcomes]
        write(json.dumps(data if holds_list(text) else data[0], indent=2))
    else:
        for outcome in outcomes:
            for line in _lines(outcome):
                write(line)
    return 1 if any(o.ok is False for o in outcomes) else 0


def _lines(outcome: Outcome) -> list[str]:
    word = {True: "ok", False: "differs", None: "decided"}[outcome.ok]
    data: Mapping[str, Any] = as_data(outcome)
    counts = f"{len(data['binds'])} binds, {len(data['evicted'])} evictions"
    head = f"{word:8} {outcome.name or 'snapshot'}: {counts}, {len(data['pipelined'])} promised"
    return [head, *(f"         {d}" for d in outcome.differences or ())]


def main(arguments: Sequence[str]) -> int:
    """`FILE [--json] [--cycles N]`."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m phalanx.batch.replay",
        description="Decide a snapshot file again and compare with what it expects.",
    )
    parser.add_argument("file")
    parser.add_argument("--json", action="store_true", help="print the plans as JSON")
    parser.add_argument("--cycles", type=int, default=1, help="run N cycles, one after the other")
    given = parser.parse_args(list(arguments))
    return replay_file(
        given.file,
        as_json=given.json,
        cycles=given.cycles,
        write=print,
        complain=lambda line: print(line, file=sys.stderr),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
