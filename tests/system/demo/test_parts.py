"""The parts of the demo, without a runtime: data, network, descent."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from phalanx_research.demo import run
from phalanx_research.demo.descent import Descent, Settings
from phalanx_research.demo.digits import DataMissing, in_place_bytes, load
from phalanx_research.demo.network import Shape, accuracy, gradient, initial, predict
from phalanx_research.demo.search import sample_settings

SETTINGS = Settings(hidden=64, learning_rate=0.1, momentum=0.9, weight_decay=0.0, batch=16)


@pytest.fixture(scope="module")
def data():
    pytest.importorskip("sklearn")
    return load(seed=1)


def test_the_parts_do_not_overlap_and_only_training_is_enlarged(data):
    assert len(data.train_y) % 9 == 0
    assert len(data.train_y) // 9 + len(data.valid_y) + len(data.test_y) == 1797
    training = {row.tobytes() for row in data.train_x}
    held_out = [row.tobytes() for row in np.concatenate([data.valid_x, data.test_x])]
    assert sum(row in training for row in held_out) == 0


def test_pixels_are_from_zero_to_one(data):
    for pixels in (data.train_x, data.valid_x, data.test_x):
        assert pixels.dtype == np.float32
        assert (pixels.min(), pixels.max()) == (0, 1)


def test_the_same_seed_gives_the_same_split(data):
    again, other = load(seed=1), load(seed=2)
    assert np.array_equal(data.test_x, again.test_x)
    assert not np.array_equal(data.test_x, other.test_x)


def test_a_shift_moves_the_image_by_one_pixel(data):
    count = len(data.train_y) // 9
    middle = data.train_x[4 * count : 5 * count].reshape(-1, 8, 8)
    first = data.train_x[:count].reshape(-1, 8, 8)
    assert np.array_equal(first[:, 1:, 1:], middle[:, :-1, :-1])
    assert np.array_equal(data.train_y[:count], data.train_y[4 * count : 5 * count])


def test_only_read_only_views_count_as_in_place():
    own = np.zeros(4)
    view = own[:2]
    assert (in_place_bytes(own), in_place_bytes(view)) == (0, 0)
    view.flags.writeable = False
    assert in_place_bytes(view) == 16


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_agrees_with_differences(seed):
    rng = np.random.default_rng(seed)
    shape = Shape(hidden=6)
    vector: Any = initial(shape, rng).astype(np.float64)  # differences need the digits
    pixels: Any = rng.random((5, 64))
    labels = rng.integers(0, 10, 5)

    def loss(at):
        scores = _scores(at, shape, pixels)
        scores -= scores.max(axis=1, keepdims=True)
        return float((np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(5), labels]).mean())

    exact = gradient(vector, shape, pixels, labels)
    for place in rng.choice(len(vector), 40, replace=False):
        step = np.zeros_like(vector)
        step[place] = 1e-6
        difference = (loss(vector + step) - loss(vector - step)) / 2e-6
        assert exact[place] == pytest.approx(difference, abs=1e-5)


def _scores(vector, shape, pixels):
    """Compute the network's scores with code of the test, which does not share the demo's
    mistakes.
    """
    first, second = shape.hidden, shape.hidden // 2
    sizes = [64 * first, first, first * second, second, second * 10, 10]
    w1, b1, w2, b2, w3, b3 = np.split(vector, np.cumsum(sizes)[:-1])
    hidden = np.maximum(pixels @ w1.reshape(64, first) + b1, 0)
    hidden = np.maximum(hidden @ w2.reshape(first, second) + b2, 0)
    return hidden @ w3.reshape(second, 10) + b3


def test_descent_learns_and_leaves_old_vectors_alone(data):
    shape = Shape(SETTINGS.hidden)
    start = initial(shape, np.random.default_rng(0))
    descent = Descent(start, SETTINGS)
    kept = start.copy()
    pixels, labels = data.train_x[:64], data.train_y[:64]
    for _ in range(100):
        descent.step(gradient(descent.vector, shape, pixels, labels))
    assert np.array_equal(start, kept)
    assert accuracy(descent.vector, shape, pixels, labels) > 0.95
    assert set(predict(descent.vector, shape, pixels)) <= set(range(10))


def test_settings_are_the_same_for_a_seed():
    assert sample_settings(5, seed=3) == sample_settings(5, seed=3)
    assert sample_settings(5, seed=3) != sample_settings(5, seed=4)


def test_without_the_digits_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataMissing):
        load(seed=1)
    assert run() == 2
    assert "pip install phalanx-research[demo]" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{"trials": 0}, {"workers": 0}])
def test_bad_counts_are_refused(options, capsys):
    assert run(**options) == 2
    assert "at least 1" in capsys.readouterr().err
