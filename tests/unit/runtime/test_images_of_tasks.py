"""Images in the runtime environments of tasks: on which nodes such tasks may run, and when they are
refused.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.errors import RuntimeEnvSetupError
from phalanx.model.environments import ENVIRONMENT, TOOL_LABEL, is_image
from phalanx.protocol.requests.node import DefineEnvironment
from phalanx.runtime.driver.job_settings import JobSettings
from phalanx.runtime.driver.strategies import environment_of, strategy_of

HAS_TOOL = (TOOL_LABEL, "In", ["podman", "apptainer", "singularity", "enroot"])


def settings(*tools: str) -> tuple[JobSettings, list[DefineEnvironment]]:
    defined: list[DefineEnvironment] = []
    requests: Any = SimpleNamespace(notify=defined.append)
    job = JobSettings(requests)
    nodes: Any = [SimpleNamespace(labels={TOOL_LABEL: tool} if tool else {}) for tool in tools]
    job.list_nodes = lambda: nodes
    return job, defined


def test_an_image_is_defined_once_and_asks_for_the_nodes_once():
    job, defined = settings("", "podman")
    first = environment_of(job, {"runtime_env": {"image_uri": "a:1"}})
    job.list_nodes = lambda: pytest.fail("the nodes were asked for again")
    assert environment_of(job, {"runtime_env": {"image_uri": "a:1"}}) == first
    assert job.has_image(first)
    (only,) = defined
    assert is_image(only.variables[ENVIRONMENT])
    assert not is_image("")


def test_an_environment_of_packages_has_no_image():
    job, _ = settings()
    assert not job.has_image(environment_of(job, {"runtime_env": {"pip": ["a"]}}))


@pytest.mark.parametrize("tools", [(), ("",), ("docker",)])
def test_without_a_tool_for_workers_the_call_is_refused(tools):
    job, defined = settings(*tools)
    with pytest.raises(RuntimeEnvSetupError, match="in the image a:1: none has podman"):
        environment_of(job, {"runtime_env": {"container": {"image": "a:1"}}})
    assert defined == []


def test_a_task_replaces_the_image_of_its_parent():
    job, defined = settings("podman")
    job.set_environment({"image_uri": "of-the-job:1", "env_vars": {"A": "1"}})
    environment_of(job, {})
    environment_of(job, {"runtime_env": {"image_uri": "own:1"}})
    environment_of(job, {"runtime_env": {"pip": ["a"]}})
    descriptions = [one.variables[ENVIRONMENT] for one in defined]
    assert ["of-the-job" in text for text in descriptions] == [True, False, False]
    assert [is_image(text) for text in descriptions] == [True, True, False]


def test_work_in_an_image_needs_a_node_with_a_tool():
    assert strategy_of({}, {}, "f", has_image=True) == {"labels": [[HAS_TOOL]]}
    given = {
        "label_selector": {"zone": "a"},
        "fallback_strategy": [{"label_selector": {"zone": "b"}}],
    }
    of_both = strategy_of(given, {}, "f", has_image=True)["labels"]
    assert of_both == [[("zone", "In", [zone]), HAS_TOOL] for zone in "ab"]
    assert strategy_of(given, {}, "f")["labels"][0] == [("zone", "In", ["a"])]
