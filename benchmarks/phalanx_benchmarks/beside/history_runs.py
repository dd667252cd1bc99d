"""Runs the same short jobs of the same users on real Slurm and on a cluster of Phalanx. An account
of Slurm is a queue of Phalanx.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

from phalanx_benchmarks.beside.histories import Accounts, ShortJob
from phalanx_benchmarks.beside.phalanx_cluster import PhalanxCluster
from phalanx_benchmarks.beside.processes import wait_until
from phalanx_benchmarks.beside.slurm_cluster import SlurmCluster

_PAST = "sacct -a -X -n -P -o JobName,ElapsedRaw,End"


class Span(NamedTuple):
    """When a job ran, in the whole seconds of `sacct`. `end` is in seconds since the epoch."""

    seconds: float
    end: float


Spans = Mapping[str, Span]
"""When each job ran, by the job's name."""


def make_queues(ours: PhalanxCluster, accounts: Accounts, before: Sequence[str]) -> None:
    """Make a queue with shares for each account, in place of the queues `before`."""
    for name in before:
        ours.done(f"phalanx queue delete {name}")
    for name, (weight, users) in accounts.items():
        shares = " ".join(f"{user}={number}" for user, number in users.items())
        ours.done(
            f"phalanx queue create {name} --weight {weight} && phalanx set-shares {name} {shares}"
        )


def run_on_both(
    real: SlurmCluster, ours: PhalanxCluster, jobs: Sequence[ShortJob]
) -> tuple[Spans, Spans]:
    """Run the jobs on both sides at the same time. Return when they ran on each side."""
    with ThreadPoolExecutor(2) as pool:
        theirs = pool.submit(_run_on_slurm, real, jobs)
        mine = pool.submit(_run_on_phalanx, ours, jobs)
        return theirs.result(), mine.result()


def _run_on_slurm(real: SlurmCluster, jobs: Sequence[ShortJob]) -> Spans:
    lines = [
        f"sbatch --parsable --uid={job.user} -A {job.account} -J {job.name} -N1 -n{job.cpus}"
        f" --mem={job.mib} -o /dev/null --wrap 'sleep {job.sleeps_s}'"
        for job in jobs
    ]
    numbers = real.done("cd /tmp; " + " && ".join(lines)).split()
    wait_until(lambda: not real.run("squeue -h").stdout.strip(), "the end of drawn jobs")
    return _past(lambda: real.done(f"{_PAST} -j {','.join(numbers)}"), jobs)


def _run_on_phalanx(ours: PhalanxCluster, jobs: Sequence[ShortJob]) -> Spans:
    submit(ours, [manifest(job) for job in jobs])
    wait_until(lambda: not ours.run("squeue -h").stdout.strip(), "the end of drawn jobs")
    return _past(lambda: ours.done(_PAST), jobs)


def _past(read: Callable[[], str], jobs: Sequence[ShortJob]) -> Spans:
    """Wait until the accounting records have the ends of all jobs; return when each job ran."""
    found: dict[str, Span] = {}

    def has_all() -> bool:
        for line in read().splitlines():
            name, seconds, end = line.split("|")
            if end[:2] == "20":
                found[name] = Span(float(seconds), moment(end))
        return all(job.name in found for job in jobs)

    wait_until(has_all, "the accounts of drawn jobs")
    return {job.name: found[job.name] for job in jobs}


def moment(text: str) -> float:
    """Return a time that Slurm's commands print, in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def submit(ours: PhalanxCluster, manifests: Sequence[str]) -> None:
    """Submit jobs as their users. Only a manifest can name another user."""
    text = "---\n".join(manifests)
    ours.done(f"phalanx submit - <<'END'\n{text}END\n")


def manifest(job: ShortJob, nodes: int = 1, *, is_held: bool = False) -> str:
    """Return the manifest of a job that takes `job.cpus` CPUs on each of its nodes. A job without
    memory may run on all nodes, because only the first node of a machine has memory.
    """
    memory = f", memory: {job.mib}Mi" if job.mib else ""
    return (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
        f"metadata: {{name: {job.name}}}\n"
        f"spec:\n  user: {job.user}\n  queue: {job.account}\n"
        f"  minAvailable: {nodes}\n  hold: {str(is_held).lower()}\n  tasks:\n"
        f"  - replicas: {nodes}\n    name: a\n    template:\n      spec:\n"
        "        restartPolicy: Never\n        containers:\n"
        f'        - {{name: c, command: [sleep, "{job.sleeps_s}"], resources: '
        f"{{requests: {{cpu: {job.cpus}{memory}}}}}}}\n"
    )


@contextmanager
def drained(real: SlurmCluster, ours: PhalanxCluster) -> Iterator[None]:
    """Let no job start on either side until the block ends. Then all jobs are cancelled."""
    for node in real.nodes:
        ours.done(f"phalanx drain {node}")
    real.done(f"scontrol update nodename={','.join(real.nodes)} state=drain reason=drawn")
    try:
        yield
    finally:
        for side in (real, ours):
            side.settle()
        for node in real.nodes:
            undrain(real, ours, node)


def undrain(real: SlurmCluster, ours: PhalanxCluster, node: str) -> None:
    """Let jobs start on a node of both sides."""
    real.run(f"scontrol update nodename={node} state=resume")
    ours.run(f"phalanx undrain {node}")
