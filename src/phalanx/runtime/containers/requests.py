"""The request for a command in a container. It is the same for all tools."""

from __future__ import annotations

from typing import NamedTuple


class Gpus(NamedTuple):
    """The GPUs of a container."""

    nvidia: tuple[str, ...] = ()
    """The UUIDs or numbers of NVIDIA's GPUs."""
    has_amd: bool = False
    """Whether the container has GPUs of AMD."""


class User(NamedTuple):
    """The account whose rights a command has."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class ContainerRequest(NamedTuple):
    """A command in an image. The command uses the network of the machine, can share memory with
    other commands there, and has the rights of its account.
    """

    image: str
    """The image in the form in which its user has given it, or the file that was made of it."""
    argv: tuple[str, ...]
    """The command, which replaces the image's entrypoint."""
    name: str
    """The name of the container, for tools that keep containers."""
    user: User
    place: str = ""
    """The directory of the prepared image."""
    directory: str = ""
    """The working directory, which the container has under the same path; "" for the image's."""
    mounts: tuple[str, ...] = ()
    """More directories of the machine that the container has under their own paths."""
    packages: tuple[tuple[str, str], ...] = ()
    """Directories of the machine that the container can only read, as (path, path in the
    container).
    """
    variables: tuple[str, ...] = ()
    """The names of the variables that the command gets from the process that starts the tool."""
    gpus: Gpus = Gpus()
    limits: tuple[tuple[str, int, int], ...] = ()
    """The limits of the process, as (name, soft, hard); -1 for no limit."""
    options: tuple[str, ...] = ()
    """More arguments for the tool."""
    has_input: bool = False
    has_terminal: bool = False
    passed: int = 0
    """The number of descriptors, from 3 on, that the command gets from the process that starts the
    tool.
    """
    init: str = ""
    """The program that podman starts as the first process of the container, to pass signals on; ""
    for none.
    """

    @property
    def bound(self) -> tuple[str, ...]:
        """The directories that the container has, each once. A directory below another one needs no
        mount of its own.
        """
        found: list[str] = []
        for path in sorted(filter(None, {self.directory, *self.mounts})):
            if path != "/" and not any(path.startswith(f"{one}/") for one in found):
                found.append(path)
        return tuple(found)
