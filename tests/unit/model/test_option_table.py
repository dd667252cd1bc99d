"""A table of wrong options: the class of the error with which each is refused, and its message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.model import options

CHECKS = {
    "task": options.check_task_options,
    "actor": options.check_actor_options,
    "method": options.check_method_options,
}

REFUSED = """
task   num_cpus=-1                          ValueError  at least 0
task   num_cpus=0.00001                     ValueError  cannot go beyond 0.0001
task   num_cpus=float("nan")                ValueError  finite
task   num_cpus="1"                         TypeError   <class 'float'>
task   num_cpus=True                        TypeError   received type <class 'bool'>
task   resources={"CPU": 1}                 ValueError  use num_cpus
task   resources={"x": "1"}                 TypeError   values are numbers
task   resources={"x": -1}                  ValueError  at least 0
task   num_returns="some"                   TypeError   or 'dynamic'
task   num_returns=-1                       ValueError  non-negative integer
task   max_retries=-2                       ValueError  0, -1 or a positive
task   max_retries=1.5                      TypeError   <class 'int'>
task   retry_exceptions=[1]                 ValueError  exception classes
task   timeout_s=0                          ValueError  above 0
task   scheduling_strategy="FAST"           ValueError  'DEFAULT', 'SPREAD'
task   scheduling_strategy=7                TypeError   strategy object
task   label_selector={"": "a"}             ValueError  not empty
task   label_selector={"a": 1}              TypeError   both strings
task   fallback_strategy=[{"x": 1}]         ValueError  label_selector
task   placement_group_bundle_index=1       ValueError  needs placement_group
task   runtime_env={"env_vars": {"A": 1}}   TypeError   a dict from string to string
task   _generator_backpressure_num_objects=0  ValueError  positive
task   queue=""                             ValueError  not empty
task   max_restarts=1                       ValueError  Invalid option keyword 'max_restarts'
actor  max_restarts=-2                      ValueError  0, -1 or a positive
actor  lifetime="for ever"                  ValueError  'detached'
actor  name=""                              ValueError  empty
actor  get_if_exists=True                   ValueError  needs a name
actor  concurrency_groups={"io": 0}         ValueError  positive
actor  max_calls=1                          ValueError  Invalid option keyword 'max_calls'
method num_cpus=1                           TypeError   Invalid option keyword 'num_cpus'
method concurrency_group=1                  TypeError   <class 'str'>
"""

ALLOWED = """
task   num_cpus=0
task   num_cpus=0.0001
task   num_gpus=0.5
task   num_gpus=2.0
task   num_returns="streaming"
task   max_retries=-1
task   retry_exceptions=[ValueError, KeyError]
task   retry_exceptions=True
task   name=None, resources=None
task   label_selector={"zone": "!in(a,b)"}
actor  name="n", get_if_exists=True
actor  max_restarts=-1, max_task_retries=-1, lifetime="detached"
actor  concurrency_groups={"io": 2}
method num_returns=2, concurrency_group="io"
"""


def rows(text, parts):
    for line in text.strip().splitlines():
        kind, rest = line.split(maxsplit=1)
        cells = [c.strip() for c in rest.split("  ") if c.strip()]
        assert len(cells) == parts, line
        yield pytest.param(kind, *cells, id=f"{kind} {cells[0]}")


def given_options(text):
    return eval(f"dict({text})", {"dict": dict, "float": float})


@pytest.mark.parametrize(("kind", "text", "error", "words"), list(rows(REFUSED, 3)))
def test_refused(kind, text, error, words):
    with pytest.raises((TypeError, ValueError)) as caught:
        CHECKS[kind](given_options(text))
    assert type(caught.value).__name__ == error
    assert words in str(caught.value)


@pytest.mark.parametrize(("kind", "text"), list(rows(ALLOWED, 1)))
def test_allowed(kind, text):
    CHECKS[kind](given_options(text))


@pytest.mark.parametrize(
    ("check", "key", "value"),
    [
        (options.check_task_options, "max_calls", 3),
        (options.check_actor_options, "concurrency_groups", {"io": 1}),
    ],
)
def test_some_stand_in_the_decorator_only(check, key, value):
    check({key: value})
    with pytest.raises(ValueError, match="Give it to the decorator"):
        check({key: value}, in_options=True)


@given(
    st.dictionaries(
        st.text(max_size=6) | st.sampled_from(["num_cpus", "resources", "max_retries", "name"]),
        st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.none()),
        max_size=3,
    )
)
def test_whatever_is_given_only_type_and_value_errors_come(given_them):
    for check in CHECKS.values():
        try:
            check(given_them)
        except (TypeError, ValueError) as error:
            assert str(error)


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("", {"CPU": 1}),
        ("num_cpus=0", {}),
        ("num_cpus=2, num_gpus=0.5", {"CPU": 2, "GPU": 0.5}),
        ("memory=10.7", {"CPU": 1, "memory": 10}),
        ('resources={"x": 2, "y": 0}', {"CPU": 1, "x": 2}),
        ('accelerator_type="T4"', {"CPU": 1, "accelerator_type:T4": 0.001}),
    ],
)
def test_what_is_asked_for(text, amounts):
    found = options.required_resources(given_options(text), default_cpus=1)
    assert found == amounts


@pytest.mark.parametrize("asked", [{"num_gpus": 1.5}, {"resources": {"TPU": 2.5}}])
def test_a_device_and_a_half_is_no_amount(asked):
    with pytest.raises(ValueError, match="must be whole numbers"):
        options.required_resources(asked, default_cpus=1)
