"""Wrong options: each is refused with Ray's class of error, before anything runs."""

from __future__ import annotations

import pytest

NEITHER = [
    ({"unknown": 1}, ValueError),
    ({"num_cpus": -1}, ValueError),
    ({"num_cpus": "1"}, TypeError),
    ({"num_cpus": 0.00001}, ValueError),
    ({"num_gpus": -1}, ValueError),
    ({"num_gpus": "1"}, TypeError),
    ({"num_gpus": 1.5}, ValueError),
    ({"num_gpus": 0.00001}, ValueError),
    ({"memory": -1}, ValueError),
    ({"memory": "1"}, TypeError),
    ({"resources": {"CPU": 1}}, ValueError),
    ({"resources": {"GPU": 1}}, ValueError),
    ({"resources": {"memory": 1}}, ValueError),
    ({"resources": {"object_store_memory": 1}}, ValueError),
    ({"resources": {"custom": -1}}, ValueError),
    ({"resources": {"custom": 0.00001}}, ValueError),
    ({"resources": {"custom": "1"}}, TypeError),
    ({"resources": [1]}, TypeError),
    ({"resources": "custom"}, TypeError),
    ({"name": 1}, TypeError),
    ({"runtime_env": 1}, TypeError),
    ({"runtime_env": {"env_vars": [1]}}, TypeError),
    ({"runtime_env": {"env_vars": {"A": 1}}}, TypeError),
    ({"runtime_env": {"env_vars": {1: "a"}}}, TypeError),
    ({"scheduling_strategy": "BOGUS"}, ValueError),
    ({"scheduling_strategy": 1}, TypeError),
    ({"label_selector": [1]}, TypeError),
    ({"label_selector": {"k": 1}}, TypeError),
    ({"label_selector": {"": "v"}}, ValueError),
    ({"label_selector": {"k": "in(a"}}, ValueError),
    ({"fallback_strategy": {"label_selector": {}}}, TypeError),
    ({"fallback_strategy": [{"unknown": 1}]}, ValueError),
    ({"accelerator_type": 1}, TypeError),
    ({"enable_task_events": 1}, TypeError),
    ({"placement_group": 1}, TypeError),
    ({"placement_group_bundle_index": 0}, ValueError),
    ({"_labels": {"a": 1}}, ValueError),
]

TASKS = [
    ({"num_returns": -1}, ValueError),
    ({"num_returns": 1.5}, TypeError),
    ({"num_returns": "several"}, TypeError),
    ({"num_returns": "streaming"}, ValueError),
    ({"num_returns": "dynamic"}, ValueError),
    ({"max_retries": -2}, ValueError),
    ({"max_retries": "1"}, TypeError),
    ({"max_retries": 1.5}, TypeError),
    ({"retry_exceptions": 1}, TypeError),
    ({"retry_exceptions": "all"}, TypeError),
    ({"retry_exceptions": ValueError}, TypeError),
    ({"retry_exceptions": [1]}, ValueError),
    ({"max_calls": -1}, ValueError),
    ({"max_calls": "1"}, TypeError),
    ({"max_calls": 1.5}, TypeError),
    ({"_generator_backpressure_num_objects": 0}, ValueError),
    ({"object_store_memory": 1}, ValueError),
    ({"max_restarts": 1}, ValueError),
    ({"max_concurrency": 2}, ValueError),
    ({"lifetime": "detached"}, ValueError),
]

ACTORS = [
    ({"max_restarts": -2}, ValueError),
    ({"max_restarts": "1"}, TypeError),
    ({"max_restarts": 1.5}, TypeError),
    ({"max_task_retries": -2}, ValueError),
    ({"max_task_retries": "1"}, TypeError),
    ({"max_concurrency": -1}, ValueError),
    ({"max_concurrency": "1"}, TypeError),
    ({"max_concurrency": 1.5}, TypeError),
    ({"max_pending_calls": -2}, ValueError),
    ({"max_pending_calls": "1"}, TypeError),
    ({"lifetime": "forever"}, ValueError),
    ({"lifetime": 1}, TypeError),
    ({"namespace": 1}, TypeError),
    ({"namespace": ""}, ValueError),
    ({"name": ""}, ValueError),
    ({"get_if_exists": True}, ValueError),
    ({"get_if_exists": 1}, TypeError),
    ({"concurrency_groups": 1}, TypeError),
    ({"allow_out_of_order_execution": 1}, TypeError),
    ({"object_store_memory": -1}, ValueError),
    ({"num_returns": 2}, ValueError),
    ({"max_calls": 1}, ValueError),
    ({"max_retries": 1}, ValueError),
    ({"retry_exceptions": True}, ValueError),
]


def rows(*tables):
    return [pytest.param(o, e, id=str(o)) for table in tables for o, e in table]


@pytest.mark.parametrize(("options", "error"), rows(NEITHER, TASKS))
def test_a_wrong_option_in_the_decorator_of_a_task(ray, options, error):
    with pytest.raises(error):
        ray.remote(**options)(lambda: None).remote()


@pytest.mark.parametrize(("options", "error"), rows(NEITHER, TASKS))
def test_a_wrong_option_of_one_call(ray, options, error):
    task = ray.remote(lambda: None)
    with pytest.raises(error):
        task.options(**options).remote()


