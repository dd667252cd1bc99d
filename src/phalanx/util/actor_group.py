"""A group of equal actors. Each call of the group calls all its actors."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.api.actors import ActorClass
from phalanx.api.objects import get, kill, wait
from phalanx.objects.handle import ActorHandle


@dataclass
class ActorWrapper:
    """An actor of a group, with the result of its method `get_actor_metadata` if it has one."""

    actor: ActorHandle[Any]
    metadata: Any


class ActorGroupMethod:
    """A method of all actors of a group."""

    def __init__(self, group: ActorGroup, name: str) -> None:
        self._group = group
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "ActorGroup methods cannot be called directly. Instead of running "
            f"'object.{self._name}()', try 'object.{self._name}.remote()'."
        )

    def remote(self, /, *args: Any, **kwargs: Any) -> list[Any]:
        """Call the method on each actor. Returns the references to the results, in the order of the
        actors.
        """
        return [
            getattr(member.actor, self._name).remote(*args, **kwargs)
            for member in self._group.actors
        ]


class ActorGroup:
    """A number of actors of one class: `group.method.remote(...)` calls all of them.

    `num_cpus_per_actor`, `num_gpus_per_actor` and `resources_per_actor` are the amounts for each
    actor; `init_args` and `init_kwargs` go to each constructor. Raises ValueError for a number of
    actors below 1 or a negative amount.

    Example:
        class Doubler:  # a plain class, without @phalanx.remote
            def double(self, x: int) -> int:
                return 2 * x

        group = ActorGroup(Doubler, num_actors=4)
        values = phalanx.get(group.double.remote(21))
        group.shutdown()
    """

    def __init__(
        self,
        actor_cls: type,
        num_actors: int = 1,
        num_cpus_per_actor: float = 1,
        num_gpus_per_actor: float = 0,
        resources_per_actor: Mapping[str, float] | None = None,
        init_args: Sequence[Any] | None = None,
        init_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if num_actors <= 0:
            raise ValueError(
                f"The provided `num_actors` must be greater than 0. Received {num_actors=} instead."
            )
        if num_cpus_per_actor < 0 or num_gpus_per_actor < 0:
            raise ValueError(
                "The number of CPUs and GPUs per actor must not be negative. Received "
                f"{num_cpus_per_actor=} and {num_gpus_per_actor=}."
            )
        self.actors: list[ActorWrapper] = []
        self.num_actors = num_actors
        options = {"num_cpus": num_cpus_per_actor, "num_gpus": num_gpus_per_actor}
        self._class: ActorClass[Any] = ActorClass(
            actor_cls, {**options, "resources": dict(resources_per_actor or {})}
        )
        self._args = tuple(init_args or ())
        self._kwargs = dict(init_kwargs or {})
        self.start()

    def __getattr__(self, name: str) -> ActorGroupMethod:
        if not self.actors:
            raise RuntimeError("This ActorGroup has been shutdown. Please start it again.")
        return ActorGroupMethod(self, name)

    def __len__(self) -> int:
        return len(self.actors)

    def __getitem__(self, index: int) -> ActorWrapper:
        return self.actors[index]

    def start(self) -> None:
        """Start the actors of a group that was shut down. Raises RuntimeError when they already
        run.
        """
        if self.actors:
            raise RuntimeError(
                "The actors have already been started. Please call `shutdown` first if you want to "
                "restart them."
            )
        self.add_actors(self.num_actors)

    def add_actors(self, num_actors: int) -> None:
        """Start more actors and add them to the group."""
        added = [self._class.remote(*self._args, **self._kwargs) for _ in range(num_actors)]
        metadata: list[Any] = [None] * num_actors
        if added and hasattr(added[0], "get_actor_metadata"):
            metadata = get([actor.get_actor_metadata.remote() for actor in added])
        self.actors += [ActorWrapper(*pair) for pair in zip(added, metadata, strict=True)]

    def remove_actors(self, actor_indexes: Container[int]) -> None:
        """Remove the actors at these indexes from the group."""
        self.actors = [a for i, a in enumerate(self.actors) if i not in actor_indexes]

    def shutdown(self, patience_s: float = 5) -> None:
        """End all actors. Actors that still run after `patience_s` seconds are killed."""
        left = True
        if patience_s > 0:
            ends = [member.actor.__ray_terminate__.remote() for member in self.actors]
            left = bool(wait(ends, num_returns=len(ends), timeout=patience_s)[1])
        if left:
            for member in self.actors:
                kill(member.actor)
        self.actors = []

    @property
    def actor_metadata(self) -> list[Any]:
        """The results of the actors' `get_actor_metadata`, in order."""
        return [member.metadata for member in self.actors]
