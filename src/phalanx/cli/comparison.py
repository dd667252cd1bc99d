"""What `phalanx what-if` compares, and how it shows that."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from phalanx.batch.reading import read_snapshots
from phalanx.batch.registry import known_plugins
from phalanx.batch.specs import Snapshot, TaskSpec
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import table
from phalanx.errors import BatchFileError
from phalanx.head.jobs.podgroup import podgroup_of
from phalanx.manifests.findings import ManifestError
from phalanx.manifests.quantities import batch_amounts, quantity
from phalanx.manifests.reading import read_checked
from phalanx.manifests.shapes import shape_of
from phalanx.model.jobs.records import new_job
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.readable import age
from phalanx.plan.what_if import (
    Comparison,
    Start,
    Submission,
    compare,
    with_nodes,
    with_nodes_of,
    with_weight,
    without_nodes,
)
from phalanx.protocol.requests.gangs import TakeSnapshot

NODES = "COUNT:NODE (as that one), or COUNT:CPU=64,GPU=8,memory=512Gi"


def compared(
    address: str | None,
    snapshot: Path | None,
    *,
    add_nodes: Iterable[str],
    remove_nodes: Iterable[str],
    weights: Iterable[str],
    submit: Iterable[Path],
) -> Comparison:
    """What the options of the command mean, compared. Ends the command for what is wrong."""
    before = _snapshot(snapshot, address)
    try:
        after = without_nodes(before, remove_nodes)
        for one in add_nodes:
            after = _with_nodes(after, one)
        for one in weights:
            queue, _, number = one.rpartition("=")
            if not queue or not number.lstrip("-").isdigit():
                raise ValueError(f"--weight {one!r}: it is QUEUE=N, as research=5")
            after = with_weight(after, queue, int(number))
        submissions = [job for file in submit for job in _submissions(after, file)]
    except ValueError as error:
        fail(str(error), USAGE)
    return compare(before, after, submissions)


def comparison_text(found: Comparison) -> str:
    """A row for each podgroup that waits, before or after; those that would be stopped."""
    lines = []
    if found.starts:
        head = ("PODGROUP", "QUEUE", "START", "IF", "CHANGE")
        lines.append(table(head, [_row(one, found.stopped) for one in found.starts]))
    else:
        lines.append("Nothing waits, before or after.")
    if found.stopped:
        lines += ["", f"Would be stopped, and wait again: {', '.join(found.stopped)}"]
    return "\n".join(lines)


def _row(one: Start, stopped: Collection[str]) -> list[str]:
    if one.podgroup in stopped:
        return [one.podgroup, one.queue, "runs", _start(one.after_s), "stopped"]
    if one.is_new:
        change = "new"
    elif one.before_s is None and one.after_s is None:
        change = ""
    elif one.before_s is None:
        change = "starts at all" if one.after_s else "starts"
    elif one.after_s is None:
        change = "does not start"
    else:
        gain = one.gain_s or 0.0
        word = "earlier" if gain > 0 else "later"
        change = f"{age(abs(gain))} {word}" if abs(gain) >= 1 else "same"
    return [one.podgroup, one.queue, _start(one.before_s), _start(one.after_s), change]


def _start(in_s: float | None) -> str:
    if in_s is None:
        return "-"
    return "now" if in_s <= 0 else f"in {age(in_s)}"


def _snapshot(file: Path | None, address: str | None) -> Snapshot:
    try:
        if file is None:
            text = ask(address, TakeSnapshot(has_past_runs=True)).decode()
        else:
            text = file.read_text(encoding="utf-8")
        found = read_snapshots(text, known_plugins(), str(file or "the cluster"))
    except OSError as error:
        fail(f"{file}: cannot be read: {error.strerror}", USAGE)
    except UnicodeDecodeError as error:
        fail(f"{file}: cannot be read: it is no text: {error}", USAGE)
    except BatchFileError as error:
        fail(str(error), USAGE)
    if len(found) != 1:
        fail(f"{file}: it holds {len(found)} snapshots, and one is compared at a time", USAGE)
    return found[0]


def _with_nodes(snapshot: Snapshot, written: str) -> Snapshot:
    """Raises ValueError for what is neither of the two forms."""
    count, _, what = written.partition(":")
    if not count.isdigit() or not what:
        raise ValueError(f"--add-nodes {written!r}: {NODES}")
    if "=" not in what:
        return with_nodes(snapshot, int(count), what)
    amounts = {}
    for part in what.split(","):
        name, _, amount = part.partition("=")
        if not name.strip() or quantity(amount) < 0:
            raise ValueError(f"--add-nodes {written!r}: {part!r} is no NAME=AMOUNT of at least 0")
        amounts[name.strip()] = quantity(amount)
    return with_nodes_of(snapshot, int(count), batch_amounts(amounts))


def _submissions(snapshot: Snapshot, file: Path) -> list[Submission]:
    """The jobs of a manifest as they would wait. Raises ValueError for a queue that is not there.

    A priority class is known to the cluster alone: a job has the priority that it names itself.
    """
    try:
        manifests, _ = read_checked(file.read_bytes(), str(file))
    except OSError as error:
        fail(f"{file}: cannot be read: {error.strerror}", USAGE)
    except ManifestError as error:
        fail(str(error), USAGE)
    jobs = [one.spec for one in manifests if isinstance(one.spec, JobSpec)]
    if not jobs:
        raise ValueError(f"{file}: it holds no job")
    queues = {queue.name for queue in snapshot.queues}
    known = {group.uid for group in snapshot.podgroups}
    for job in jobs:
        if job.queue not in queues:
            raise ValueError(f"{file}: job {job.name} names the queue {job.queue!r}, which is not")
        if f"{job.namespace}/{job.name}" in known:
            raise ValueError(f"{file}: there is a job {job.namespace}/{job.name} already")
    return [_submission(job, snapshot.now) for job in jobs]


def _submission(job: JobSpec, now: float) -> Submission:
    tasks = [
        TaskSpec(
            name=f"{job.name}-{group.name}-{index}",
            podgroup=job.name,
            shape=shape_of(job, group, index // group.partition.size if group.partition else None),
            priority=job.priority,
            created=now,
        )
        for group in job.groups
        for index in range(group.replicas)
    ]
    podgroup = podgroup_of(new_job(job, now), job.priority)
    return Submission(podgroup=podgroup, tasks=tuple(tasks))
