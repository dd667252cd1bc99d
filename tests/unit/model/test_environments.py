"""Environments that runtime environments describe, and descriptions that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.model.environments import (
    MOST_BYTES,
    Environment,
    read_environment,
    reference,
    reference_in,
    written_environment,
)

FILES = {
    "requirements.txt": "numpy==2.2\n\n# a comment\nrequests\n",
    "app/uv.lock": "version = 1\n",
    "app/pyproject.toml": "[project]\n",
    "environment.yml": "name: e\n",
}
REQUIREMENTS = ("numpy==2.2", "", "# a comment", "requests")
LOCKED = (("uv.lock", "version = 1\n"), ("pyproject.toml", "[project]\n"))


def no_file(path: str) -> str:
    raise AssertionError(f"{path} was read")


def read(given: dict[str, Any]) -> Environment | None:
    return read_environment(given, FILES.__getitem__)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"env_vars": {"A": "1"}, "pip": []}, None),
        ({"pip": ["numpy"]}, Environment(tool="pip", packages=("numpy",))),
        ({"pip": "requirements.txt"}, Environment(tool="pip", packages=REQUIREMENTS)),
        (
            {"pip": {"packages": ["a"], "pip_check": True, "pip_version": "==24.0"}},
            Environment(tool="pip", packages=("a",), is_checked=True, version="==24.0"),
        ),
        (
            {"uv": {"packages": ["a"], "uv_pip_install_options": ["--no-deps"]}},
            Environment(tool="uv", packages=("a",), options=("--no-deps",)),
        ),
        ({"uv": "app/uv.lock"}, Environment(tool="uv", files=LOCKED)),
        ({"uv": {"lock": "app"}}, Environment(tool="uv", files=LOCKED)),
        ({"conda": "base"}, Environment(tool="conda", named="base")),
        (
            {"conda": "environment.yml"},
            Environment(tool="conda", files=(("environment.yml", "name: e\n"),)),
        ),
        (
            {"conda": {"dependencies": ["pip"]}},
            Environment(tool="conda", files=(("environment.yml", '{"dependencies":["pip"]}'),)),
        ),
        ({"image_uri": "a/b:1"}, Environment(tool="image", named="a/b:1")),
        (
            {"container": {"image": "a", "run_options": ["--hostname", "x"]}},
            Environment(tool="image", named="a", options=("--hostname", "x")),
        ),
        (
            {"uv": ["a"], "config": {"setup_timeout_seconds": 5}},
            Environment(tool="uv", packages=("a",), timeout_s=5),
        ),
        (
            {"uv": ["a"], "config": {"setup_timeout_seconds": -1}},
            Environment(tool="uv", packages=("a",), timeout_s=0),
        ),
    ],
)
def test_runtime_environments_name_environments(given, expected):
    found = read(given)
    assert found == expected
    if found is not None:
        assert read_environment(written_environment(found), no_file) == found


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"pip": ["a"], "uv": ["b"]}, ValueError, "'uv' and 'pip'"),
        ({"pip": {"package": ["a"]}}, ValueError, "no field 'package'"),
        ({"pip": {"packages": 5}}, TypeError, "a list of strings"),
        ({"pip": [5]}, TypeError, "a list of strings"),
        ({"pip": ["a\nb"]}, ValueError, "several lines"),
        ({"pip": {"packages": ["a"], "pip_check": "yes"}}, TypeError, "pip_check"),
        ({"uv": {"packages": ["a"], "lock": "app"}}, ValueError, "not both"),
        ({"uv": {"files": {"../x": "y"}}}, ValueError, "uv.lock and pyproject.toml"),
        ({"uv": {"files": {"uv.lock": 5, "pyproject.toml": ""}}}, TypeError, "texts"),
        ({"conda": ["a"]}, TypeError, "a name, a path"),
        ({"image_uri": "a", "pip": ["b"]}, ValueError, "'pip' and 'image_uri'"),
        ({"image_uri": "--privileged"}, ValueError, "is no image"),
        ({"image_uri": "a b"}, ValueError, "is no image"),
        ({"image_uri": {"image": "a"}}, TypeError, "container is a mapping"),
        ({"container": {"image": 5}}, TypeError, "by text"),
        ({"container": {"image": "a", "worker_path": "/x"}}, ValueError, "no field 'worker_path'"),
        ({"pip": ["x" * (MOST_BYTES + 1)]}, ValueError, "at most"),
    ],
)
def test_what_is_refused(given, error, words):
    with pytest.raises(error, match=words):
        read(given)


def test_the_key_is_that_of_the_content():
    one = Environment(tool="pip", packages=("a",))
    assert one.key == Environment(tool="pip", packages=("a",), timeout_s=5).key
    others = [
        Environment(tool="uv", packages=("a",)),
        Environment(tool="pip", packages=("b",)),
        Environment(tool="pip", packages=("a",), options=("b",)),
        Environment(tool="pip", packages=("a",), is_checked=True),
    ]
    assert len({one.key, *(other.key for other in others)}) == 5
    needed = Environment(tool="image", named="a")
    assert needed.key != Environment(tool="image", named="a", is_optional=True).key


def test_the_keys_of_earlier_versions_are_valid():
    found = Environment(tool="uv", packages=("a",), files=(("uv.lock", "x"),), is_checked=True)
    assert found.key == "3e8e4bc5599d732599aedc89f8d2cd09"


def test_a_reference_has_the_key_and_no_path():
    environment = Environment(tool="uv", packages=("a",))
    assert reference_in(reference(environment)) == environment.key
    assert reference_in({"uv": ["a"]}) == ""
    with pytest.raises(ValueError, match="is not the key"):
        reference_in({"uv": {"environment": "../" + "a" * 29}})
