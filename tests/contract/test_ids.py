"""Identifiers: lengths, conversions, comparison, and what a ref tells about its task."""

from __future__ import annotations

import pickle

import pytest

LENGTHS = {
    "JobID": 4,
    "ActorID": 16,
    "PlacementGroupID": 18,
    "TaskID": 24,
    "ObjectRef": 28,
    "NodeID": 28,
    "WorkerID": 28,
    "UniqueID": 28,
}


@pytest.fixture(params=LENGTHS)
def id_class(ray, request):
    return getattr(ray, request.param)


def sample(id_class):
    return id_class(bytes(range(1, id_class.size() + 1)))


def test_lengths(ray):
    assert {name: getattr(ray, name).size() for name in LENGTHS} == LENGTHS


def test_binary_and_hex_agree(id_class):
    given = sample(id_class)
    assert given.binary() == bytes(range(1, id_class.size() + 1))
    assert given.hex() == given.binary().hex()


def test_an_id_of_the_wrong_length_is_refused(id_class):
    with pytest.raises(ValueError):
        id_class(b"short")


def test_an_id_from_text_is_refused(id_class):
    with pytest.raises(TypeError):
        id_class("ff")


def test_ids_compare_by_value_and_hash(id_class):
    assert sample(id_class) == sample(id_class)
    assert hash(sample(id_class)) == hash(sample(id_class))
    assert sample(id_class) != id_class.nil()
    assert len({sample(id_class), sample(id_class), id_class.nil()}) == 2


def test_nil(id_class):
    assert id_class.nil().is_nil()
    assert id_class.nil().binary() == b"\xff" * id_class.size()
    assert not sample(id_class).is_nil()


def test_ids_can_be_pickled(id_class):
    assert pickle.loads(pickle.dumps(sample(id_class))) == sample(id_class)


def test_repr_shows_the_class_and_hex(id_class):
    assert repr(sample(id_class)) == f"{id_class.__name__}({sample(id_class).hex()})"


@pytest.mark.parametrize("name", [n for n in LENGTHS if n not in ("ObjectRef", "UniqueID")])
def test_from_hex(ray, name):
    id_class = getattr(ray, name)
    assert id_class.from_hex(sample(id_class).hex()) == sample(id_class)


@pytest.mark.parametrize("name", ["ActorID", "NodeID", "WorkerID", "UniqueID", "ObjectRef"])
def test_from_random_differs(ray, name):
    id_class = getattr(ray, name)
    assert id_class.from_random() != id_class.from_random()


def test_job_ids_count(ray):
    assert ray.JobID.from_int(7).int() == 7


def test_object_id_is_the_class_of_refs(ray):
    assert ray.ObjectID is ray.ObjectRef


def test_refs_of_one_task_share_its_task_id(ray):
    @ray.remote(num_returns=2)
    def two():
        return 1, 2

    first, second = two.remote()
    assert isinstance(first.task_id(), ray.TaskID)
    assert first.task_id() == second.task_id()
    assert first != second


def test_a_ref_knows_its_job(ray):
    ref = ray.put(1)
    assert ref.job_id().hex() == ray.get_runtime_context().get_job_id()


def test_a_task_runs_under_the_id_of_its_ref(ray, get):
    @ray.remote
    def task_id():
        return ray.get_runtime_context().get_task_id()

    ref = task_id.remote()
    assert get(ref) == ref.task_id().hex()


def test_an_actor_handle_knows_its_id(ray, get):
    @ray.remote
    class Plain:
        def actor_id(self):
            return ray.get_runtime_context().get_actor_id()

    actor = Plain.remote()
    assert isinstance(actor._actor_id, ray.ActorID)
    assert get(actor.actor_id.remote()) == actor._actor_id.hex()


def test_refs_are_dictionary_keys(ray):
    refs = [ray.put(i) for i in range(3)]
    table = {ref: i for i, ref in enumerate(refs)}
    assert [table[ref] for ref in refs] == [0, 1, 2]
