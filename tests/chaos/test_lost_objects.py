"""Files of objects are deleted behind the engine's back: they are made again, or the reader is
told precisely why not."""

from __future__ import annotations

import asyncio
import os
import threading

import numpy
import pytest
from tests.polling import eventually

import phalanx
from phalanx import exceptions as errors
from phalanx.engines.interface import current

LENGTH = 50_000
"""Of arrays that are too large for a message."""


@pytest.fixture(scope="module")
def session():
    """A runtime that the tests here share."""
    phalanx.shutdown()
    phalanx.init(num_cpus=2, log_to_driver=False)
    yield current().runtime
    phalanx.shutdown()


@pytest.fixture
def get(session):
    return lambda refs: phalanx.get(refs, timeout=30)


@pytest.fixture
def lose(session):
    """Delete the files of these objects, which are there, or of all of them."""

    def lose(*refs):
        for ref in refs:
            phalanx.wait([ref], timeout=30)
            ref._cached = None
        names = [ref._value.data.decode() for ref in refs] or os.listdir(session.session.shared)
        for name in names:
            os.unlink(os.path.join(session.session.shared, name))

    return lose


@pytest.fixture
def runs(tmp_path):
    """(a function for tasks to call, how often they did)."""
    path = str(tmp_path / "runs")

    def ran():
        with open(path, "a") as file:
            file.write(".")

    def count():
        return os.path.getsize(path) if os.path.exists(path) else 0

    return ran, count


@phalanx.remote
def fill(value, *_):
    return numpy.full(LENGTH, float(value))


@phalanx.remote
def add(left, right):
    return left + right


@phalanx.remote
def first(array):
    return array[0]


@phalanx.remote
class Reader:
    def __init__(self, array=None):
        self.kept = None if array is None else array[0]

    def first(self, array):
        return array[0]

    def fill(self, value):
        return numpy.full(LENGTH, float(value))

    def get_kept(self):
        return self.kept

    def put(self):
        self.mine = phalanx.put(numpy.zeros(LENGTH))
        return [self.mine]

    def leave(self):
        os._exit(1)


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
    phalanx.wait([total], timeout=30)
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
        return phalanx.get(refs[0], timeout=30)[0]

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
            return phalanx.get(self.ref, timeout=30)[0]

    ref = fill.remote(5)
    keeper = Keeper.remote()
    assert get(keeper.keep.remote([ref])) == 5.0
    for _ in range(2):
        lose(ref)
        assert get(keeper.read.remote()) == 5.0


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


def test_what_was_put_is_lost_for_good_and_the_error_says_whose_it_was(get, lose, session):
    ref = phalanx.put(numpy.zeros(LENGTH))
    lose(ref)
    owner = session.process_id.hex()
    for read in (lambda: get(ref), lambda: get(first.remote(ref))):
        with pytest.raises(errors.ObjectLostError, match=f"it was put by process {owner}"):
            read()


def test_a_put_argument_that_was_freed_is_named(get, lose):
    ref = phalanx.put(numpy.ones(LENGTH))
    total = add.remote(ref, 1)
    lose(total)
    name = ref.hex()
    del ref
    with pytest.raises(errors.ObjectLostError, match=f"{name} is lost.*freed it") as found:
        get(total)
    assert found.value.object_ref_hex == name


def test_arguments_given_by_value_go_with_the_task_again(get, lose):
    total = add.remote(numpy.ones(LENGTH), numpy.ones(LENGTH))
    lose(total)
    assert get(total)[0] == 2.0


def test_arguments_given_by_value_cannot_be_made_again(get, lose):
    total = add.remote(numpy.ones(LENGTH), 1)
    phalanx.wait([total], timeout=30)
    lose()
    with pytest.raises(errors.ObjectReconstructionFailedError, match="by value"):
        get(total)


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
    phalanx.wait([ref], timeout=30)
    phalanx.kill(reader)
    lose(ref)
    with pytest.raises(errors.ObjectReconstructionFailedError, match="its actor is dead"):
        get(ref)


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
    assert refs[0].future().result(timeout=30)[0] == 0.0

    async def read():
        return (await refs[1])[0]

    assert asyncio.run(asyncio.wait_for(read(), 30)) == 1.0
    assert get(refs[2])[0] == 2.0


def test_of_a_node_that_is_gone_nothing_is_made_before_somebody_needs_it(session, get, lose, runs):
    ran, count = runs

    @phalanx.remote
    def make(value):
        ran()
        return numpy.full(LENGTH, float(value))

    refs = [make.remote(i) for i in range(4)]
    small = phalanx.put(3)
    put = phalanx.put(numpy.zeros(LENGTH))
    phalanx.wait(refs, num_returns=4, timeout=30)
    with session.lock:
        session.values.node_lost(b"\0" * 6)  # another one
    assert all(ref._value is not None for ref in refs)
    writers = {ref._value.data[:12].decode() for ref in [*refs, put]}
    with session.lock:
        for writer in writers:
            session.values.node_lost(bytes.fromhex(writer))
    assert all(ref._value is None for ref in refs)
    assert count() == 4
    ready, rest = phalanx.wait(refs[:2], num_returns=2, timeout=30)
    assert (len(ready), len(rest)) == (2, 0)
    assert count() == 6
    assert [get(first.remote(ref)) for ref in refs] == [0.0, 1.0, 2.0, 3.0]
    assert count() == 8
    assert get(small) == 3
    with pytest.raises(errors.ObjectLostError, match="it was put by"):
        get(put)


def test_a_lineage_that_was_dropped_for_want_of_room_is_named(session, get, lose, monkeypatch):
    monkeypatch.setattr(session.values.reconstruction.lineage, "limit_bytes", 1 << 20)
    refs = []
    for i in range(4):
        refs.append(add.remote(numpy.full(LENGTH, float(i)), 0))
        phalanx.wait(refs, num_returns=len(refs), timeout=30)
    lose(*refs)
    evicted = errors.ObjectReconstructionFailedLineageEvictedError
    with pytest.raises(evicted, match="an owner keeps 1 MiB"):
        get(refs[0])
    assert get(refs[3])[0] == 3.0


def test_only_large_results_are_remembered_and_only_while_they_are_held(session, get):
    lineage = session.values.reconstruction.lineage
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
    assert not session.values.reconstruction.running


def test_what_is_remembered_keeps_no_bytes_of_its_inputs(session, get):
    left = fill.remote(1)
    total = add.remote(left, left)
    nested = fill.remote(2, [left])
    phalanx.wait([total, nested], num_returns=2, timeout=30)
    path = os.path.join(session.session.shared, left._value.data.decode())
    assert os.path.exists(path)
    del left
    session.flush()
    assert eventually(lambda: not os.path.exists(path))
