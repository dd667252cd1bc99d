"""Environment variables of tasks and actors."""

from __future__ import annotations

import os
import threading

import pytest


@pytest.fixture
def read(ray):
    @ray.remote
    def read(*names):
        return tuple(os.environ.get(name) for name in names)

    return read


def env(**variables):
    return {"runtime_env": {"env_vars": variables}}


def test_a_task_sees_its_variables(get, read):
    assert get(read.options(**env(CONTRACT_A="1")).remote("CONTRACT_A")) == ("1",)


def test_variables_do_not_leak_to_other_tasks(get, read):
    get(read.options(**env(CONTRACT_B="1")).remote("CONTRACT_B"))
    assert get([read.remote("CONTRACT_B") for _ in range(4)]) == [(None,)] * 4


def test_two_environments_side_by_side(get, read):
    refs = [read.options(**env(CONTRACT_C=str(i))).remote("CONTRACT_C") for i in (1, 2)]
    assert get(refs) == [("1",), ("2",)]


def test_an_actor_sees_its_variables(ray, get):
    @ray.remote
    class Reader:
        def read(self):
            return os.environ.get("CONTRACT_D")

    assert get(Reader.options(**env(CONTRACT_D="actor")).remote().read.remote()) == "actor"


def test_the_decorator_takes_a_runtime_env(ray, get):
    @ray.remote(runtime_env={"env_vars": {"CONTRACT_E": "decorated"}})
    def read():
        return os.environ.get("CONTRACT_E")

    assert get(read.remote()) == "decorated"


def test_a_child_inherits_its_parents_variables(ray, get, read):
    @ray.remote
    def parent():
        return ray.get(read.remote("CONTRACT_F"))

    assert get(parent.options(**env(CONTRACT_F="inherited")).remote()) == ("inherited",)


def test_a_childs_variables_are_merged_over_its_parents(ray, get, read):
    child = read.options(**env(CONTRACT_H="child", CONTRACT_I="child"))

    @ray.remote
    def parent():
        return ray.get(child.remote("CONTRACT_G", "CONTRACT_H", "CONTRACT_I"))

    parents = env(CONTRACT_G="parent", CONTRACT_H="parent")
    assert get(parent.options(**parents).remote()) == ("parent", "child", "child")


def test_a_variable_may_refer_to_another(get, read):
    options = env(CONTRACT_J="${HOME}/sub")
    assert get(read.options(**options).remote("CONTRACT_J")) == (f"{os.environ['HOME']}/sub",)


def test_the_runtime_context_tells_the_environment(ray, get):
    @ray.remote
    def tell():
        return dict(ray.get_runtime_context().runtime_env)

    assert get(tell.options(**env(CONTRACT_K="1")).remote())["env_vars"] == {"CONTRACT_K": "1"}


def test_a_worker_is_reused_for_the_same_environment(ray, get, eventually):
    @ray.remote
    def pid():
        return os.getpid()

    options = env(CONTRACT_L="1")
    seen = [get(pid.options(**options).remote())]

    def is_reused():
        seen.append(get(pid.options(**options).remote()))
        return len(set(seen)) < len(seen)

    eventually(is_reused)


def test_runtime_env_class_is_accepted(get, read, part):
    runtime_env = part("runtime_env").RuntimeEnv(env_vars={"CONTRACT_M": "1"})
    assert get(read.options(runtime_env=runtime_env).remote("CONTRACT_M")) == ("1",)


def test_a_setup_hook_runs_in_every_worker(fresh, get):
    def hook():
        os.environ["CONTRACT_HOOK"] = "ran"

    fresh.init(num_cpus=1, include_dashboard=False, runtime_env={"worker_process_setup_hook": hook})
    assert get(fresh.remote(lambda: os.environ.get("CONTRACT_HOOK")).remote()) == "ran"


def test_an_actor_whose_setup_hook_raises_cannot_be_made(fresh, get, part):
    def hook():
        raise ValueError("no setup today")

    fresh.init(num_cpus=1, include_dashboard=False, runtime_env={"worker_process_setup_hook": hook})

    class Plain:
        def ping(self):
            return "here"

    with pytest.raises(part("exceptions").RayActorError, match="no setup today"):
        get(fresh.remote(Plain).remote().ping.remote())


def test_a_setup_hook_that_cannot_travel_is_refused_by_init(fresh, part):
    lock = threading.Lock()
    with pytest.raises(part("exceptions").RuntimeEnvSetupError, match="export the setup function"):
        fresh.init(
            num_cpus=1,
            include_dashboard=False,
            runtime_env={"worker_process_setup_hook": lambda: lock},
        )


@pytest.mark.parametrize(
    "wrong",
    [{"working_dir": "/nowhere/at/all"}, {"py_modules": ["/nowhere/at/all"]}],
    ids=["working_dir", "py_modules"],
)
def test_a_directory_that_is_not_there_is_refused(ray, get, read, fresh, wrong):
    with pytest.raises(ValueError, match="not a valid"):
        fresh.init(num_cpus=1, include_dashboard=False, runtime_env=wrong)
    fresh.shutdown()
    fresh.init(num_cpus=1, include_dashboard=False)
    task = fresh.remote(lambda: 1)

    class Plain:
        pass

    for use in (task, fresh.remote(Plain)):
        with pytest.raises(ValueError, match="not a valid"):
            use.options(runtime_env=wrong).remote()


@pytest.mark.parametrize(
    "wrong",
    [
        {"working_dir": 3},
        {"py_modules": "/tmp"},
        {"py_modules": [3]},
        {"excludes": "*.txt"},
        {"excludes": [1]},
        {"config": "fast"},
        {"config": {"setup_timeout_seconds": "1"}},
        {"config": {"eager_install": "no"}},
        {"worker_process_setup_hook": 3},
        {"env_vars": ["A"]},
    ],
    ids=repr,
)
def test_fields_of_wrong_types_are_refused(fresh, wrong):
    with pytest.raises((TypeError, ValueError)):
        fresh.init(num_cpus=1, include_dashboard=False, runtime_env=wrong)


def test_a_variable_that_does_not_exist_is_empty(get, read):
    options = env(CONTRACT_N="<${CONTRACT_IS_NOT_SET}>")
    assert get(read.options(**options).remote("CONTRACT_N")) == ("<>",)
