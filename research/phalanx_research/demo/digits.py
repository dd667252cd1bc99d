"""The data of the demo: handwritten digits, split into parts. The training part also has shifted
copies.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.float32]
Labels = NDArray[np.int64]

SIDE = 8
CLASSES = 10
TRAIN, VALID = 0.6, 0.2


class DataMissing(Exception):
    """Raised if the digits are not installed. The text says how to get them."""


class Digits(NamedTuple):
    """Images as rows of 64 values from 0 to 1, with their digits. The search uses only `train` and
    `valid`; `test` is used only once, at the end.
    """

    train_x: Pixels
    train_y: Labels
    valid_x: Pixels
    valid_y: Labels
    test_x: Pixels
    test_y: Labels

    def size_bytes(self) -> int:
        """The total size of all six arrays in bytes."""
        return sum(array.nbytes for array in self)

    def read_in_place_bytes(self) -> int:
        """The bytes that this process reads in place, as read-only views of shared memory."""
        return sum(in_place_bytes(array) for array in self)


def in_place_bytes(array: NDArray[Any]) -> int:
    """Return the array's bytes if it is a read-only view of other memory, and otherwise 0."""
    return 0 if array.flags.owndata or array.flags.writeable else array.nbytes


def load(seed: int) -> Digits:
    """Load the digits that come with scikit-learn. Raises DataMissing if it is not installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as missing:
        raise DataMissing(
            "The demo's digits come with scikit-learn: install it with "
            "`pip install phalanx-research[demo]`."
        ) from missing
    images, labels = load_digits(return_X_y=True)
    pixels = (images / 16).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(labels))
    train, valid, test = np.split(
        order, [int(len(order) * TRAIN), int(len(order) * (TRAIN + VALID))]
    )
    # The images are enlarged after the split, so that no shifted copy of a training image is in the
    # test part.
    train_x, train_y = _with_shifts(pixels[train], labels[train])
    return Digits(train_x, train_y, pixels[valid], labels[valid], pixels[test], labels[test])


def _with_shifts(pixels: Pixels, labels: Labels) -> tuple[Pixels, Labels]:
    """Return each image and its eight shifted copies, by one pixel to each side and corner."""
    padded = np.pad(pixels.reshape(-1, SIDE, SIDE), ((0, 0), (1, 1), (1, 1)))
    shifted = [
        padded[:, down : down + SIDE, right : right + SIDE].reshape(-1, SIDE * SIDE)
        for down in range(3)
        for right in range(3)
    ]
    return np.ascontiguousarray(np.concatenate(shifted)), np.tile(labels, len(shifted))
