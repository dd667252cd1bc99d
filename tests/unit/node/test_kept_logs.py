"""The total size of the output of ended members is limited, and the oldest output is deleted
first.
"""

from __future__ import annotations

import pytest

from phalanx.node.kept_logs import KEPT_S, KeptLogs


class Files:
    """Logs with given sizes. At most 100 bytes of them are kept."""

    def __init__(self):
        self.sizes = {}

    def size(self, path):
        return self.sizes.get(path, 0)

    def most_kept(self):
        return 100

    def drop(self, path):
        del self.sizes[path]


@pytest.fixture
def files():
    return Files()


@pytest.fixture
def kept(files):
    return KeptLogs(files)


def ended(kept, files, job, size, now=0.0):
    files.sizes[job] = size
    kept.ended(job, job, now)


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ([40, 40], [40, 40]),
        ([50, 50], [50, 50]),
        ([40, 40, 40], [40, 40]),
        ([10, 20, 95], [95]),
        ([10, 101], []),
        ([0, 0, 100], [0, 0, 100]),
    ],
)
def test_the_oldest_go_where_all_take_too_much(kept, files, sizes, left):
    for number, size in enumerate(sizes):
        ended(kept, files, f"job{number}", size)
    assert list(files.sizes.values()) == left


def test_the_very_old_go(kept, files):
    ended(kept, files, "a", 1, now=0.0)
    ended(kept, files, "b", 1, now=10.0)
    kept.tick(KEPT_S)
    assert list(files.sizes) == ["a", "b"]
    kept.tick(KEPT_S + 1)
    assert list(files.sizes) == ["b"]


def test_what_is_forgotten_or_printed_into_again_does_not_count(kept, files):
    for job in ("a[1]", "a[2]", "ab", "c"):
        ended(kept, files, job, 25)
    kept.forget("a")
    kept.begins_again("ab")
    ended(kept, files, "d", 75)
    assert "c" in files.sizes
    assert [kept.drop_oldest() for _ in range(3)] == [True, True, False]
    assert list(files.sizes) == ["a[1]", "a[2]", "ab"]
