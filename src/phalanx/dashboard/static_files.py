"""The scripts, styles and pictures of the pages. Their address contains a digest of all of them, so
that browsers keep them without asking again.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles

_KEPT = "public, max-age=31536000, immutable"


@cache
def static_path() -> str:
    """Return the path below which the files are served, such as `/static/0f3b…`."""
    digest = hashlib.sha256()
    for path in sorted(_folder().iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"/static/{digest.hexdigest()[:16]}"


def _folder() -> Path:
    return Path(str(resources.files("phalanx.dashboard") / "static"))


class KeptFiles(StaticFiles):
    """Serves the files, and lets browsers keep them."""

    def __init__(self) -> None:
        super().__init__(directory=_folder())

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = _KEPT
        return response
