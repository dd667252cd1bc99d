"""The main job: a search and a training on real handwritten digits, on all cores."""

from __future__ import annotations

TRIALS = 32


def run(trials: int = TRIALS, workers: int | None = None, *, json: bool = False) -> int:
    """Run the demo and print its tables (or JSON); the exit code is 0 when all went well.

    `trials` is the number of settings tried, `workers` the number of training actors (one for
    each CPU by default, at most eight). The code is 1 when something failed or the accuracy is
    poor, 2 when it could not begin.
    """
    from phalanx_research.demo.command import execute

    return execute(trials=trials, workers=workers, json=json)
