"""Images in the cache of environments. The container tool of a node fetches each image once."""

from __future__ import annotations

import os

from phalanx.model.environments import Environment
from phalanx.runtime.containers.finding import Tool
from phalanx.runtime.containers.tools import (
    APPTAINER,
    DOCKER,
    ENROOT,
    KEEPING,
    PODMAN,
    RC,
    RC_TEXT,
    SINGULARITY,
    is_file,
    reference,
)
from phalanx.runtime.environments.tools import Step, ToolNotFoundError

NO_TOOL = "no tool for the image {} is on this node: podman, apptainer, enroot or docker"
_SIF, _SQUASHED = "image.sif", "image.sqsh"


def steps_of(tool: Tool, image: str, place: str) -> list[Step]:
    """Return the commands that fetch an image. If the tool has no store of its own, the image goes
    into the directory `place`. Raises ToolNotFoundError.
    """
    if tool.name in KEEPING and is_file(image):
        raise ToolNotFoundError(
            f"{tool.name} takes names of images, and {image} is a file: apptainer and enroot take "
            "files"
        )
    name = reference(tool.name, image)
    if tool.name == PODMAN:
        have = (tool.path, "image", "exists", name)
        return [Step([tool.path, "pull", name], {}, unless=have)]
    if tool.name == DOCKER:
        have = (tool.path, "image", "inspect", name)
        return [Step([tool.path, "pull", name], {}, unless=have)]
    if is_file(image):
        return []
    if tool.name in (APPTAINER, SINGULARITY):
        return [Step([tool.path, "pull", os.path.join(place, _SIF), name], {})]
    return [Step([tool.path, "import", "--output", os.path.join(place, _SQUASHED), name], {})]


def prepare_files(tool: Tool, place: str) -> None:
    """Write the files that the tool needs beside an image."""
    if tool.name == ENROOT:
        with open(os.path.join(place, RC), "w", encoding="utf-8") as file:
            file.write(RC_TEXT)


def image_in(environment: Environment, place: str) -> str:
    """Return the file that was made from an image in this directory; the name of the image if there
    is no such file.
    """
    found = (os.path.join(place, name) for name in (_SIF, _SQUASHED))
    return next(filter(os.path.exists, found), environment.named)
