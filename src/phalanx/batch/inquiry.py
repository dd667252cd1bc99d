"""Ask a snapshot file why its tasks and podgroups wait, and what would have to change."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, structs

from phalanx.batch.cycle import decide
from phalanx.batch.explain import sentence
from phalanx.batch.forecast import expected_starts
from phalanx.batch.plan import Plan, Rejection
from phalanx.batch.reading import read_snapshots
from phalanx.batch.registry import known_plugins
from phalanx.batch.remedies import remedy
from phalanx.batch.specs import Snapshot
from phalanx.errors import BatchFileError
from phalanx.model.rows.explanation import AlikeTasks, ExpectedStart, Explanation, Reason

Write = Callable[[str], None]


def explain_file(
    file: str, name: str | None, *, as_json: bool, write: Write, complain: Write
) -> int:
    """The command: decides every snapshot of `file` and says why `name` waits, or all that do.

    `name` is a task or podgroup, namespace/name or name in namespace default. Returns the exit
    status: 0, 2 for a file that cannot be used, 3 for a name that is not in it.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
        snapshots = read_snapshots(text, known_plugins(), file)
    except OSError as e:
        complain(f"{file}: cannot be read: {e.strerror}")
        return 2
    except UnicodeDecodeError as e:
        complain(f"{file}: cannot be read: it is no text: {e}")
        return 2
    except BatchFileError as e:
        complain(str(e))
        return 2
    full = name if name is None or "/" in name else f"default/{name}"
    asked = [s for s in snapshots if full is None or full in _names(s)]
    if full is not None and not asked:
        complain(f"{file}: no task or podgroup {full}; names are namespace/name")
        return 3
    answers = [a for s in asked for a in explain_snapshot(s, full)]
    if as_json:
        write(json.dumps(msgspec.to_builtins(answers), indent=2))
        return 0
    if not answers:
        write("nothing waits")
    for answer in answers:
        for line in answer.lines(several=len(snapshots) > 1):
            write(line)
    return 0


def explain_snapshot(snapshot: Snapshot, full: str | None = None) -> list[Explanation]:
    """Decide a snapshot; an answer for `full` (namespace/name), or for each podgroup that waits
    and each task that waits without a podgroup. A podgroup's answer has those of its tasks."""
    session, plan = decide(snapshot)
    starts = expected_starts(session)
    groups = {g.uid: g for g in snapshot.podgroups}
    members: dict[str, list[str]] = {uid: [] for uid in groups}
    alone = []
    for t in snapshot.tasks:
        uid = f"{t.namespace}/{t.podgroup}"
        members[uid].append(t.uid) if uid in members else alone.append(t.uid)

    def of_group(uid: str) -> Explanation:
        waiting = [t for t in members[uid] if t in plan.rejections]
        start = starts.get(uid)
        return structs.replace(
            _explanation(snapshot, plan, uid, "podgroup"),
            expected_start=UNSET if start is None else ExpectedStart(**structs.asdict(start)),
            queue=groups[uid].queue,
            tasks=_alike(plan, waiting),
        )

    if full is not None:
        out = [of_group(full)] if full in groups else []
        return out + [
            _explanation(snapshot, plan, t.uid, "task") for t in snapshot.tasks if t.uid == full
        ]
    rejected = plan.rejections
    waiting = [u for u in groups if u in rejected or any(t in rejected for t in members[u])]
    lone = [_explanation(snapshot, plan, t, "task") for t in alone if t in rejected]
    return [of_group(u) for u in waiting] + lone


def _names(snapshot: Snapshot) -> set[str]:
    return {g.uid for g in snapshot.podgroups} | {t.uid for t in snapshot.tasks}


def _explanation(snapshot: Snapshot, plan: Plan, uid: str, kind: str) -> Explanation:
    found = plan.rejections.get(uid, ())
    node = plan.binds.get(uid)
    if kind == "task" and node is None:
        node = next((t.node for t in snapshot.tasks if t.uid == uid and t.node), None)
    return Explanation(
        snapshot=snapshot.name,
        name=uid,
        kind=kind,
        waits=bool(found),
        reasons=_reasons(found),
        node=UNSET if node is None else node,
        evicted=True if uid in plan.evicted else UNSET,
    )


def _reasons(found: Sequence[Rejection]) -> list[Reason]:
    return [
        Reason(
            reason=r.reason,
            count=r.count,
            detail=dict(r.detail),
            sentence=sentence(r),
            change=remedy(r),
        )
        for r in found
    ]


def _alike(plan: Plan, tasks: Sequence[str]) -> list[AlikeTasks]:
    """Tasks that were turned away alike, together."""
    together: list[tuple[list[str], tuple[Rejection, ...]]] = []
    for t in tasks:
        found = plan.rejections[t]
        names = next((n for n, known in together if known == found), None)
        if names is None:
            together.append(([t], found))
        else:
            names.append(t)
    return [AlikeTasks(names=names, reasons=_reasons(found)) for names, found in together]
