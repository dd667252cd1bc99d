"""The second part of the demo: data-parallel training, with parameters exchanged through actors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

import phalanx
from phalanx.util.progress import track
from phalanx_research.demo.descent import Descent, Settings
from phalanx_research.demo.digits import Digits, in_place_bytes
from phalanx_research.demo.network import Shape, Vector, accuracy, gradient, initial

EPOCHS = 20


class Training(NamedTuple):
    """The result of training: `accuracies` on the validation part after each epoch, `test` at the
    end.
    """

    accuracies: list[float]
    test: float
    steps: int
    calls: int
    seconds: float
    in_place_bytes: int


class ParameterServer:
    """An actor that holds the parameters and updates them by the mean of the workers' gradients."""

    def __init__(self, settings: Settings, data: Digits, seed: int) -> None:
        self._shape = Shape(settings.hidden)
        self._descent = Descent(initial(self._shape, np.random.default_rng(seed)), settings)
        self._data = data
        self._in_place_bytes = data.read_in_place_bytes()

    def parameters(self) -> Vector:
        """Return the current parameters."""
        return self._descent.vector

    def apply(self, *gradients: Vector) -> Vector:
        """Update the parameters by these gradients; return the new parameters."""
        self._in_place_bytes += sum(in_place_bytes(each) for each in gradients)
        total = gradients[0].copy()
        for each in gradients[1:]:
            total += each
        return self._descent.step(total / np.float32(len(gradients)))

    def validate(self) -> float:
        """Return the accuracy on the validation part."""
        data = self._data
        return accuracy(self._descent.vector, self._shape, data.valid_x, data.valid_y)

    def test(self) -> float:
        """Return the accuracy on the test part, which was not used before."""
        data = self._data
        return accuracy(self._descent.vector, self._shape, data.test_x, data.test_y)

    def read_in_place_bytes(self) -> int:
        """Return the bytes of data and gradients that were read without a copy."""
        return self._in_place_bytes


class Worker:
    """An actor that computes gradients on every n-th image, in a random order of its own."""

    def __init__(
        self, number: int, workers: int, settings: Settings, data: Digits, seed: int
    ) -> None:
        self._rows = np.arange(number, len(data.train_y), workers)
        self._rng = np.random.default_rng([seed, number])
        self._shape = Shape(settings.hidden)
        self._batch = max(1, settings.batch // workers)
        self._data = data
        self._in_place_bytes = data.read_in_place_bytes()
        self._at = len(self._rows)

    def gradient(self, parameters: Vector) -> Vector:
        """Return the gradient at these parameters on the next batch."""
        self._in_place_bytes += in_place_bytes(parameters)
        if self._at + self._batch > len(self._rows):
            self._rng.shuffle(self._rows)
            self._at = 0
        rows = self._rows[self._at : self._at + self._batch]
        self._at += self._batch
        return gradient(parameters, self._shape, self._data.train_x[rows], self._data.train_y[rows])

    def read_in_place_bytes(self) -> int:
        """Return the bytes of data and parameters that were read without a copy."""
        return self._in_place_bytes


def train(
    data_ref: Any,
    train_size: int,
    settings: Settings,
    *,
    workers: int,
    seed: int,
    console: Console,
    clock: Callable[[], float] = time.perf_counter,
) -> Training:
    """Train with `workers` actors. All steps are submitted in advance, as calls whose arguments are
    the results of other calls. Parameters and gradients are passed between actors through shared
    memory, without this process.
    """
    began = clock()
    cpus = phalanx.cluster_resources().get("CPU", 1)
    share = 1 if workers <= cpus else np.floor(cpus / workers * 100) / 100
    server = phalanx.remote(num_cpus=0)(ParameterServer).remote(settings, data_ref, seed)
    crew = [
        phalanx.remote(num_cpus=float(share))(Worker).remote(
            number, workers, settings, data_ref, seed
        )
        for number in range(workers)
    ]
    steps = train_size // (max(1, settings.batch // workers) * workers)
    parameters = server.parameters.remote()
    epochs = []
    for _ in range(EPOCHS):
        for _ in range(steps):
            parameters = server.apply.remote(
                *[worker.gradient.remote(parameters) for worker in crew]
            )
        epochs.append(server.validate.remote())
    for _ in track(epochs, f"training, {workers} workers, {EPOCHS} epochs", console=console):
        pass
    accuracies = phalanx.get(epochs)
    in_place = phalanx.get(
        [server.read_in_place_bytes.remote(), *(each.read_in_place_bytes.remote() for each in crew)]
    )
    return Training(
        accuracies=accuracies,
        test=phalanx.get(server.test.remote()),
        steps=EPOCHS * steps,
        calls=EPOCHS * (steps * (workers + 1) + 1),
        seconds=clock() - began,
        in_place_bytes=sum(in_place),
    )
