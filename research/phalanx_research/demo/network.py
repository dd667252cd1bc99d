"""A small network in NumPy: two hidden layers, with all parameters in one flat vector."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phalanx_research.demo.digits import CLASSES, SIDE, Labels, Pixels

Vector = NDArray[np.float32]


class Shape(NamedTuple):
    """The shape of the network: the number of units in the first hidden layer. The second hidden
    layer has half as many.
    """

    hidden: int

    def layers(self) -> list[tuple[int, int]]:
        """The numbers of inputs and outputs of each layer."""
        units = (SIDE * SIDE, self.hidden, self.hidden // 2, CLASSES)
        return list(itertools.pairwise(units))


def initial(shape: Shape, rng: np.random.Generator) -> Vector:
    """Return random parameters: weights scaled by sqrt(2 / inputs) (He et al. 2015), biases
    zero.
    """
    parts = [
        part
        for inputs, outputs in shape.layers()
        for part in (
            rng.normal(0, np.sqrt(2 / inputs), inputs * outputs),
            np.zeros(outputs),
        )
    ]
    return np.concatenate(parts).astype(np.float32)


def predict(vector: Vector, shape: Shape, pixels: Pixels) -> Labels:
    """Return the most likely digit of each image."""
    digits: Labels = _activations(vector, shape, pixels)[-1].argmax(axis=1)
    return digits


def accuracy(vector: Vector, shape: Shape, pixels: Pixels, labels: Labels) -> float:
    """Return the fraction of images whose digit is predicted correctly."""
    return float((predict(vector, shape, pixels) == labels).mean())


def gradient(vector: Vector, shape: Shape, pixels: Pixels, labels: Labels) -> Vector:
    """Return the gradient of the mean cross-entropy over the batch, as one flat vector."""
    activations = _activations(vector, shape, pixels)
    scores = activations[-1]
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = exponentials / exponentials.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    parts: list[Vector] = []
    for (weights, _), inputs in reversed(
        list(zip(_parts(vector, shape), activations[:-1], strict=True))
    ):
        parts += [error.sum(axis=0), (inputs.T @ error).ravel()]
        error = (error @ weights.T) * (inputs > 0)
    return np.concatenate(parts[::-1])


def _parts(vector: Vector, shape: Shape) -> Iterator[tuple[Vector, Vector]]:
    """Yield views of the weights and the biases of each layer."""
    at = 0
    for inputs, outputs in shape.layers():
        weights = vector[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        yield weights, vector[at : at + outputs]
        at += outputs


def _activations(vector: Vector, shape: Shape, pixels: Pixels) -> list[Vector]:
    """Return the input of each layer, and the scores of the last layer."""
    activations: list[Vector] = [pixels]
    for weights, biases in _parts(vector, shape):
        activations.append(np.maximum(activations[-1] @ weights + biases, 0))
    weights, biases = list(_parts(vector, shape))[-1]
    activations[-1] = activations[-2] @ weights + biases
    return activations
