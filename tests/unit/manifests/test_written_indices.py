"""The indices of an array's tasks, as rows show them: exactly those that exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from phalanx.manifests.arrays import read_ranges
from phalanx.model.jobs.arrays import Indices


@pytest.mark.parametrize(
    ("array", "begin", "end", "written"),
    [
        ("1,3,5-7,20", 0, 6, "1,3,5-7,20"),
        ("1,3,5-7,20", 1, 4, "3,5-6"),
        ("1,3,5-7,20", 5, 6, "20"),
        ("0-9", 0, 10, "0-9"),
        ("0-9", 3, 4, "3"),
        ("1-9:4", 0, 3, "1,5,9"),
        ("0-30:3", 0, 11, "0-30:3"),
        ("0-30:3", 2, 9, "6-24:3"),
        ("0-30:3,40", 9, 12, "27,30,40"),
    ],
)
def test_what_is_written(array, begin, end, written):
    assert Indices(read_ranges(array)).written(begin, end) == written


@given(hs.sets(hs.integers(0, 60), min_size=1), hs.data())
def test_what_is_written_is_read_as_the_same(indices, data):
    all_of_them = Indices(read_ranges(",".join(map(str, sorted(indices)))))
    begin = data.draw(hs.integers(0, len(all_of_them) - 1))
    end = data.draw(hs.integers(begin + 1, len(all_of_them)))
    again = Indices(read_ranges(all_of_them.written(begin, end)))
    assert list(again) == [all_of_them.at(position) for position in range(begin, end)]
