"""The main example: searches hyperparameters and trains on handwritten digits, on all cores."""

from __future__ import annotations

TRIALS = 32


def run(trials: int = TRIALS, workers: int | None = None, *, json: bool = False) -> int:
    """Run the demo and print its tables (or JSON); return the exit code.

    `trials` is the number of settings tried, `workers` the number of training actors (default: one
    for each CPU, at most eight). The code is 0 if the demo succeeded, 1 if a part failed or the
    accuracy is poor, and 2 if the demo could not start.
    """
    from phalanx_research.demo.command import execute

    return execute(trials=trials, workers=workers, json=json)
