"""The tree of exception classes."""

from __future__ import annotations

import pickle

import pytest


def test_exceptions_of_the_module_can_be_pickled(errors):
    for error in (errors.GetTimeoutError("late"), errors.PendingCallsLimitExceeded("full")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)


TREE = [
    ("RayTaskError", "RayError"),
    ("TaskCancelledError", "RayError"),
    ("WorkerCrashedError", "RayError"),
    ("RayActorError", "RayError"),
    ("ActorDiedError", "RayActorError"),
    ("ActorUnavailableError", "RayActorError"),
    ("RaySystemError", "RayError"),
    ("ObjectStoreFullError", "RayError"),
    ("OutOfDiskError", "RayError"),
    ("OutOfMemoryError", "RayError"),
    ("NodeDiedError", "RayError"),
    ("ObjectLostError", "RayError"),
    ("ObjectFreedError", "ObjectLostError"),
    ("OwnerDiedError", "ObjectLostError"),
    ("ObjectFetchTimedOutError", "ObjectLostError"),
    ("ObjectReconstructionFailedError", "ObjectLostError"),
    ("GetTimeoutError", "RayError"),
    ("AsyncioActorExit", "RayError"),
    ("RuntimeEnvSetupError", "RayError"),
    ("TaskPlacementGroupRemoved", "RayError"),
    ("ActorPlacementGroupRemoved", "RayError"),
    ("PendingCallsLimitExceeded", "RayError"),
    ("TaskUnschedulableError", "RayError"),
    ("ActorUnschedulableError", "RayError"),
    ("ObjectRefStreamEndOfStreamError", "RayError"),
    ("CrossLanguageError", "RayError"),
    ("LocalRayletDiedError", "RayError"),
    ("PlasmaObjectNotAvailable", "RayError"),
    ("ReferenceCountingAssertionError", "ObjectLostError"),
]


@pytest.mark.parametrize(("name", "parent"), TREE, ids=[name for name, _ in TREE])
def test_the_tree_of_exceptions(errors, name, parent):
    assert issubclass(getattr(errors, name), getattr(errors, parent))


def test_a_get_timeout_is_a_timeout_error(errors):
    assert issubclass(errors.GetTimeoutError, TimeoutError)


def test_errors_about_names_of_actors_are_value_errors(errors):
    assert issubclass(errors.ActorAlreadyExistsError, ValueError)
    assert issubclass(errors.ActorHandleNotFoundError, ValueError)


def test_out_of_band_refs_have_their_error_under_rays_spelling(errors):
    assert issubclass(errors.OufOfBandObjectRefSerializationException, errors.RayError)
