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


def test_objects_and_actors_beyond_the_hard_limit_of_open_files(run_program):
    """Each large object kept a descriptor: puts failed as what cannot be pickled, then every get.
    Actors took all that the workers' parent had, and no task ran any more."""
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
