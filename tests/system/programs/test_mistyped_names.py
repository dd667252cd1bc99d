"""Programs with mistyped names of actors, methods and environments: each error suggests the
intended name.
"""

from __future__ import annotations

import pytest

import phalanx
from phalanx import errors


@pytest.fixture(scope="module", autouse=True)
def runtime():
    phalanx.init(num_cpus=2)
    yield
    phalanx.shutdown()


@phalanx.remote(num_cpus=0)
class Counter:
    def value(self) -> int:
        return 1


def test_a_method_and_a_name_of_an_actor() -> None:
    actor = Counter.options(name="counter").remote()
    assert phalanx.get(actor.value.remote()) == 1
    with pytest.raises(AttributeError, match=r"no method 'valu'; did you mean 'value'\?"):
        _ = actor.valu
    assert not hasattr(actor, "__array__")
    with pytest.raises(ValueError, match=r"spelled differently; did you mean 'counter'\?"):
        phalanx.get_actor("countr")
    with pytest.raises(ValueError, match=r"spelled differently\.$"):
        phalanx.get_actor("something else")


def test_a_field_of_a_runtime_environment() -> None:
    task = phalanx.remote(lambda: 1).options(runtime_env={"env_var": {}})
    with pytest.raises(errors.RuntimeEnvSetupError, match=r"did you mean 'env_vars'\?"):
        phalanx.get(task.remote())


def test_a_job_and_a_queue() -> None:
    job = phalanx.submit(phalanx.Job("sleep 1000", name="two-groups"))
    with pytest.raises(errors.JobNotFoundError, match="did you mean 'two-groups'"):
        phalanx.explain("two-grups")
    job.cancel()
    with pytest.raises(errors.QueueUnavailableError, match="did you mean 'default'"):
        phalanx.submit(phalanx.Job("true", queue="defalt"))
