"""A runtime environment as a listing shows it: without the values of its variables."""

from __future__ import annotations

import json
from collections.abc import Mapping

VARIABLE = "PHALANX_RUNTIME_ENV"
"""A worker's variable that holds its whole runtime environment, as JSON."""
_SETTINGS = "RAY_"
_HIDDEN = "…"


def shown_runtime_env(variables: Mapping[str, str]) -> str | None:
    """Return the runtime environment of a worker with these variables, as JSON; None for a worker
    without one.

    Names of variables are shown, but values only for variables that begin with RAY_, because these
    are settings. A user who may list actors is not always allowed to see the passwords in their
    variables.
    """
    text = variables.get(VARIABLE)
    if text is None:
        return None
    described = json.loads(text)
    given = described.get("env_vars") or {}
    if given:
        described["env_vars"] = {
            name: value if name.startswith(_SETTINGS) else _HIDDEN for name, value in given.items()
        }
    return json.dumps(described, ensure_ascii=False) if described else None
