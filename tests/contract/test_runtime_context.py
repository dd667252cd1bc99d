"""`get_runtime_context`: what a task or an actor learns about itself, its node and its job."""

from __future__ import annotations

import threading

import pytest


@pytest.fixture
def context(ray):
    return ray.get_runtime_context()


@pytest.fixture
def ask(ray, get):
    """Return a function that calls one of the context's methods inside a task."""

    @ray.remote
    def answer(method):
        return getattr(ray.get_runtime_context(), method)()

    return lambda method, **options: get(answer.options(**options).remote(method))


@pytest.fixture
def reporter(ray):
    @ray.remote
    class Reporter:
        def answer(self, method):
            return getattr(ray.get_runtime_context(), method)()

    return Reporter


def test_ids_are_hex_of_their_lengths(ray, context):
    assert len(bytes.fromhex(context.get_job_id())) == 4
    assert len(bytes.fromhex(context.get_node_id())) == 28
    assert len(bytes.fromhex(context.get_worker_id())) == 28


def test_the_driver_runs_no_task_and_no_actor(context):
    assert context.get_task_id() is None
    assert context.get_actor_id() is None
    assert context.get_task_name() is None
    assert context.get_task_function_name() is None
    assert context.get_actor_name() is None
    assert context.get_placement_group_id() is None


def test_a_task_shares_the_job_with_the_driver_and_knows_its_node(context, ask, home):
    assert ask("get_job_id") == context.get_job_id()
    assert ask("get_node_id") == home


def test_a_task_has_its_own_worker(context, ask):
    assert ask("get_worker_id") != context.get_worker_id()
    assert len(bytes.fromhex(ask("get_worker_id"))) == 28


def test_each_task_has_its_own_id(ask):
    first, second = ask("get_task_id"), ask("get_task_id")
    assert len(bytes.fromhex(first)) == 24
    assert first != second


def test_names_of_a_task(ask):
    assert ask("get_task_name", name="named") == "named"
    assert ask("get_task_function_name", name="named") == f"{__name__}.answer"


def test_a_task_is_in_no_actor(ask):
    assert ask("get_actor_id") is None
    assert ask("get_actor_name") is None


def test_a_task_is_not_cancelled_on_its_own(ask):
    assert ask("is_canceled") is False


def test_a_method_runs_under_its_actors_id(get, reporter):
    actor = reporter.remote()
    first, second = get([actor.answer.remote("get_actor_id") for _ in range(2)])
    assert first == second == actor._actor_id.hex()
    assert len(bytes.fromhex(first)) == 16


def test_each_call_of_a_method_has_its_own_task_id(get, reporter):
    actor = reporter.remote()
    first, second = get([actor.answer.remote("get_task_id") for _ in range(2)])
    assert first != second


def test_names_of_a_method(get, reporter):
    actor = reporter.remote()
    assert get(actor.answer.remote("get_task_name")).endswith("Reporter.answer")
    function_name = get(actor.answer.remote("get_task_function_name"))
    assert function_name == f"{__name__}.Reporter.answer"


def test_a_method_of_an_async_actor_has_its_qualified_name(ray, get):
    @ray.remote(num_cpus=0)
    class Reporter:
        async def answer(self):
            return ray.get_runtime_context().get_task_function_name()

    here = "test_a_method_of_an_async_actor_has_its_qualified_name.<locals>"
    assert get(Reporter.remote().answer.remote()) == f"{__name__}.{here}.Reporter.answer"


def test_older_forms_of_ids_name_the_newer(ray, context, ask):
    with pytest.warns(DeprecationWarning, match=r"Use get_node_id\(\) instead"):
        assert context.node_id.hex() == context.get_node_id()
    with pytest.warns(DeprecationWarning, match=r"Use get_job_id\(\) instead"):
        assert context.job_id.hex() == context.get_job_id()


def test_is_canceled_is_refused_in_the_driver(context):
    with pytest.raises(RuntimeError):
        context.is_canceled()


def test_current_actor_is_refused_outside_an_actor(context):
    with pytest.raises(RuntimeError):
        context.current_actor


def test_the_namespace_is_the_same_in_a_task(ray, get, context):
    @ray.remote
    def namespace():
        return ray.get_runtime_context().namespace

    assert context.namespace
    assert get(namespace.remote()) == context.namespace


def test_an_anonymous_runtime_env_is_empty(context):
    assert context.get_runtime_env_string() == "{}"
    assert dict(context.runtime_env) == {}


def test_the_node_has_labels(context):
    assert context.get_node_labels()["ray.io/node-id"] == context.get_node_id()


def test_session_and_address_are_text(context):
    assert context.get_session_name()
    assert context.get_temp_dir()
    assert ":" in context.gcs_address


def test_a_new_actor_was_not_reconstructed(ray, get):
    @ray.remote
    class Plain:
        def ask(self):
            return ray.get_runtime_context().was_current_actor_reconstructed

    assert get(Plain.remote().ask.remote()) is False


def test_accelerator_ids_of_the_driver_are_empty(context):
    assert context.get_accelerator_ids()["GPU"] == []


def test_children_are_not_captured_by_default(ray, get, context):
    @ray.remote
    def captured():
        return ray.get_runtime_context().should_capture_child_tasks_in_placement_group

    assert context.should_capture_child_tasks_in_placement_group is False
    assert get(captured.remote()) is False


def test_the_name_that_a_call_was_given(ray, get):
    @ray.remote
    class Named:
        def names(self):
            context = ray.get_runtime_context()
            return context.get_task_name(), context.get_task_function_name()

    actor = Named.remote()
    name, function = get(actor.names.options(name="zz").remote())
    assert name == "zz"
    assert function == get(actor.names.remote())[1]


def test_a_thread_that_work_has_started_has_a_task(ray, get):
    def look():
        found = []
        thread = threading.Thread(
            target=lambda: found.append(ray.get_runtime_context().get_task_id())
        )
        thread.start()
        thread.join()
        return found[0]

    class Actor:
        def look(self):
            return look()

    for run in (ray.remote(look), ray.remote(Actor).remote().look):
        assert len(bytes.fromhex(get(run.remote()))) == 24
