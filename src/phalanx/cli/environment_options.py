"""The options of commands that name the environment of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from phalanx.cli import panels
from phalanx.cli.options import Option

_FILES = (".txt", ".lock", ".in", ".yml", ".yaml")
Pip = Annotated[
    list[str] | None,
    Option(
        rich_help_panel=panels.COMMAND,
        help="Package that pip installs before the job begins, or a requirements file (.txt); may "
        "be repeated.",
    ),
]
Uv = Annotated[
    list[str] | None,
    Option(
        rich_help_panel=panels.COMMAND,
        help="Package that uv installs before the job begins, a requirements file (.txt), or "
        "uv.lock; may be repeated.",
    ),
]
Conda = Annotated[
    str | None,
    Option(
        rich_help_panel=panels.COMMAND,
        help="Conda environment in which the job runs: a file (.yml) that describes it, or the "
        "name of an environment on the nodes.",
    ),
]
Image = Annotated[
    str | None,
    Option(
        "--image",
        rich_help_panel=panels.COMMAND,
        help="Image in which the command runs: a name such as python:3.12, or a file (.sif, "
        ".sqsh). The node needs podman, apptainer, enroot or docker.",
    ),
]
WorkingDir = Annotated[
    str | None,
    Option(
        "--working-dir",
        rich_help_panel=panels.COMMAND,
        help="Directory or zip file to upload to the nodes; the command runs in the uploaded "
        "copy, unless --directory names another directory. Files named in .gitignore or "
        ".phalanxignore are not uploaded.",
    ),
]
PyModule = Annotated[
    list[str] | None,
    Option(
        "--py-module",
        rich_help_panel=panels.COMMAND,
        help="Directory or file of a Python package or module to upload; the command can import "
        "it. May be repeated.",
    ),
]
RuntimeEnvFile = Annotated[
    Path | None,
    Option(
        "--runtime-env",
        rich_help_panel=panels.COMMAND,
        help="YAML or JSON file that describes the runtime environment. Its keys are pip, uv, "
        "conda, image_uri or container, working_dir, py_modules, excludes, env_vars and config.",
    ),
]
RuntimeEnvJson = Annotated[
    str | None,
    Option(
        "--runtime-env-json",
        rich_help_panel=panels.COMMAND,
        help='Runtime environment as JSON, such as \'{"pip": ["numpy"]}\'.',
    ),
]


def runtime_env(
    file: Path | None, text: str | None, **tools: list[str] | str | None
) -> dict[str, Any] | None:
    """Return the runtime environment of these options; None if none of them is given. Raises
    ValueError for options that exclude each other.
    """
    if file is not None and text is not None:
        raise ValueError("--runtime-env and --runtime-env-json cannot be combined")
    found = {} if file is None else _read(file)
    if text is not None:
        found = _mapping(_parsed(text, "--runtime-env-json"), "--runtime-env-json")
    for tool, given in tools.items():
        if not given:
            continue
        if tool in found:
            name = tool.replace("_", "-").removesuffix("s").removesuffix("-uri")
            raise ValueError(
                f"--{name} cannot be combined with a runtime environment that has {tool}"
            )
        is_list = tool in ("pip", "uv") and isinstance(given, list) and len(given) == 1
        is_file = is_list and str(given[0]).endswith(_FILES)
        found[tool] = given[0] if is_file else given
    return found or None


def _read(file: Path) -> dict[str, Any]:
    import yaml

    try:
        return _mapping(yaml.safe_load(file.read_text(encoding="utf-8")), str(file))
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: {error}") from None


def _parsed(text: str, what: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _mapping(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be a mapping with the fields of a runtime environment")
    return value
