"""Replays and explains files that `phalanx snapshot` wrote, and makes plans from them.

The exit code is 2 for a file that cannot be used.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from phalanx.cli.ending import Ended
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.errors import BatchFileError
from phalanx.model.rows.plan import TimePlan
from phalanx.protocol.requests.gangs import TakeSnapshot
from phalanx.scheduler.cycle.reading import holds_list, read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.replay import Outcome, as_data, replay
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.forecast.inquiry import explain_snapshot, names, plan_snapshot
from phalanx.scheduler.forecast.planner import lent

UNUSABLE = 2
NOT_IN_FILE = 3


def replay_file(file: str, *, as_json: bool, cycles: int) -> int:
    """Decide each snapshot of a file again, and print a line for it, or its plans as JSON. Returns
    the exit code: 1 if a plan differs from the plan in the file.
    """
    read = _read(file)
    if read is None:
        return UNUSABLE
    text, snapshots = read
    outcomes = [replay(snapshot, cycles, lent()) for snapshot in snapshots]
    for warning in dict.fromkeys(w for o in outcomes for p in o.plans for w in p.warnings):
        _complain(f"warning: {warning}")
    if as_json:
        data = [as_data(o) for o in outcomes]
        echo(json.dumps(data if holds_list(text) else data[0], indent=2))
    else:
        for outcome in outcomes:
            for line in _lines(outcome):
                say(line)
    return 1 if any(o.ok is False for o in outcomes) else 0


def explain_file(file: str, name: str | None, *, as_json: bool) -> int:
    """Run a cycle on every snapshot of `file`, and print why `name` waits, or why each waiting
    podgroup waits.

    `name` is a task or podgroup: namespace/name, or a name in namespace default. Returns the exit
    code: NOT_IN_FILE when no snapshot has the name.
    """
    read = _read(file)
    if read is None:
        return UNUSABLE
    _, snapshots = read
    full = name if name is None or "/" in name else f"default/{name}"
    asked = [s for s in snapshots if full is None or full in names(s)]
    if full is not None and not asked:
        _complain(f"{file}: no task or podgroup {full}; names are namespace/name")
        return NOT_IN_FILE
    answers = [a for s in asked for a in explain_snapshot(s, full)]
    if as_json:
        echo(json.dumps(msgspec.to_builtins(answers), indent=2))
        return 0
    if not answers:
        echo("no work waits")
    for answer in answers:
        for line in answer.lines(several=len(snapshots) > 1):
            say(line)
    return 0


def plans_of(file: str) -> list[TimePlan]:
    """Return the plan in time of each snapshot of `file`.

    Ends the command with UNUSABLE for a file that cannot be used.
    """
    read = _read(file)
    if read is None:
        raise Ended(UNUSABLE)
    return [plan_snapshot(snapshot) for snapshot in read[1]]


def _read(file: str) -> tuple[str, tuple[Snapshot, ...]] | None:
    try:
        text = Path(file).read_text(encoding="utf-8")
        return text, read_snapshots(text, known_plugins(), file)
    except OSError as error:
        _complain(f"{file}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        _complain(f"{file}: cannot be read: it is not UTF-8 text: {error}")
    except BatchFileError as error:
        _complain(str(error))
    return None


def _lines(outcome: Outcome) -> list[str]:
    word = {True: "ok", False: "differs", None: "decided"}[outcome.ok]
    data = as_data(outcome)
    counts = f"{len(data['binds'])} binds, {len(data['evicted'])} evictions"
    head = f"{word:8} {outcome.name or 'snapshot'}: {counts}, {len(data['pipelined'])} promised"
    return [head, *(f"         {d}" for d in outcome.differences or ())]


def _complain(text: str) -> None:
    say(text, err=True)


def one_snapshot(file: Path | None, address: str | None) -> Snapshot:
    """Return the only snapshot of a file or, without a file, a snapshot of the cluster that
    includes past run times. Ends the command unless the file has exactly one snapshot.
    """
    try:
        if file is None:
            text = ask(address, TakeSnapshot(has_past_runs=True)).decode()
        else:
            text = file.read_text(encoding="utf-8")
        found = read_snapshots(text, known_plugins(), str(file or "the cluster"))
    except OSError as error:
        fail(f"{file}: cannot be read: {error.strerror}", USAGE)
    except UnicodeDecodeError as error:
        fail(f"{file}: cannot be read: it is not UTF-8 text: {error}", USAGE)
    except BatchFileError as error:
        fail(str(error), USAGE)
    if len(found) != 1:
        fail(
            f"{file}: it holds {len(found)} snapshots, and this command takes a file with one",
            USAGE,
        )
    return found[0]
