"""Results whose files are gone are made again, or their reader gets the exact reason why not."""

from __future__ import annotations

import asyncio
import os
import threading

import numpy
import pytest
from tests.system.chaos.lost.arrays import LENGTH, Reader, add, fill, first

import phalanx
from phalanx import exceptions as errors


def test_a_lost_result_is_made_again(get, lose, runs):
    ran, count = runs

    @phalanx.remote
    def make():
        ran()
        return numpy.full(LENGTH, 7.0)

    ref = make.remote()
    name = ref.hex()
    for times in (1, 2, 3):
        assert get(ref)[0] == 7.0
        assert (count(), ref.hex()) == (times, name)
        lose(ref)


def test_everything_it_was_made_of_is_made_again(get, lose):
    left, right = fill.remote(1), fill.remote(20)
    both = add.remote(left, right)
    total = add.remote(both, fill.remote(300))
    phalanx.wait([total], timeout=120)
    del left, right, both
    lose()
    assert get(total)[0] == 321.0


def test_a_long_lineage_is_no_deep_recursion(get, lose):
    ref = fill.remote(0)
    one = fill.remote(1)
    for _ in range(400):
        ref = add.remote(ref, one)
    phalanx.wait([ref], timeout=60)
    lose()
    assert phalanx.get(ref, timeout=120)[0] == 400.0


def test_a_long_lineage_whose_root_cannot_be_made_fails_with_the_root_s_error(get, lose):
    ref = phalanx.put(numpy.zeros(LENGTH))
    one = fill.remote(1)
    for _ in range(400):
        ref = add.remote(ref, one)
    phalanx.wait([ref], timeout=60)
    lose()
    with pytest.raises(errors.ObjectLostError, match="it was put by process"):
        phalanx.get(ref, timeout=120)


def test_many_readers_make_one_reconstruction(get, lose, runs):
    ran, count = runs

    @phalanx.remote
    def make():
        ran()
        return numpy.full(LENGTH, 7.0)

    @phalanx.remote
    def read(refs):
        return phalanx.get(refs[0], timeout=120)[0]

    ref = make.remote()
    lose(ref)
    found = []
    threads = [threading.Thread(target=lambda: found.append(get(ref)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    others = [read.remote([ref]) for _ in range(4)]
    for thread in threads:
        thread.join()
    assert found == [7.0] * 4
    assert get(others) == [7.0] * 4
    assert count() == 2


def test_a_borrower_has_it_made_again_by_the_owner(get, lose):
    @phalanx.remote(num_cpus=0)
    class Keeper:
        def keep(self, refs):
            self.ref = refs[0]
            return phalanx.get(self.ref)[0]

        def read(self):
            self.ref._cached = None
            return phalanx.get(self.ref, timeout=120)[0]

    ref = fill.remote(5)
    keeper = Keeper.remote()
    assert get(keeper.keep.remote([ref])) == 5.0
    for _ in range(2):
        lose(ref)
        assert get(keeper.read.remote()) == 5.0


def test_what_was_put_is_lost_for_good_and_the_error_says_whose_it_was(get, lose, session):
    ref = phalanx.put(numpy.zeros(LENGTH))
    lose(ref)
    owner = session.process_id.hex()
    for read in (lambda: get(ref), lambda: get(first.remote(ref))):
        with pytest.raises(errors.ObjectLostError, match=f"it was put by process {owner}"):
            read()


@pytest.mark.parametrize(
    ("retries", "good", "error", "words"),
    [
        (0, 0, "ObjectReconstructionFailedError", r"may not run again \(max_retries=0\)"),
        (2, 2, "ObjectReconstructionFailedMaxAttemptsExceededError", r"used up \(max_retries=2\)"),
    ],
)
def test_each_reconstruction_takes_a_retry(get, lose, retries, good, error, words):
    ref = fill.options(max_retries=retries).remote(3)
    for _ in range(good):
        lose(ref)
        assert get(ref)[0] == 3.0
    lose(ref)
    with pytest.raises(getattr(errors, error), match=words):
        get(ref)


def test_retries_without_a_limit(get, lose):
    ref = fill.options(max_retries=-1).remote(3)
    for _ in range(5):
        lose(ref)
        assert get(ref)[0] == 3.0


def test_a_task_may_give_something_else_when_it_runs_again(get, lose, runs):
    ran, count = runs

    @phalanx.remote
    def moody():
        ran()
        return numpy.full(LENGTH, float(count())) if count() < 3 else "small"

    ref = moody.remote()
    assert get(ref)[0] == 1.0
    lose(ref)
    assert get(ref)[0] == 2.0
    lose(ref)
    assert get(ref) == "small"


def test_an_error_of_the_second_run_is_the_reader_s(get, lose, runs):
    ran, count = runs

    @phalanx.remote
    def once():
        ran()
        if count() > 1:
            raise KeyError("again")
        return numpy.zeros(LENGTH)

    ref = once.remote()
    lose(ref)
    with pytest.raises(KeyError, match="again"):
        get(ref)


def test_of_several_results_only_lost_ones_are_taken(get, lose):
    @phalanx.remote(num_returns=4)
    def several(token=os.urandom):
        return [numpy.frombuffer(token(LENGTH * 8), dtype="u1") for _ in range(3)] + [4]

    refs = several.remote()
    before = [bytes(a) for a in get(refs[:3])]
    lose(refs[0], refs[2])
    after = [bytes(a) for a in get(refs[:3])]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True, False]
    assert get(refs[3]) == 4


def test_an_owner_that_died_is_named(get):
    reader = Reader.remote()
    (ref,) = get(reader.put.remote())
    owner = ref.owner_address()
    with pytest.raises(errors.ActorDiedError):
        get(reader.leave.remote())
    ref._value = None
    with pytest.raises(errors.OwnerDiedError, match=f"process {owner}, which owned it, has died"):
        get(ref)


def test_wait_futures_and_await_wait_for_it_again(get, lose):
    refs = [fill.remote(i) for i in range(3)]
    lose(*refs)
    assert refs[0].future().result(timeout=120)[0] == 0.0

    async def read():
        return (await refs[1])[0]

    assert asyncio.run(asyncio.wait_for(read(), 30)) == 1.0
    assert get(refs[2])[0] == 2.0
