"""Files that are kept for later objects: their number is limited, the best fit is used, and the
oldest is dropped first.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.objects.file_pool import MAX_BYTES, MAX_FILES, MIN_BYTES, FilePool

MIB = 1 << 20
CAPACITY = 80 * MIB


@pytest.mark.parametrize(
    ("puts", "asked", "taken"),
    [
        ("", 1, ""),
        ("a2", 2, "a"),
        ("a2", 3, ""),
        ("a2 b3 c4", 3, "b"),
        ("a2 b4", 3, "b"),
        ("a8", 4, "a"),
        ("a8", 3, ""),  # more than half of it would lie idle
        ("a2 a4", 2, "a"),  # the later copy of the same object
        ("a2 a4", 1, ""),
    ],
)
def test_the_smallest_that_fits_is_taken(puts, asked, taken):
    spares = FilePool(CAPACITY)
    for one in puts.split():
        assert spares.put(one[0], int(one[1:]) * MIB) == []
    before = spares.total_bytes
    assert spares.take(asked * MIB) == taken
    assert (spares.total_bytes < before) == bool(taken)
    assert spares.take(asked * MIB) != taken or not taken


@pytest.mark.parametrize("size", [0, MIN_BYTES - 1, CAPACITY // 8 + 1])
def test_too_small_and_too_large_ones_are_not_kept(size):
    spares = FilePool(CAPACITY)
    assert spares.put("a", size) == ["a"]
    assert spares.total_bytes == 0


def test_the_oldest_make_room():
    spares = FilePool(CAPACITY)
    assert [spares.put(n, 4 * MIB) for n in "abc"] == [[], [], ["a"]]
    assert spares.free(1) == ["b"]
    assert spares.free(100 * MIB) == ["c"]
    assert spares.free(1) == []


def test_no_more_files_than_the_limit():
    spares = FilePool(1 << 40)
    gone = [name for i in range(MAX_FILES + 3) for name in spares.put(f"f{i}", MIN_BYTES)]
    assert gone == ["f0", "f1", "f2"]
    assert spares.put("large", MAX_BYTES)[-1] == f"f{MAX_FILES + 2}"


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from("abcd"), st.integers(0, 12 * MIB)),
            st.tuples(st.just("take"), st.just(""), st.integers(0, 12 * MIB)),
            st.tuples(st.just("free"), st.just(""), st.integers(0, 12 * MIB)),
        ),
        max_size=30,
    )
)
def test_what_is_kept_is_counted_and_bounded(events):
    spares, kept = FilePool(CAPACITY), {}
    for what, name, size in events:
        if what == "put":
            gone = spares.put(name, size)
            kept[name] = size
        elif what == "take":
            gone = [taken] if (taken := spares.take(size)) else []
            assert all(kept[taken] >= size for taken in gone)
        else:
            gone = spares.free(size)
        for one in gone:
            del kept[one]
        assert spares.total_bytes == sum(kept.values()) <= CAPACITY // 8
