"""Little of what a system gives."""

from __future__ import annotations


def test_more_actors_than_the_shell_allows_files(run_program):
    """The workers' parent could open no more pipes, and the whole session ended."""
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
        print(sum(phalanx.get([actor.call.remote() for actor in actors], timeout=50)))
    """
    assert run_program(program) == (0, "40\n")
