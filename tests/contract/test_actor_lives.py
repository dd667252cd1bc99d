"""How actors end and come back: handles, exits, restarts, retried calls, built-in methods."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time

import pytest
from tests.polling import eventually


@pytest.fixture
def mortal(ray, tally):
    @ray.remote
    class Mortal:
        def __init__(self, start=0):
            tally.add("constructed")
            self.value = start

        def add(self):
            self.value += 1
            return self.value

        def crash(self):
            tally.add("crashed")
            os._exit(1)

        def crash_once(self):
            tally.add("crashed")
            if tally.count("crashed") == 1:
                os._exit(1)
            return "survived"

        def pid(self):
            return os.getpid()

        def was_reconstructed(self):
            return ray.get_runtime_context().was_current_actor_reconstructed

    return Mortal


def answers(ray, get, errors, call):
    """Repeat a call until its actor has restarted and answers; return the answer."""
    while True:
        try:
            return get(call.remote())
        except errors.ActorUnavailableError:
            pass


def test_an_actor_ends_with_its_last_handle(get, mortal, ends):
    actor = mortal.remote()
    pid = get(actor.pid.remote())
    del actor
    ends(pid)


def test_a_handle_inside_another_actor_keeps_it_alive(ray, get, mortal, ends):
    @ray.remote
    class Keeper:
        def __init__(self, kept):
            self.kept = kept

        def ask(self):
            return ray.get(self.kept.pid.remote())

    actor = mortal.remote()
    pid = get(actor.pid.remote())
    keeper = Keeper.remote(actor)
    assert get(keeper.ask.remote()) == pid
    del actor
    assert get(keeper.ask.remote()) == pid
    del keeper
    ends(pid)


def test_calls_already_made_finish_before_the_actor_ends(get, mortal):
    refs = [mortal.remote(i).add.remote() for i in range(3)]
    assert get(refs) == [1, 2, 3]


def test_an_actor_is_not_restarted_by_default(get, mortal, errors, tally):
    actor = mortal.remote()
    with pytest.raises(errors.RayActorError):
        get(actor.crash.remote())
    with pytest.raises(errors.ActorDiedError):
        get(actor.add.remote())
    assert tally.count("constructed") == 1


def test_a_restart_runs_the_constructor_with_the_same_arguments(ray, get, mortal, errors, tally):
    actor = mortal.options(max_restarts=1).remote(10)
    assert get([actor.add.remote(), actor.add.remote()]) == [11, 12]
    with pytest.raises(errors.RayActorError):
        get(actor.crash.remote())
    assert answers(ray, get, errors, actor.add) == 11
    assert tally.count("constructed") == 2


def test_a_call_cut_off_by_a_restart_is_told_unavailable(get, mortal, errors):
    actor = mortal.options(max_restarts=1).remote()
    get(actor.add.remote())
    with pytest.raises(errors.ActorUnavailableError):
        get(actor.crash.remote())


def test_restarts_run_out(ray, get, mortal, errors, tally):
    actor = mortal.options(max_restarts=1).remote()
    for _ in range(2):
        answers(ray, get, errors, actor.add)
        with pytest.raises(errors.RayActorError):
            get(actor.crash.remote())
    with pytest.raises(errors.ActorDiedError):
        get(actor.add.remote())
    assert tally.count("constructed") == 2


def test_minus_one_restarts_for_ever(ray, get, mortal, errors, tally):
    actor = mortal.options(max_restarts=-1).remote()
    for _ in range(3):
        answers(ray, get, errors, actor.add)
        with pytest.raises(errors.RayActorError):
            get(actor.crash.remote())
    assert answers(ray, get, errors, actor.add) == 1
    assert tally.count("constructed") == 4


def test_a_cut_off_call_is_retried_with_max_task_retries(get, mortal, tally):
    actor = mortal.options(max_restarts=1, max_task_retries=1).remote()
    assert get(actor.crash_once.remote()) == "survived"
    assert tally.count("crashed") == 2


def test_a_cut_off_call_is_not_retried_by_default(get, mortal, errors, tally):
    actor = mortal.options(max_restarts=1).remote()
    with pytest.raises(errors.RayActorError):
        get(actor.crash_once.remote())
    assert tally.count("crashed") == 1


@pytest.mark.one_raylet("Ray counts a call that meets the restarting actor as a try there")
def test_a_method_sets_its_own_retries(ray, get, tally):
    @ray.remote(max_restarts=1)
    class Flaky:
        @ray.method(max_task_retries=1)
        def crash_once(self):
            tally.add()
            if tally.count() == 1:
                os._exit(1)
            return "survived"

    assert get(Flaky.remote().crash_once.remote()) == "survived"


def test_a_method_retries_chosen_exceptions(ray, get, tally):
    @ray.remote
    class Flaky:
        @ray.method(max_task_retries=2, retry_exceptions=[ValueError])
        def fail_twice(self):
            tally.add()
            if tally.count() <= 2:
                raise ValueError("not yet")
            return tally.count()

    assert get(Flaky.remote().fail_twice.remote()) == 3


def test_an_exception_of_a_method_is_not_retried_by_default(ray, get, tally):
    @ray.remote(max_task_retries=2)
    class Flaky:
        def fail(self):
            tally.add()
            raise ValueError("at once")

    with pytest.raises(ValueError):
        get(Flaky.remote().fail.remote())
    assert tally.count() == 1


def test_kill_is_final_even_with_restarts(ray, get, mortal, errors, tally, is_over):
    actor = mortal.options(max_restarts=-1).remote()
    get(actor.add.remote())
    ray.kill(actor)
    is_over(actor.add, errors.ActorDiedError)
    assert tally.count("constructed") == 1


def test_kill_may_allow_a_restart(ray, get, mortal, tally, eventually, errors):
    actor = mortal.options(max_restarts=1).remote()
    first = get(actor.pid.remote())
    ray.kill(actor, no_restart=False)
    eventually(lambda: tally.count("constructed") == 2)
    assert answers(ray, get, errors, actor.pid) != first


def test_an_actor_knows_that_it_was_restarted(ray, get, mortal, tally, eventually, errors):
    actor = mortal.options(max_restarts=1).remote()
    assert get(actor.was_reconstructed.remote()) is False
    ray.kill(actor, no_restart=False)
    eventually(lambda: tally.count("constructed") == 2)
    assert answers(ray, get, errors, actor.was_reconstructed) is True


def test_an_actor_killed_from_outside_is_restarted(ray, get, mortal, tally, eventually, errors):
    import signal

    actor = mortal.options(max_restarts=1).remote()
    first = get(actor.pid.remote())
    os.kill(first, signal.SIGKILL)
    eventually(lambda: tally.count("constructed") == 2)
    assert answers(ray, get, errors, actor.pid) != first


def test_exit_actor_ends_it_without_a_restart(ray, get, part, errors, tally):
    exit_actor = part("actor").exit_actor

    @ray.remote(max_restarts=-1)
    class Leaver:
        def __init__(self):
            tally.add("constructed")

        def leave(self):
            exit_actor()

        def ping(self):
            return "pong"

    actor = Leaver.remote()
    assert get(actor.ping.remote()) == "pong"
    for call in (actor.leave, actor.ping):
        with pytest.raises(errors.ActorDiedError):
            get(call.remote())
    assert tally.count("constructed") == 1


def test_exit_actor_ends_a_thread_of_the_actor_in_silence(ray, get, part, errors, tally):
    exit_actor = part("actor").exit_actor

    @ray.remote
    class Leaver:
        def leave(self):
            threading.Thread(target=self._leave).start()

        def _leave(self):
            try:
                exit_actor()
            except SystemExit:
                raise  # no thread reports it
            except BaseException as error:
                tally.add(type(error).__name__)
                raise

        def ping(self):
            return "pong"

    actor = Leaver.remote()
    get(actor.leave.remote())
    with pytest.raises(errors.ActorDiedError):
        eventually(lambda: not get(actor.ping.remote()))
    assert list(tally.folder.iterdir()) == []


def test_exit_actor_in_an_async_actor(ray, get, part, errors):
    exit_actor = part("actor").exit_actor

    @ray.remote
    class Leaver:
        async def leave(self):
            exit_actor()

        async def ping(self):
            return "pong"

    actor = Leaver.remote()
    assert get(actor.ping.remote()) == "pong"
    for call in (actor.leave, actor.ping):
        with pytest.raises(errors.ActorDiedError):
            get(call.remote())


def test_exit_actor_outside_an_actor_is_refused(ray, part):
    with pytest.raises(TypeError):
        part("actor").exit_actor()


def test_sys_exit_in_a_method_ends_the_actor(ray, get, errors):
    import sys

    @ray.remote
    class Leaver:
        def leave(self):
            sys.exit(0)

        def ping(self):
            return "pong"

    actor = Leaver.remote()
    for call in (actor.leave, actor.ping):
        with pytest.raises(errors.RayActorError):
            get(call.remote())


def test_terminate_waits_for_earlier_calls(ray, get, gate, errors):
    @ray.remote
    class Holder:
        def hold(self):
            gate.enter()
            return "held"

    actor = Holder.remote()
    held = actor.hold.remote()
    actor.__ray_terminate__.remote()
    gate.open()
    assert get(held) == "held"
    with pytest.raises(errors.ActorDiedError):
        get(actor.hold.remote())


def test_the_shutdown_hook_runs_on_a_graceful_end(ray, get, tally, eventually):
    @ray.remote
    class Tidy:
        def ping(self):
            return "pong"

        def __ray_shutdown__(self):
            tally.add("tidied")

    actor = Tidy.remote()
    get(actor.ping.remote())
    actor.__ray_terminate__.remote()
    eventually(lambda: tally.count("tidied") == 1)


def test_the_shutdown_hook_does_not_run_on_kill(ray, get, tally, ends):
    @ray.remote
    class Tidy:
        def pid(self):
            return os.getpid()

        def __ray_shutdown__(self):
            tally.add("tidied")

    actor = Tidy.remote()
    pid = get(actor.pid.remote())
    ray.kill(actor)
    ends(pid)
    assert tally.count("tidied") == 0


def test_ready_tells_that_the_constructor_ran(get, mortal, tally):
    actor = mortal.remote()
    get(actor.__ray_ready__.remote())
    assert tally.count("constructed") == 1


def test_call_runs_a_function_on_the_instance(get, mortal):
    actor = mortal.remote(5)
    assert get(actor.__ray_call__.remote(lambda self, by: self.value + by, 3)) == 8


def test_a_constructor_that_crashes_makes_the_actor_dead(ray, get, errors):
    @ray.remote
    class Broken:
        def __init__(self):
            os._exit(1)

        def ping(self):
            return "pong"

    with pytest.raises(errors.ActorDiedError):
        get(Broken.remote().ping.remote())


def test_a_failed_constructor_argument_makes_the_actor_dead(ray, get, mortal, errors):
    @ray.remote
    def fail():
        raise LookupError("argument")

    actor = mortal.remote(fail.remote())
    with pytest.raises(errors.RayError):
        get(actor.add.remote())


def test_objects_returned_by_an_actor_outlive_it(ray, get, mortal):
    @ray.remote
    class Maker:
        def make(self):
            return bytes(300_000)

    actor = Maker.remote()
    ref = actor.make.remote()
    ray.wait([ref], timeout=120)
    ray.kill(actor)
    assert len(get(ref)) == 300_000


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}])
def test_a_crash_by_sys_exit_is_tried_again(ray, get, tally, options):
    @ray.remote(max_restarts=1, max_task_retries=1, **options)
    class Fragile:
        def run(self):
            tally.add()
            if tally.count() == 1:
                sys.exit(1)
            return tally.count()

    assert get(Fragile.remote().run.remote()) == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_exit_actor_holds_though_user_code_catches_it(ray, get, part, errors, tally, is_async):
    exit_actor = part("actor").exit_actor

    def swallow():
        with contextlib.suppress(BaseException):
            exit_actor()

    class Plain:
        def leave(self):
            swallow()

        def run(self):
            tally.add()

    class OnLoop:
        async def leave(self):
            swallow()

        async def run(self):
            tally.add()

    actor = ray.remote(OnLoop if is_async else Plain).remote()
    with pytest.raises(errors.RayActorError):
        get(actor.leave.remote())
    with pytest.raises(errors.RayActorError):
        get(actor.run.remote())
    assert tally.count() == 0


@pytest.mark.parametrize("where", ["constructor", "method", "task of the loop", "last handle"])
def test_exit_handlers_run_when_an_actor_ends_in_order(ray, get, part, tally, eventually, where):
    exit_actor = part("actor").exit_actor

    class Noting:
        def __init__(self):
            import atexit

            atexit.register(tally.add)
            if where == "constructor":
                exit_actor()

        async def run(self):
            import asyncio

            async def later():
                exit_actor()

            if where == "method":
                exit_actor()
            if where == "task of the loop":
                self.later = asyncio.create_task(later())

    actor = ray.remote(Noting).remote()
    ray.wait([actor.run.remote()], timeout=120)
    if where == "last handle":
        del actor
    eventually(lambda: tally.count() == 1)


def test_the_call_behind_one_that_ends_its_actor_gets_its_value(ray, get):
    """In an earlier version both calls were sent again, in order, after each restart. The first
    call then ended the actor again and again, for ever.
    """

    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Fragile:
        def end(self):
            os._exit(3)

        def answer(self):
            return "here"

    actor = Fragile.remote()
    get(actor.answer.remote())
    ending = actor.end.remote()
    assert get(actor.answer.remote()) == "here"
    ray.kill(actor)
    del ending


def _child():
    import multiprocessing

    multiprocessing.get_context("fork").Process(target=time.sleep, args=(150,)).start()


def _pool():
    import concurrent.futures
    import multiprocessing

    pool = concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork"))
    pool.submit(time.sleep, 150)
    return pool


def _thread():
    threading.Thread(target=time.sleep, args=(150,)).start()


def _handler():
    import atexit

    atexit.register(time.sleep, 150)


LASTING = {"child": _child, "pool": _pool, "thread": _thread, "handler": _handler}


@pytest.mark.parametrize("how", ["exit_actor", "exit 0", "exit 3", "last handle"])
@pytest.mark.with_a_node("workers cannot import the modules of a client")
def test_what_actors_have_started_does_not_hold_up_their_end(ray, get, part, errors, how):
    """In an earlier version callers of such actors waited for ever, and the actors' resources were
    never freed.

    There is one actor for each kind of long-lived thread or process. All are ended at the same
    time, because each end takes two seconds.
    """
    exit_actor = part("actor").exit_actor

    @ray.remote(resources={"custom": 2 / len(LASTING)})  # together all there is
    class Busy:
        def begin(self, what):
            self.kept = LASTING[what]()

        def end(self):
            if how == "exit_actor":
                exit_actor()
            sys.exit(int(how.removeprefix("exit ")))

    actors = [Busy.remote() for _ in LASTING]
    get([actor.begin.remote(what) for actor, what in zip(actors, LASTING, strict=True)])
    if how != "last handle":
        for ending in [actor.end.remote() for actor in actors]:
            with pytest.raises(errors.RayActorError):
                get(ending)
    del actors
    following = [Busy.remote() for _ in LASTING]
    get([actor.__ray_ready__.remote() for actor in following])


@pytest.mark.parametrize("how", ["exit", "last call"])
@pytest.mark.with_a_node("workers cannot import the modules of a client")
def test_what_tasks_have_started_does_not_hold_up_the_end_of_their_workers(ray, get, errors, how):
    def busy(what):
        kept.append(LASTING[what]())
        if how == "exit":
            sys.exit(1)

    kept = []
    each = {"resources": {"custom": 2 / len(LASTING)}}
    end = {"max_retries": 0} if how == "exit" else {"max_calls": 1}
    for ending in [ray.remote(**each, **end)(busy).remote(what) for what in LASTING]:
        if how == "exit":
            with pytest.raises(errors.WorkerCrashedError):
                get(ending)
        else:
            get(ending)
    assert get([ray.remote(**each)(lambda: 5).remote() for _ in LASTING]) == [5] * len(LASTING)


@pytest.mark.parametrize("how", ["exit_actor", "exit 0", "exit 3"])
def test_calls_that_run_end_before_a_threaded_actor_does(ray, get, part, errors, gate, tally, how):
    exit_actor = part("actor").exit_actor

    @ray.remote(max_concurrency=2)
    class Worker:
        def work(self):
            gate.enter()
            return "worked"

        def leave(self):
            try:
                exit_actor() if how == "exit_actor" else sys.exit(int(how[-1]))
            finally:
                tally.add("left")

    worker = Worker.remote()
    working = worker.work.remote()
    eventually(lambda: gate.entered() == 1)
    leaving = worker.leave.remote()
    behind = [worker.work.remote()] if how == "exit_actor" else []
    eventually(lambda: tally.count("left") == 1)
    gate.open()
    assert get(working) == "worked"
    for call in [leaving, *behind]:
        with pytest.raises(errors.RayActorError):
            get(call)
    assert gate.entered() == 1


@pytest.mark.parametrize("groups", [{}, {"io": 2}])
def test_calls_that_run_end_before_an_async_actor_does(ray, get, part, errors, tally, groups):
    exit_actor = part("actor").exit_actor

    @ray.remote(max_concurrency=2, concurrency_groups=groups)
    class Worker:
        async def work(self):
            tally.add("entered")
            while not tally.count("opened"):
                await asyncio.sleep(0.01)
            return "worked"

        async def leave(self):
            try:
                exit_actor()
            finally:
                tally.add("left")

    worker = Worker.remote()
    working = worker.work.remote()
    eventually(lambda: tally.count("entered") == 1)
    leaving = worker.leave.remote()
    eventually(lambda: tally.count("left") == 1)
    tally.add("opened")
    assert get(working) == "worked"
    with pytest.raises(errors.ActorDiedError):
        get(leaving)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("end", ["exit_actor", "sys.exit", "last handle", "terminate"])
def test_a_graceful_end_lets_the_instance_go(ray, get, part, errors, tmp_path, ends, end, threads):
    exit_actor = part("actor").exit_actor
    deleted, written = tmp_path / "deleted", tmp_path / "written"

    @ray.remote(max_concurrency=threads)
    class Tidy:
        def __init__(self):
            self.file = written.open("w")

        def write(self):
            self.file.write("in the buffer")
            return os.getpid()

        def leave(self):
            exit_actor() if end == "exit_actor" else sys.exit(0)

        def __del__(self):
            deleted.touch()

    actor = Tidy.remote()
    pid = get(actor.write.remote())
    if end == "terminate":
        actor.__ray_terminate__.remote()
    elif end != "last handle":
        with pytest.raises(errors.RayActorError):
            get(actor.leave.remote())
    del actor
    ends(pid)
    assert deleted.exists()
    assert written.read_text() == "in the buffer"


def test_the_end_of_an_async_actor_lets_the_instance_go(ray, get, part, errors, tmp_path, ends):
    exit_actor = part("actor").exit_actor
    deleted = tmp_path / "deleted"

    @ray.remote
    class Tidy:
        def __init__(self):
            self.me = self  # a cycle: no count of references ends it

        async def pid(self):
            return os.getpid()

        async def leave(self):
            exit_actor()

        def __del__(self):
            deleted.touch()

    actor = Tidy.remote()
    pid = get(actor.pid.remote())
    with pytest.raises(errors.ActorDiedError):
        get(actor.leave.remote())
    ends(pid)
    assert deleted.exists()
