"""Arguments whose files are gone when a worker wants them."""

from __future__ import annotations

import numpy
import pytest
from tests.system.chaos.lost.arrays import LENGTH, Reader, add, fill

import phalanx
from phalanx import exceptions as errors


@pytest.mark.parametrize("reader", ["task", "actor", "async actor"])
def test_lost_arguments_are_made_again_and_the_attempt_is_not_charged(get, lose, runs, reader):
    ran, count = runs
    refs = [fill.remote(i) for i in range(3)]
    lose(*refs)

    def read(*arrays):
        ran()
        return [a[0] for a in arrays]

    if reader == "task":
        answer = phalanx.remote(max_retries=0)(read).remote(*refs)
    else:

        @phalanx.remote
        class Host:
            def read(self, *arrays):
                return read(*arrays)

            async def read_async(self, *arrays):
                return read(*arrays)

        host = Host.remote()
        method = host.read if reader == "actor" else host.read_async
        answer = method.remote(*refs)
    assert get(answer) == [0.0, 1.0, 2.0]
    assert count() == 1


@pytest.mark.parametrize("name", ["", "named"])
def test_lost_arguments_of_a_constructor_are_made_again(get, lose, name):
    ref = fill.remote(9)
    lose(ref)
    reader = Reader.options(name=name or None).remote(ref)
    assert get(reader.get_kept.remote()) == 9.0


def test_calls_go_on_in_order_behind_one_whose_argument_was_lost(get, lose):
    ref = fill.remote(1)
    reader = Reader.remote()
    get(reader.get_kept.remote())
    lose(ref)
    answers = [reader.first.remote(ref) for _ in range(20)]
    assert get(answers) == [1.0] * 20


def test_a_put_argument_is_kept_for_what_was_made_of_it(get, lose):
    ref = phalanx.put(numpy.ones(LENGTH))
    total = add.remote(ref, 1)
    lose(total)
    del ref
    assert get(total)[0] == 2.0


def test_a_put_argument_that_is_lost_itself_is_named(get, lose):
    ref = phalanx.put(numpy.ones(LENGTH))
    total = add.remote(ref, 1)
    phalanx.wait([total], timeout=120)
    name = ref.hex()
    del ref
    lose()
    with pytest.raises(errors.ObjectLostError, match=f"{name} is lost") as found:
        get(total)
    assert found.value.object_ref_hex == name


def test_arguments_given_by_value_go_with_the_task_again(get, lose):
    total = add.remote(numpy.ones(LENGTH), numpy.ones(LENGTH))
    lose(total)
    assert get(total)[0] == 2.0


def test_arguments_given_by_value_cannot_be_made_again(get, lose):
    total = add.remote(numpy.ones(LENGTH), 1)
    phalanx.wait([total], timeout=120)
    lose()
    with pytest.raises(errors.ObjectReconstructionFailedError, match="by value"):
        get(total)
