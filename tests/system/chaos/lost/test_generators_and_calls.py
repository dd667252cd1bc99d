"""Lost items of generators, and lost results of actors' calls."""

from __future__ import annotations

import numpy
import pytest
from tests.system.chaos.lost.arrays import LENGTH, Reader

import phalanx
from phalanx import exceptions as errors


@pytest.mark.parametrize("returns", ["streaming", "dynamic"])
@pytest.mark.parametrize("kind", ["task", "actor"])
def test_lost_items_of_a_generator_are_made_again(get, lose, returns, kind):
    def items(count):
        for i in range(count):
            yield numpy.full(LENGTH, float(i))

    if kind == "task":
        made = phalanx.remote(num_returns=returns, max_retries=-1)(items).remote(5)
    else:

        @phalanx.remote(max_task_retries=-1)
        class Host:
            def items(self, count):
                yield from items(count)

        host = Host.remote()
        made = host.items.options(num_returns=returns).remote(5)
    refs = list(made if returns == "streaming" else get(made))
    for victims in ([0], [4, 1], [0, 1, 2, 3, 4]):
        lose(*[refs[i] for i in victims])
        assert [a[0] for a in get(refs)] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_an_item_that_does_not_come_again_says_so(get, lose, runs):
    ran, count = runs

    @phalanx.remote
    def fewer():
        ran()
        for i in range(4 - count()):
            yield numpy.full(LENGTH, float(i))

    refs = list(fewer.remote())
    lose(*refs)
    assert get(refs[0])[0] == 0.0
    with pytest.raises(errors.ObjectReconstructionFailedError, match="fewer items"):
        get(refs[2])


def test_a_dynamic_generator_may_give_more_references_than_fit_a_message(get):
    count = 6000  # their pickle is a file of its own, which must outlive the generator's end

    @phalanx.remote(num_returns="dynamic")
    def many():
        yield from range(count)

    refs = list(get(many.remote()))
    assert (len(refs), get(refs[-1])) == (count, count - 1)


@pytest.mark.parametrize("retries", [0, 1])
def test_results_of_calls_are_made_again_as_max_task_retries_allows(get, lose, retries):
    reader = Reader.options(max_task_retries=retries).remote()
    ref = reader.fill.remote(6)
    for _ in range(retries):
        lose(ref)
        assert get(ref)[0] == 6.0
    lose(ref)
    with pytest.raises(errors.ObjectReconstructionFailedError, match="max_task_retries="):
        get(ref)


def test_results_of_a_dead_actor_are_lost(get, lose):
    reader = Reader.options(max_task_retries=-1).remote()
    ref = reader.fill.remote(6)
    phalanx.wait([ref], timeout=120)
    phalanx.kill(reader)
    lose(ref)
    with pytest.raises(errors.ObjectReconstructionFailedError, match="its actor is dead"):
        get(ref)
