"""Gradient descent with momentum on a flat vector of parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phalanx_research.demo.network import Vector


class Settings(NamedTuple):
    """The settings that the search varies: the network's width, and parameters of the training."""

    hidden: int
    learning_rate: float
    momentum: float
    weight_decay: float
    batch: int

    def __str__(self) -> str:
        return (
            f"{self.hidden} units, rate {self.learning_rate:.3f}, momentum {self.momentum:.2f}, "
            f"decay {self.weight_decay:.0e}, batch {self.batch}"
        )


class Descent:
    """The parameters and their velocity. Each step makes a new vector and leaves the old one
    unchanged.
    """

    def __init__(self, vector: Vector, settings: Settings) -> None:
        self.vector = vector
        self._velocity = np.zeros_like(vector)
        self._settings = settings

    def step(self, gradient: Vector) -> Vector:
        """Take one step down the gradient (Polyak's heavy ball, with weight decay)."""
        settings = self._settings
        slope = gradient + np.float32(settings.weight_decay) * self.vector
        self._velocity *= np.float32(settings.momentum)
        self._velocity -= np.float32(settings.learning_rate) * slope
        self.vector = self.vector + self._velocity
        return self.vector
