"""The rows of steps in Slurm's listings: `12.0`, `12_7.1`."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.adapters.slurm.commands.numbers import slurm_id
from phalanx.adapters.slurm.commands.usage import address
from phalanx.adapters.slurm.states import attempt_state, code_of
from phalanx.cli.history import ANSWER_S
from phalanx.cli.reach import ask, is_elsewhere
from phalanx.cli.times import clock, length
from phalanx.model.steps import RUNNING, Step
from phalanx.observe.accounting.questions import MAX_ATTEMPTS, AttemptQuery
from phalanx.protocol.requests.accounting import ListAttempts

Name = tuple[str, str, float]
"""A job's namespace, name and time of submission, which distinguishes jobs with the same name."""


def by_job(steps: Iterable[Step]) -> dict[Name, list[Step]]:
    """Return the steps of each job, in the order of their numbers."""
    found: dict[Name, list[Step]] = {}
    for step in sorted(steps, key=lambda one: one.number):
        found.setdefault((step.namespace, step.job, step.submitted), []).append(step)
    return found


def steps_of(found: dict[Name, list[Step]], job: Name, others: Iterable[Name]) -> list[Step]:
    """Remove the steps of a job from `found`, and return them. For an array, this includes the
    steps of its array tasks, except for array tasks in `others`, which have their own rows.
    """
    namespace, name, submitted = job
    apart = set(others)
    mine = [
        key
        for key in found
        if key == job
        or (
            (key[::2] == (namespace, submitted) and key[1].startswith(f"{name}["))
            and key not in apart
        )
    ]
    return [step for key in sorted(mine) for step in found.pop(key)]


def step_row(step: Step, now: float) -> dict[str, str]:
    """Return the fields of a step, without those that only jobs have."""
    seconds = step.elapsed_s(now)
    most, mean = step.memory_max, step.memory_mean
    return {
        "id": f"{slurm_id(step.job)}.{step.number}",
        "name": step.name,
        "state": attempt_state(step.state),
        "elapsed": length(seconds),
        "seconds": str(int(seconds)),
        "nodes": str(len(step.nodes)),
        "nodelist": ",".join(dict.fromkeys(step.nodes)),
        "cpus": f"{step.cpus:g}",
        "tasks": str(step.tasks),
        "submit": clock(step.started),
        "start": clock(step.started),
        "end": clock(step.ended),
        "code": code_of(step.exit_code or 0, step.signal),
        "cputime": length(step.cpus * seconds),
        "cpuseconds": str(int(step.cpus * seconds)),
        "totalcpu": length(step.cpu_s),
        "usercpu": length(step.cpu_s),
        "avecpu": length(step.cpu_s / max(step.tasks, 1)),
        "tres": f"cpu={step.cpus:g},node={max(len(step.nodes), 1)}",
        "maxrss": f"{most / 1024:.0f}K" if most else "",
        "averss": "" if mean is None else f"{mean / 1024:.0f}K",
    }


def running_steps() -> list[Step]:
    """Return all running steps, oldest first."""
    if is_elsewhere(address()):
        return []  # nodes of a Ray cluster have no steps
    query = AttemptQuery(states=[RUNNING], has_attempts=False, has_steps=True, limit=MAX_ATTEMPTS)
    return ask(address(), ListAttempts(query), ANSWER_S).steps[::-1]
