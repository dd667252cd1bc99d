"""References that are passed on through several processes."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx


def test_a_reference_read_from_a_borrowed_value_outlives_that_value(runtime, get):
    """The owner freed the object, because the process in between dropped its reference before this
    process had registered as a borrower.
    """

    @runtime.remote
    def chain(length):
        return chain.remote(length - 1) if length else "end"

    for _ in range(3):
        ref = chain.remote(12)
        for _ in range(13):
            ref = get(ref)
        assert ref == "end"


def test_all_references_of_a_stream_are_kept_until_its_reader_has_them(runtime, get):
    """Of its references to objects of other owners, a worker kept only those in its last result."""

    @phalanx.remote
    class Owner:
        def make(self, i):
            return [runtime.put(np.full(30_000, i))]

    @runtime.remote
    def pass_on(owner):
        for i in range(20):
            yield runtime.get(owner.make.remote(i))

    owner = Owner.remote()
    inner = [get(ref)[0] for ref in pass_on.remote(owner)]
    assert [int(array[0]) for array in get(inner)] == list(range(20))


@pytest.mark.parametrize("kind", ["task", "call"])
def test_the_list_of_references_is_the_callers_own(runtime, get, kind):
    """When a caller removed a reference from the list, the remaining references got the values of
    others.
    """

    @runtime.remote(num_returns=3)
    def three():
        return 1, 2, 3

    class Actor:
        def three(self):
            return 1, 2, 3

    if kind == "task":
        refs = three.remote()
    else:
        refs = runtime.remote(Actor).remote().three.options(num_returns=3).remote()
    first = refs.pop(0)
    assert get(refs) == [2, 3]
    assert get(first) == 1
