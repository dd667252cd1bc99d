"""The first part of the demo: tries each set of settings in a separate task."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

import phalanx
from phalanx.util.progress import track
from phalanx_research.demo.descent import Descent, Settings
from phalanx_research.demo.digits import Digits
from phalanx_research.demo.network import Shape, accuracy, gradient, initial

EPOCHS = 6


class Trial(NamedTuple):
    """The result of one set of settings."""

    settings: Settings
    accuracy: float
    seconds: float
    in_place_bytes: int


class Search(NamedTuple):
    """The trials with the best first, the errors of failed trials, and the seconds of the whole
    search.
    """

    trials: list[Trial]
    errors: list[str]
    seconds: float


def sample_settings(count: int, seed: int) -> list[Settings]:
    """Return `count` random sets of settings. Rates and decays are uniform on a logarithmic
    scale.
    """
    rng = np.random.default_rng(seed)
    return [
        Settings(
            hidden=int(rng.choice([192, 256, 320])),
            learning_rate=float(10 ** rng.uniform(-2.5, -0.3)),
            momentum=float(rng.choice([0.0, 0.5, 0.9])),
            weight_decay=float(10 ** rng.uniform(-6, -3)),
            batch=int(rng.choice([64, 128, 256])),
        )
        for _ in range(count)
    ]


def try_settings(settings: Settings, data: Digits, seed: int) -> Trial:
    """Train briefly on the training part, and evaluate on the validation part."""
    began = time.perf_counter()
    rng = np.random.default_rng(seed)
    shape = Shape(settings.hidden)
    descent = Descent(initial(shape, rng), settings)
    for _ in range(EPOCHS):
        order = rng.permutation(len(data.train_y))
        for at in range(0, len(order), settings.batch):
            rows = order[at : at + settings.batch]
            descent.step(gradient(descent.vector, shape, data.train_x[rows], data.train_y[rows]))
    return Trial(
        settings=settings,
        accuracy=accuracy(descent.vector, shape, data.valid_x, data.valid_y),
        seconds=time.perf_counter() - began,
        in_place_bytes=data.read_in_place_bytes(),
    )


def search(
    data_ref: Any,
    count: int,
    seed: int,
    console: Console,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Search:
    """Try `count` sets of settings as tasks that share the data of `data_ref`."""
    began = clock()
    attempt = phalanx.remote(try_settings)
    refs = [attempt.remote(settings, data_ref, seed) for settings in sample_settings(count, seed)]
    trials: list[Trial] = []
    errors: list[str] = []
    for ref in track(refs, f"search, {count} trials", console=console):
        try:
            trials.append(phalanx.get(ref))
        except Exception as error:
            errors.append(f"a trial failed: {error}")
    trials.sort(key=lambda trial: (-trial.accuracy, trial.seconds))
    return Search(trials, errors, clock() - began)
