"""The closing tables of the demo, and the same figures as JSON."""

from __future__ import annotations

from typing import Any, NamedTuple

from rich.table import Table

from phalanx_research.demo.search import Search
from phalanx_research.demo.teams import Shared
from phalanx_research.demo.training import Training

BEST = 8


class Burst(NamedTuple):
    """Empty tasks that were submitted directly after each other: their number, and the seconds
    until all results had arrived.
    """

    tasks: int
    seconds: float


class Outcome(NamedTuple):
    """The results of all parts of a finished demo."""

    data_bytes: int
    search: Search
    training: Training
    burst: Burst
    shared: Shared
    seconds: float

    @property
    def in_place_bytes(self) -> int:
        """The bytes that tasks and actors read in shared memory without copying."""
        trials = sum(trial.in_place_bytes for trial in self.search.trials)
        return trials + self.training.in_place_bytes


def tables(outcome: Outcome) -> list[Table]:
    """Return the tables of the best trials and of the overall figures."""
    best = Table(title=f"The best {min(BEST, len(outcome.search.trials))} trials")
    for heading in ("units", "rate", "momentum", "decay", "batch", "accuracy", "seconds"):
        best.add_column(heading, justify="right")
    for trial in outcome.search.trials[:BEST]:
        settings = trial.settings
        best.add_row(
            str(settings.hidden),
            f"{settings.learning_rate:.3f}",
            f"{settings.momentum:.1f}",
            f"{settings.weight_decay:.0e}",
            str(settings.batch),
            f"{trial.accuracy:.1%}",
            f"{trial.seconds:.2f}",
        )
    whole = Table(title="The whole", show_header=False)
    whole.add_column("what")
    whole.add_column("figure", justify="right")
    for name, figure in _figures(outcome):
        whole.add_row(name, figure)
    return [best, whole]


def _figures(outcome: Outcome) -> list[tuple[str, str]]:
    search, training, burst = outcome.search, outcome.training, outcome.burst
    return [
        ("accuracy on the test images", f"{training.test:.1%}"),
        ("search", f"{len(search.trials)} trials in {search.seconds:.1f} s"),
        ("training", f"{training.steps} steps in {training.seconds:.1f} s"),
        ("actor calls per second, in training", f"{training.calls / training.seconds:,.0f}"),
        ("two teams' queues", f"3 gangs of {outcome.shared.members}: one waited, one came back"),
        ("empty tasks per second", f"{burst.tasks / burst.seconds:,.0f}"),
        ("data put once in shared memory", f"{outcome.data_bytes / 1e6:.1f} MB"),
        ("bytes moved without copying", f"{outcome.in_place_bytes / 1e6:,.1f} MB"),
        ("time", f"{outcome.seconds:.1f} s"),
    ]


def document(outcome: Outcome, problems: list[str]) -> dict[str, Any]:
    """Return the outcome as a mapping for JSON."""
    search, training, burst = outcome.search, outcome.training, outcome.burst
    return {
        "ok": not problems,
        "problems": problems,
        "seconds": outcome.seconds,
        "search": {
            "seconds": search.seconds,
            "trials": [
                {
                    **trial.settings._asdict(),
                    "accuracy": trial.accuracy,
                    "seconds": trial.seconds,
                }
                for trial in search.trials
            ],
        },
        "training": {
            "test_accuracy": training.test,
            "validation_accuracies": training.accuracies,
            "steps": training.steps,
            "actor_calls": training.calls,
            "seconds": training.seconds,
        },
        "tasks_a_second": burst.tasks / burst.seconds,
        "teams": outcome.shared._asdict(),
        "data_bytes": outcome.data_bytes,
        "in_place_bytes": outcome.in_place_bytes,
    }
