"""Actors: state, order, handles, failure of the constructor, life and death."""

from __future__ import annotations

import pytest


def test_an_actor_keeps_state(counter, get):
    actor = counter.remote()
    assert get([actor.add.remote() for _ in range(5)]) == [1, 2, 3, 4, 5]


def test_constructor_arguments(counter, get):
    assert get(counter.remote(10).read.remote()) == 10
    assert get(counter.remote(start=11).read.remote()) == 11


def test_a_ref_as_constructor_argument_is_resolved(ray, counter, get):
    assert get(counter.remote(ray.put(12)).read.remote()) == 12


def test_refs_as_method_arguments_are_resolved(ray, counter, get):
    assert get(counter.remote(1).add.remote(ray.put(2))) == 3


def test_two_actors_of_one_class_are_separate(counter, get):
    one, two = counter.remote(), counter.remote(100)
    get(one.add.remote())
    assert get([one.read.remote(), two.read.remote()]) == [1, 100]


def test_an_actor_runs_in_its_own_process(ray, get):
    import os

    @ray.remote
    class Process:
        def pid(self):
            return os.getpid()

    one, two = Process.remote(), Process.remote()
    pids = get([one.pid.remote(), two.pid.remote(), one.pid.remote()])
    assert pids[0] == pids[2]
    assert len({*pids, os.getpid()}) == 3


def test_calls_of_one_caller_run_in_order(ray, get):
    @ray.remote
    class Log:
        def __init__(self):
            self.seen = []

        def note(self, i):
            self.seen.append(i)

        def read(self):
            return self.seen

    log = Log.remote()
    for i in range(300):
        log.note.remote(i)
    assert get(log.read.remote()) == list(range(300))


def test_a_call_whose_argument_is_late_holds_back_the_next_ones(ray, get, gate):
    @ray.remote
    def late():
        gate.enter()
        return "late"

    @ray.remote
    class Log:
        def __init__(self):
            self.seen = []

        def note(self, what):
            self.seen.append(what)
            return list(self.seen)

    log = Log.remote()
    log.note.remote(late.remote())
    second = log.note.remote("early")
    gate.open()
    assert get(second) == ["late", "early"]


def test_instantiating_the_class_directly_is_refused(counter):
    with pytest.raises(TypeError, match="remote"):
        counter()


def test_wrong_method_arguments_fail_at_the_call(counter):
    actor = counter.remote()
    with pytest.raises(TypeError):
        actor.add.remote(1, 2, 3)


def test_wrong_constructor_arguments_fail_at_the_call(counter):
    with pytest.raises(TypeError):
        counter.remote(1, 2, 3)


def test_a_failing_method_leaves_the_actor_alive(counter, get):
    actor = counter.remote()
    with pytest.raises(ValueError, match="method failed"):
        get(actor.fail.remote())
    assert get(actor.add.remote()) == 1


def test_a_failed_argument_fails_the_call_and_not_the_actor(ray, counter, get):
    @ray.remote
    def fail():
        raise LookupError("argument")

    actor = counter.remote()
    with pytest.raises(LookupError):
        get(actor.add.remote(fail.remote()))
    assert get(actor.add.remote()) == 1


def test_a_failing_constructor_makes_every_call_fail(ray, get, errors):
    @ray.remote
    class Broken:
        def __init__(self):
            raise RuntimeError("constructor failed")

        def call(self):
            return 1

    actor = Broken.remote()
    for _ in range(2):
        with pytest.raises(errors.ActorDiedError, match="constructor failed"):
            get(actor.call.remote())


def test_a_crashed_actor_is_dead_for_later_calls(ray, get, errors):
    import os

    @ray.remote
    class Mortal:
        def crash(self):
            os._exit(1)

        def ping(self):
            return "pong"

    actor = Mortal.remote()
    for call in (actor.crash, actor.ping):
        with pytest.raises(errors.RayActorError):
            get(call.remote())
    with pytest.raises(errors.ActorDiedError):
        get(actor.ping.remote())


def test_an_actor_creates_another_actor(ray, counter, get):
    @ray.remote
    class Parent:
        def __init__(self):
            self.child = counter.remote(7)

        def ask(self):
            return ray.get(self.child.add.remote())

    assert get(Parent.remote().ask.remote()) == 8


def test_methods_of_a_base_class_are_callable(ray, get):
    class Base:
        def greet(self):
            return f"hello from {self.name()}"

        def name(self):
            return "base"

    @ray.remote
    class Derived(Base):
        def name(self):
            return "derived"

    assert get(Derived.remote().greet.remote()) == "hello from derived"


def test_super_constructors_run(ray, get):
    class Base:
        def __init__(self, x):
            self.x = x

    @ray.remote
    class Derived(Base):
        def __init__(self):
            super().__init__(5)

        def read(self):
            return self.x

    assert get(Derived.remote().read.remote()) == 5


def test_subclassing_an_actor_class_is_refused(counter):
    with pytest.raises(TypeError):

        class Derived(counter):  # type: ignore[valid-type,misc]  # which is refused
            pass


