"""Programs that need more of something than the operating system gives."""

from __future__ import annotations

import os

import pytest
from tests.polling import eventually

import phalanx
from phalanx import errors
from phalanx.owner import requests


def test_more_actors_than_the_shell_allows_files(run_program):
    """The process that forks workers could open no more pipes, and the whole session ended."""
    program = """
        import resource
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        import phalanx
        phalanx.init(num_cpus=1)

        @phalanx.remote(num_cpus=0)
        class Actor:
            def call(self):
                return 1

        actors = [Actor.remote() for _ in range(40)]
        print(sum(phalanx.get([actor.call.remote() for actor in actors], timeout=120)))
    """
    assert run_program(program) == (0, "40\n")


def test_objects_and_actors_beyond_the_hard_limit_of_open_files(run_program):
    """Each large object kept a descriptor open: puts failed with an error about pickling, then
    every get failed. Actors used up the fork server's descriptors, and then no task ran any more.
    """
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        import phalanx
        phalanx.init(num_cpus=1)

        @phalanx.remote(num_cpus=0)
        class Actor:
            def call(self):
                return 1

        @phalanx.remote
        def large():
            return bytes(200_000)

        refs = [phalanx.put(bytes(200_000)) for _ in range(80)]
        values = phalanx.get([*refs, *[large.remote() for _ in range(80)]])
        print(sum(map(len, values)))
        actors = [Actor.remote() for _ in range(20)]
        ran = failed = 0
        for actor in actors:
            try:
                ran += phalanx.get(actor.call.remote())
            except phalanx.exceptions.ActorUnschedulableError as error:
                assert "limit of open files" in str(error), error
                failed += 1
        print(ran, failed)
        print(len(phalanx.get(large.remote())))
    """
    assert run_program(program) == (0, "32000000\n9 11\n200000\n")


def test_an_environment_above_the_limit_of_a_request_is_refused_at_the_call(
    runtime, get, monkeypatch
):
    """The request never reached the node, so callers waited for the actor for ever."""
    monkeypatch.setattr(requests, "REQUEST_BYTES", 10_000)

    @phalanx.remote
    class Actor:
        def size(self):
            return len(os.environ["LARGE"])

    large = {"env_vars": {"LARGE": "x" * 20_000}}
    for _ in range(2):
        with pytest.raises(errors.MessageTooLargeError, match="limit of a request is 10000"):
            Actor.options(runtime_env=large).remote()
    small = {"env_vars": {"LARGE": "x" * 2000}}
    assert get(Actor.options(runtime_env=small).remote().size.remote()) == 2000


def test_an_actor_whose_arguments_came_to_more_than_a_request_may_have_dies(
    runtime, get, monkeypatch, tmp_path
):
    monkeypatch.setattr(requests, "REQUEST_BYTES", 10_000)

    @phalanx.remote
    class Actor:
        def __init__(self, *parts):
            self.parts = parts

        def total(self):
            return sum(map(len, self.parts))

    @runtime.remote
    def part(path):
        eventually(path.exists)
        return b"x" * 4000

    begin = tmp_path / "begin"
    actors = [Actor.remote(*[part.remote(begin) for _ in range(count)]) for count in (2, 3)]
    totals = [actor.total.remote() for actor in actors]
    begin.touch()
    assert get(totals[0]) == 8000
    with pytest.raises(errors.ActorDiedError, match="limit of a request is 10000"):
        get(totals[1])
