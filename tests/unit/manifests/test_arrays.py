"""Indices of arrays: what is accepted, what is refused, and the names of array tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from phalanx.manifests.arrays import array_faults, read_array, read_ranges, written_array
from phalanx.model.jobs.arrays import MAX_RANGES, ArraySpec, Indices, split_element


@pytest.mark.parametrize(
    ("written", "indices", "limit"),
    [
        ("0-4", [0, 1, 2, 3, 4], None),
        ("7", [7], None),
        ("0-99999%50", list(range(100_000)), 50),
        ("1,3,5-9:2%4", [1, 3, 5, 7, 9], 4),
        ("9,1-3", [1, 2, 3, 9], None),
        ("1-5,3-7", [1, 2, 3, 4, 5, 6, 7], None),
        ("0-10:4", [0, 4, 8], None),
        (" 2 , 4 ", [2, 4], None),
    ],
)
def test_indices_are_read_as_slurm_writes_them(written, indices, limit):
    array = read_array(written)
    assert list(Indices(array.ranges)) == indices
    assert (array.count, array.first, array.last) == (len(indices), indices[0], indices[-1])
    assert array.limit == limit
    assert read_array(written_array(array)) == array


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "an array is like 0-99"),
        ("a-b", "an array is like 0-99"),
        ("1,,2", "an array is like"),
        ("-5", "an array is like"),
        ("1:2", "an array is like"),
        ("1.5", "an array is like"),
        ("٣", "an array is like"),
        ("5-3", "has no index"),
        ("1-9:0", "has no index"),
        ("0-9%0", "at least 1, not '0'"),
        ("0-9%", "at least 1, not ''"),
        ("0-9%x", "at least 1, not 'x'"),
        ("0-999999999", "1,000,000,000 array tasks; at most 1,000,000 are allowed"),
        ("0-999999,0-999999", "2,000,000 array tasks; at most 1,000,000 are allowed"),
        ("99999999999", "an index is at most 2,147,483,647, not 99,999,999,999"),
        ("\x1b[31m", "an array is like"),
    ],
)
def test_what_is_no_array_is_refused_with_what_is_right(written, said):
    with pytest.raises(ValueError, match=said) as caught:
        read_array(written)
    assert str(caught.value).isprintable()


def test_ranges_have_a_limit():
    text = ",".join(str(2 * number) for number in range(MAX_RANGES))
    assert len(read_ranges(text)) == MAX_RANGES
    with pytest.raises(ValueError, match="10,001 ranges; at most 10,000 are allowed"):
        read_ranges(f"{text},{2 * MAX_RANGES}")


@given(hs.lists(hs.tuples(*[hs.integers(0, 60)] * 2, hs.integers(1, 7)), min_size=1, max_size=5))
def test_each_index_has_one_position_and_each_position_its_index(parts):
    text = ",".join(f"{min(a, b)}-{max(a, b)}:{step}" for a, b, step in parts)
    expected = sorted({i for a, b, step in parts for i in range(min(a, b), max(a, b) + 1, step)})
    indices = Indices(read_ranges(text))
    assert list(indices) == expected
    assert [indices.at(position) for position in range(len(indices))] == expected
    assert [indices.position(index) for index in expected] == list(range(len(expected)))
    assert all(indices.position(i) is None for i in set(range(-1, 70)) - set(expected))


@pytest.mark.parametrize("ranges", [((5, 3, 1),), ((0, 9, 2),), ((3, 4, 1), (0, 1, 1)), (),
                                    ((0, 10**9, 1),)])  # fmt: skip
def test_what_no_text_says_is_refused_from_whoever_sends_it(ranges):
    assert array_faults(ArraySpec(ranges=ranges))


def test_an_element_is_the_array_with_an_index():
    assert split_element("a.b[3-5]") == ("a.b", "3-5")
    assert split_element("a.b") is None
    assert split_element("a[3") is None