def test_static_and_class_methods(ray, get):
    @ray.remote
    class Kinds:
        @staticmethod
        def static(x):
            return x + 1

        @classmethod
        def of_class(cls, x):
            return x + 2

    actor = Kinds.remote()
    assert get([actor.static.remote(1), actor.of_class.remote(1)]) == [2, 3]


def test_several_returns_of_a_method(ray, get):
    @ray.remote
    class Pair:
        @ray.method(num_returns=2)
        def both(self):
            return 1, 2

        def plain(self):
            return 3, 4

    actor = Pair.remote()
    one, two = actor.both.remote()
    assert get([one, two]) == [1, 2]
    three, four = actor.plain.options(num_returns=2).remote()
    assert get([three, four]) == [3, 4]


def test_kill_ends_the_actor_at_once(ray, counter, get, errors, is_over):
    actor = counter.remote()
    get(actor.read.remote())
    ray.kill(actor)
    is_over(actor.read, errors.ActorDiedError)


def test_kill_fails_running_and_queued_calls(ray, get, gate, eventually, errors):
    @ray.remote
    class Holder:
        def hold(self):
            gate.enter()

    actor = Holder.remote()
    refs = [actor.hold.remote() for _ in range(3)]
    eventually(lambda: gate.entered() == 1)
    ray.kill(actor)
    for ref in refs:
        with pytest.raises(errors.RayActorError):
            get(ref)
    assert gate.entered() == 1


def test_kill_of_something_else_is_refused(ray, counter):
    for wrong in (1, "name", counter, ray.put(1)):
        with pytest.raises(ValueError):
            ray.kill(wrong)


def test_remote_class_without_constructor(ray, get):
    @ray.remote
    class Plain:
        def ping(self):
            return "pong"

    assert get(Plain.remote().ping.remote()) == "pong"


def test_an_actor_class_takes_options(ray, get):
    @ray.remote
    class Free:
        def read(self):
            return ray.get_runtime_context().get_assigned_resources()

    actor = Free.options(num_cpus=0.5, resources={"custom": 1}).remote()
    assert get(actor.read.remote()) == {"CPU": 0.5, "custom": 1.0}


def test_many_callers_each_keep_their_own_order(ray, get):
    @ray.remote
    class Log:
        def __init__(self):
            self.seen = []

        def note(self, who, i):
            self.seen.append((who, i))

        def read(self):
            return self.seen

    @ray.remote
    def caller(log, who):
        return ray.get([log.note.remote(who, i) for i in range(30)])

    log = Log.remote()
    get([caller.remote(log, who) for who in "abc"])
    seen = get(log.read.remote())
    for who in "abc":
        assert [i for w, i in seen if w == who] == list(range(30))


def test_special_methods_are_callable_by_name(ray, get):
    @ray.remote
    class Callable:
        def __call__(self, x):
            return x + 1

    assert get(Callable.remote().__call__.remote(1)) == 2


def test_an_actor_class_is_not_made_remote_again(ray, counter):
    with pytest.raises(TypeError):
        ray.remote(counter)


def test_a_method_with_an_underscore_is_callable(ray, get):
    @ray.remote
    class Plain:
        def _hidden(self):
            return "hidden"

    assert get(Plain.remote()._hidden.remote()) == "hidden"


def test_methods_run_in_the_main_thread(ray, get):
    import threading

    @ray.remote
    class Plain:
        def is_main(self):
            return threading.current_thread() is threading.main_thread()

    assert get(Plain.remote().is_main.remote())


def test_killing_twice_does_nothing_more(ray, counter, get):
    actor = counter.remote()
    get(actor.read.remote())
    assert ray.kill(actor) is None
    assert ray.kill(actor) is None


def test_an_explicit_resource_of_an_actor_comes_with_one_cpu(ray, get):
    @ray.remote
    class Plain:
        def resources(self):
            return ray.get_runtime_context().get_assigned_resources()

    actors = [Plain.options(num_gpus=1).remote(), Plain.options(resources={"custom": 1}).remote()]
    with_gpu, with_custom = get([actor.resources.remote() for actor in actors])
    assert with_gpu == {"CPU": 1, "GPU": 1}
    assert with_custom == {"CPU": 1, "custom": 1}
    assert get(Plain.remote().resources.remote()) == {}


def test_a_constructor_that_exits_makes_the_actor_dead(ray, get, errors):
    import sys

    @ray.remote
    class Leaver:
        def __init__(self):
            sys.exit(0)

        def ping(self):
            return "pong"

    with pytest.raises(errors.ActorDiedError):
        get(Leaver.remote().ping.remote())


def test_an_actor_keeps_its_environment_between_calls(ray, get):
    import os

    @ray.remote
    class Plain:
        def change(self):
            os.environ["CONTRACT_SEEN"] = "yes"
            os.chdir("/")

        def read(self):
            return os.environ["CONTRACT_SEEN"], os.getcwd()

    actor = Plain.remote()
    get(actor.change.remote())
    assert get(actor.read.remote()) == ("yes", "/")