@pytest.mark.parametrize(("options", "error"), rows(NEITHER, ACTORS))
def test_a_wrong_option_in_the_decorator_of_an_actor(ray, options, error):
    class Plain:
        pass

    with pytest.raises(error):
        ray.remote(**options)(Plain).remote()


@pytest.mark.parametrize(("options", "error"), rows(NEITHER, ACTORS))
def test_a_wrong_option_of_one_actor(ray, options, error):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(error):
        Plain.options(**options).remote()


def test_max_calls_belongs_to_the_decorator_only(ray):
    task = ray.remote(max_calls=1)(lambda: None)
    with pytest.raises(ValueError, match="max_calls"):
        task.options(max_calls=2)


def test_concurrency_groups_belong_to_the_decorator_only(ray):
    @ray.remote
    class Plain:
        pass

    with pytest.raises(ValueError, match="concurrency_groups"):
        Plain.options(concurrency_groups={"io": 2})


def test_an_unknown_option_is_named_beside_the_valid_ones(ray):
    with pytest.raises(ValueError, match=r"unknown.*num_cpus"):
        ray.remote(unknown=1)(lambda: None)


def test_a_message_names_what_was_given(ray):
    with pytest.raises(TypeError, match=r"num_cpus.*str"):
        ray.remote(num_cpus="two")(lambda: None)


@pytest.mark.parametrize("wrong", [(), (1,), (1, 2), ("text",)], ids=str)
def test_remote_takes_a_function_or_a_class(ray, wrong):
    with pytest.raises((AssertionError, TypeError)):
        ray.remote(*wrong)


def test_a_function_written_in_c_is_refused(ray):
    with pytest.raises(TypeError, match="function or a class"):
        ray.remote(len)
    with pytest.raises(TypeError, match="function or a class"):
        ray.remote(num_cpus=1)(len)


def test_remote_takes_either_a_function_or_options(ray):
    with pytest.raises((AssertionError, TypeError)):
        ray.remote(lambda: None, num_cpus=1)


def test_method_refuses_unknown_options(ray):
    with pytest.raises((AssertionError, TypeError, ValueError)):
        ray.method(unknown=1)(lambda self: None)


def test_method_refuses_a_negative_number_of_returns(ray):
    with pytest.raises(ValueError):
        ray.method(num_returns=-1)(lambda self: None)


def test_options_of_a_method_refuse_a_negative_number_of_returns(ray):
    @ray.remote
    class Plain:
        def call(self):
            pass

    actor = Plain.remote()
    with pytest.raises(ValueError):
        actor.call.options(num_returns=-1).remote()


def test_options_of_a_method_refuse_unknown_options(ray):
    @ray.remote
    class Plain:
        def call(self):
            pass

    actor = Plain.remote()
    with pytest.raises(TypeError):
        actor.call.options(unknown=1).remote()


@pytest.mark.parametrize(
    "options",
    [
        {"num_cpus": None},
        {"num_cpus": 0},
        {"num_cpus": 0.5},
        {"num_cpus": 2.0},
        {"memory": 1024},
        {"memory": 0.5},
        {"resources": None},
        {"resources": {"custom": 0}},
        {"resources": {"custom": 0.5}},
        {"max_retries": -1},
        {"retry_exceptions": [ValueError]},
        {"retry_exceptions": (ValueError, KeyError)},
        {"retry_exceptions": True},
        {"name": "a name"},
        {"num_returns": None},
        {"scheduling_strategy": "SPREAD"},
        {"scheduling_strategy": "DEFAULT"},
        {"scheduling_strategy": None},
        {"runtime_env": None},
        {"runtime_env": {}},
        {"enable_task_events": False},
        {"label_selector": {}},
        {"_labels": {"a": "b"}},
        {"placement_group": "default"},
        {},
    ],
    ids=str,
)
def test_a_valid_option_of_a_task_is_honoured(ray, get, options):
    task = ray.remote(lambda: "ran")
    assert get(task.options(**options).remote()) == "ran"


@pytest.mark.parametrize(
    "options",
    [
        {"max_restarts": -1},
        {"max_restarts": 1, "max_task_retries": -1},
        {"max_concurrency": 4},
        {"max_concurrency": 0},
        {"max_pending_calls": 10},
        {"lifetime": None},
        {"lifetime": "non_detached"},
        {"name": None},
        {"namespace": "elsewhere"},
        {"get_if_exists": False},
        {"allow_out_of_order_execution": False},
        {"memory": 1024},
        {"num_cpus": 0.5},
        {"enable_task_events": False},
    ],
    ids=str,
)
def test_a_valid_option_of_an_actor_is_honoured(ray, get, options):
    @ray.remote
    class Plain:
        def ping(self):
            return "pong"

    assert get(Plain.options(**options).remote().ping.remote()) == "pong"


def test_labels_of_a_call_are_taken(ray, get):
    @ray.remote
    class Plain:
        def ping(self):
            return "pong"

    assert get(Plain.remote().ping.options(_labels={"a": "b"}).remote()) == "pong"


def test_object_store_memory_of_actors_and_bundles_is_deprecated(ray, part):
    with pytest.warns(DeprecationWarning, match="'object_store_memory' for actors is deprecated"):
        ray.remote(object_store_memory=1)(type("Plain", (), {}))
    with pytest.warns(DeprecationWarning, match="'object_store_memory' for bundles is deprecated"):
        group = part("util").placement_group([{"object_store_memory": 1}])
    part("util").remove_placement_group(group)
