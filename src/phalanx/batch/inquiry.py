"""Ask a snapshot file why its tasks and podgroups wait, and what would have to change."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from phalanx.batch.cycle import decide
from phalanx.batch.explain import sentence
from phalanx.batch.forecast import expected_starts
from phalanx.batch.plan import Plan, Rejection
from phalanx.batch.reading import read_snapshots
from phalanx.batch.registry import known_plugins
from phalanx.batch.remedies import remedy
from phalanx.batch.specs import Snapshot
from phalanx.errors import BatchFileError

Write = Callable[[str], None]
Answer = dict[str, Any]


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
    except (OSError, UnicodeDecodeError) as e:
        complain(f"{file}: cannot be read: {e}")
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
        write(json.dumps(answers, indent=2))
        return 0
    if not answers:
        write("nothing waits")
    for answer in answers:
        for line in answer_lines(answer, several=len(snapshots) > 1):
            write(line)
    return 0


def explain_snapshot(snapshot: Snapshot, full: str | None = None) -> list[Answer]:
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

    def of_group(uid: str) -> Answer:
        waiting = [t for t in members[uid] if t in plan.rejections]
        head = _answer(snapshot, plan, uid, "podgroup")
        if uid in starts:
            head["expected_start"] = msgspec.to_builtins(starts[uid])
        return head | {"queue": groups[uid].queue, "tasks": _alike(plan, waiting)}

    if full is not None:
        out = [of_group(full)] if full in groups else []
        return out + [
            _answer(snapshot, plan, t.uid, "task") for t in snapshot.tasks if t.uid == full
        ]
    rejected = plan.rejections
    waiting = [u for u in groups if u in rejected or any(t in rejected for t in members[u])]
    lone = [_answer(snapshot, plan, t, "task") for t in alone if t in rejected]
    return [of_group(u) for u in waiting] + lone


def _names(snapshot: Snapshot) -> set[str]:
    return {g.uid for g in snapshot.podgroups} | {t.uid for t in snapshot.tasks}


def _answer(snapshot: Snapshot, plan: Plan, uid: str, kind: str) -> Answer:
    found = plan.rejections.get(uid, ())
    answer: Answer = {"snapshot": snapshot.name, "name": uid, "kind": kind, "waits": bool(found)}
    node = plan.binds.get(uid)
    if kind == "task" and node is None:
        node = next((t.node for t in snapshot.tasks if t.uid == uid and t.node), None)
    if node is not None:
        answer["node"] = node
    if uid in plan.evicted:
        answer["evicted"] = True
    return answer | {"reasons": _reasons(found)}


def _reasons(found: Sequence[Rejection]) -> list[Answer]:
    return [
        {
            "reason": r.reason,
            "count": r.count,
            "detail": dict(r.detail),
            "sentence": sentence(r),
            "change": remedy(r),
        }
        for r in found
    ]


def _alike(plan: Plan, tasks: Sequence[str]) -> list[Answer]:
    """Tasks that were turned away alike, together."""
    together: list[tuple[list[str], tuple[Rejection, ...]]] = []
    for t in tasks:
        found = plan.rejections[t]
        names = next((n for n, known in together if known == found), None)
        if names is None:
            together.append(([t], found))
        else:
            names.append(t)
    return [{"names": names, "reasons": _reasons(found)} for names, found in together]


def answer_lines(answer: Answer, *, several: bool = False) -> list[str]:
    """An answer in words; `several`: with the name of its snapshot."""
    where = f"{answer['snapshot']}: " if several and answer["snapshot"] else ""
    of = f" of queue {answer['queue']}" if "queue" in answer else ""
    tasks = answer.get("tasks", ())
    if answer.get("evicted"):
        state = f"is evicted from {answer['node']}"
    elif answer["waits"] or tasks:
        state = "waits"
    else:
        state = f"runs on {answer['node']}" if "node" in answer else "does not wait"
    out = [f"{where}{answer['kind']} {answer['name']}{of} {state}"]
    if "expected_start" in answer:
        out.append(f"  {_when(**answer['expected_start'])}")
    out += _said(answer["reasons"])
    for alike in tasks:
        names = alike["names"]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        out += [f"  {'tasks' if len(names) > 1 else 'task'} {shown}", *_said(alike["reasons"], 4)]
    return out


def _when(at_s: float, in_s: float, after_tasks: int) -> str:
    ends = "1 task has" if after_tasks == 1 else f"{after_tasks} tasks have"
    return f"expected to start in {in_s:g} s (at {at_s:g}), once {ends} ended, if run times hold"


def _said(reasons: Sequence[Answer], indent: int = 2) -> list[str]:
    out = []
    for r in reasons:
        out.append(f"{' ' * indent}- {r['sentence']}")
        if r["change"]:
            out.append(f"{' ' * indent}  to change that: {r['change']}")
    return out
