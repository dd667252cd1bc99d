"""A listing shows a runtime environment without values that may be passwords."""

from __future__ import annotations

import json

from phalanx.observe.state.runtime_env_column import VARIABLE, shown_runtime_env


def test_only_settings_have_their_values():
    given = {"env_vars": {"TOKEN": "secret", "RAY_X": "1"}, "working_dir": "/w"}
    shown = shown_runtime_env({VARIABLE: json.dumps(given), "TOKEN": "secret"})
    assert shown is not None
    assert "secret" not in shown
    found = json.loads(shown)
    assert found["working_dir"] == "/w"
    assert found["env_vars"] == {"TOKEN": "…", "RAY_X": "1"}


def test_no_environment_is_none():
    assert shown_runtime_env({}) is None
    assert shown_runtime_env({VARIABLE: "{}"}) is None
