"""The tasks that an owner remembers so that they can make lost results again, and for how long it
remembers them.
"""

from __future__ import annotations

import os

import numpy
import pytest
from tests.polling import eventually
from tests.system.chaos.lost.arrays import LENGTH, add, fill, first

import phalanx
from phalanx import exceptions as errors
from phalanx.util.state.rows import rows


def test_of_a_node_that_is_gone_nothing_is_made_before_somebody_needs_it(session, get, lose, runs):
    ran, count = runs

    @phalanx.remote
    def make(value):
        ran()
        return numpy.full(LENGTH, float(value))

    refs = [make.remote(i) for i in range(4)]
    small = phalanx.put(3)
    put = phalanx.put(numpy.zeros(LENGTH))
    phalanx.wait(refs, num_returns=4, timeout=120)
    with session.lock:
        session.owner.objects.node_lost(b"\0" * 6)  # another one
    assert all(ref._value is not None for ref in refs)
    writers = {ref._value.data[:12].decode() for ref in [*refs, put]}
    with session.lock:
        for writer in writers:
            session.owner.objects.node_lost(bytes.fromhex(writer))
    assert all(ref._value is None for ref in refs)
    assert count() == 4
    ready, rest = phalanx.wait(refs[:2], num_returns=2, timeout=120)
    assert (len(ready), len(rest)) == (2, 0)
    assert count() == 6
    assert [get(first.remote(ref)) for ref in refs] == [0.0, 1.0, 2.0, 3.0]
    assert count() == 8
    assert get(small) == 3
    with pytest.raises(errors.ObjectLostError, match="it was put by"):
        get(put)


def test_a_lineage_that_was_dropped_for_want_of_room_is_named(session, get, lose, monkeypatch):
    monkeypatch.setattr(session.owner.reconstruction.lineage, "limit_bytes", 1 << 20)
    refs = []
    for i in range(4):
        refs.append(add.remote(numpy.full(LENGTH, float(i)), 0))
        phalanx.wait(refs, num_returns=len(refs), timeout=120)
    lose(*refs)
    evicted = errors.ObjectReconstructionFailedLineageEvictedError
    with pytest.raises(evicted, match="an owner keeps 1 MiB"):
        get(refs[0])
    assert get(refs[3])[0] == 3.0


def test_only_large_results_are_remembered_and_only_while_they_are_held(session, get):
    lineage = session.owner.reconstruction.lineage
    before = len(lineage)
    small = [first.remote(numpy.ones(1)) for _ in range(50)]
    get(small)
    assert len(lineage) == before
    left = fill.remote(1)
    total = add.remote(left, left)
    get(first.remote(total))
    assert len(lineage) == before + 2
    del left
    assert len(lineage) == before + 2
    del total
    assert len(lineage) == before
    assert not session.owner.reconstruction.running


def stores():
    return rows("stores", None, [], 10, 30.0, detail=True, is_whole=True)


def test_what_is_remembered_keeps_no_bytes_of_its_inputs(session, get):
    left = fill.remote(1)
    total = add.remote(left, left)
    nested = fill.remote(2, [left])
    phalanx.wait([total, nested], num_returns=2, timeout=120)
    name = left._value.data.decode()
    assert os.path.exists(os.path.join(session.session.shared, name))
    del left
    session.flush()
    # Its worker may keep the file, to write the next object there.
    eventually(lambda: all(name not in (store.files or {}) for store in stores()))
