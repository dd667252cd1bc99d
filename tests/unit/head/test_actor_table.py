"""The head's actors: states, names, restarts, watchers, tested by scripts.

Before the arrow stand the events of actor `a`. After it stand the effects: `place`, `withdraw`,
`create`, `end` (`end!` is an immediate end), and each published state.
"""

from __future__ import annotations

import itertools

import msgspec
import pytest
from tests.present import present

from phalanx.errors import ActorAlreadyExistsError
from phalanx.head.actors.table import REGISTRATION_S, ActorRecord, ActorTable
from phalanx.model import lifecycle
from phalanx.model.lifecycle import ACTOR, DEAD, RESTARTING, TASK, IllegalTransition, move

OWNER = b"owner"


class Script:
    """Plays events on a table and records the table's effects."""

    def __init__(self, **fields):
        self.log = []
        self.table = ActorTable(self)
        self.fields = fields
        self.workers = (b"w%d" % i for i in itertools.count(1))
        self.published = []

    def record(self, actor=b"a", **fields):
        base = {"owner": OWNER, "job": b"j", "creation": b"c", "class_name": "A"}
        return ActorRecord(actor=actor, **{**base, **self.fields, **fields})

    # ---- effects

    def place_actor(self, record):
        self.log.append("place")

    def restarts(self, record, is_crash):
        pass

    def withdraw_actor(self, record):
        self.log.append("withdraw")

    def end_worker(self, record, reason, force):
        self.log.append("end!" if force else "end")

    def ending(self, record):
        self.stored = self.table.row(record)

    def publish(self, record, watchers):
        self.log.append(record.state)
        self.published.append((record.state, watchers))

    # ---- events

    def placed(self):
        if self.table.placed(b"a", next(self.workers)):
            self.log.append("create")

    def run(self, script):
        events = {
            "announce": lambda: self.table.announce(self.record()),
            "register": lambda: self.table.register(self.record()),
            "placed": self.placed,
            "ready": lambda: self.table.ready(b"a", self.worker(), 7),
            "raises": lambda: self.table.failed(b"a", b"error"),
            "dies": lambda: self.table.worker_died(b"a", self.worker(), "signal SIGKILL"),
            "old-dies": lambda: self.table.worker_died(b"a", b"w0", "late news"),
            "exits": lambda: self.table.leaving(b"a", "it left"),
            "kill": lambda: self.table.kill(b"a", True),
            "restart": lambda: self.table.kill(b"a", False),
            "unreferenced": lambda: self.table.unreferenced(b"a"),
            "refused": lambda: self.table.refused(b"a", "no room", "X"),
            "owner-dies": lambda: self.table.process_gone(OWNER),
        }
        for event in script.split():
            events[event]()
        return " ".join(self.log)

    def record_of_a(self):
        return present(self.table.get(b"a"))

    def worker(self):
        return self.record_of_a().worker or b"w"


CASES = """
a life: register placed ready -> place create ALIVE
arguments come later: announce register -> place_after PENDING_CREATION place
killed before its arguments: announce kill register -> withdraw DEAD
killed while it waits: register kill -> place withdraw DEAD
killed while it is made: register placed kill ready dies -> place create end! DEAD
killed at work: register placed ready kill dies -> place create ALIVE end! DEAD
its constructor raises: register placed raises dies -> place create DEAD end!
its process dies: register placed ready dies -> place create ALIVE DEAD
old news change nothing: register placed ready old-dies -> place create ALIVE
it leaves: register placed ready exits dies -> place create ALIVE DEAD
its last handle goes: register placed ready unreferenced dies -> place create ALIVE end DEAD
its last handle goes early: register placed unreferenced dies -> place create end! DEAD
its owner dies: register placed ready owner-dies dies -> place create ALIVE end! DEAD
it fits nowhere: register refused placed -> place DEAD
the dead stay dead: register kill kill dies ready raises refused unreferenced -> \
  place withdraw DEAD
restart of what cannot: register placed ready restart dies -> place create ALIVE end! DEAD
"""

RESTARTING_CASES = """
restarts end: register placed ready dies placed ready dies -> \
  place create ALIVE RESTARTING place create ALIVE DEAD
it dies while it is made: register placed dies placed ready -> \
  place create RESTARTING place create ALIVE
kill with a restart: register placed ready restart dies placed ready -> \
  place create ALIVE end! RESTARTING place create ALIVE
kill for good: register placed ready kill dies -> place create ALIVE end! DEAD
it leaves for good: register placed ready exits dies -> place create ALIVE DEAD
its constructor raises for good: register placed raises dies -> place create DEAD end!
killed between two lives: register placed ready dies kill -> \
  place create ALIVE RESTARTING place withdraw DEAD
"""


def cases(text):
    for line in text.replace("\\\n", "").strip().splitlines():
        name, _, rest = line.partition(":")
        script, _, effects = rest.partition("->")
        yield pytest.param(script, " ".join(effects.split()).replace("place_after ", ""), id=name)


@pytest.mark.parametrize(("script", "effects"), list(cases(CASES)))
def test_without_restarts(script, effects):
    assert Script().run(script) == effects


@pytest.mark.parametrize(("script", "effects"), list(cases(RESTARTING_CASES)))
def test_with_one_restart(script, effects):
    assert Script(max_restarts=1).run(script) == effects


def test_endless_restarts():
    script = Script(max_restarts=-1)
    script.run("register" + " placed ready dies" * 20)
    assert script.record_of_a().restarts == script.record_of_a().incarnation == 20


def test_a_detached_one_outlives_owner_and_handles():
    script = Script(detached=True)
    assert script.run("register placed ready unreferenced owner-dies") == "place create ALIVE"


def test_a_name_is_taken_until_its_actor_is_dead():
    script = Script(name="n", namespace="s")
    script.run("register placed ready")
    with pytest.raises(ActorAlreadyExistsError, match="already taken"):
        script.table.register(script.record(b"b"))
    script.table.register(script.record(b"c", namespace="other"))
    assert script.table.names(None) == [("s", "n"), ("other", "n")]
    assert script.table.names("s") == [("s", "n")]
    script.run("kill")
    assert script.table.named("s", "n") is None
    script.table.register(script.record(b"b"))
    assert present(script.table.named("s", "n")).actor == b"b"


@pytest.mark.parametrize("how", ["exits", "unreferenced", "kill", "owner-dies", "dies"])
def test_a_name_is_free_once_its_actor_is_to_end(how):
    """A caller that asks for the name must not get an actor whose process is about to end."""
    script = Script(name="n", namespace="s")
    script.run(f"register placed ready {how}")
    assert script.table.named("s", "n") is None
    assert script.table.names(None) == []
    script.table.register(script.record(b"b"))
    script.run("dies")  # the end of the first one leaves the second one its name
    assert present(script.table.named("s", "n")).actor == b"b"


@pytest.mark.parametrize("how", ["exits", "unreferenced"])
def test_a_head_that_restarts_knows_which_actors_are_about_to_end(how):
    script = Script(name="n", namespace="s", max_restarts=-1)
    script.run(f"register placed ready {how}")
    assert msgspec.to_builtins(script.stored)["is_ending"], "the name in existing stores"
    after = Script()
    after.table.restore([script.stored], 0.0)
    assert after.table.named("s", "n") is None
    after.table.register(script.record(b"b"))
    after.table.worker_died(b"a", script.worker(), "it has ended")
    assert after.record_of_a().state == DEAD
    assert present(after.table.named("s", "n")).actor == b"b"


def test_a_restarting_one_keeps_its_name():
    script = Script(name="n", namespace="s", max_restarts=1)
    script.run("register placed ready dies")
    assert present(script.table.named("s", "n")).actor == b"a"


def test_watchers_may_come_before_the_actor():
    script = Script()
    script.table.watch(b"a", b"early", 0.0)
    assert script.published == []
    script.run("register")
    script.table.tick(REGISTRATION_S + 1)
    script.run("placed ready")
    assert script.published == [("ALIVE", [OWNER, b"early"])]


def test_watchers_of_an_actor_that_never_comes_learn_it():
    script = Script()
    script.table.watch(b"a", b"early", 0.0)
    script.table.tick(REGISTRATION_S / 2)
    assert script.published == []
    script.table.tick(REGISTRATION_S)
    script.table.tick(REGISTRATION_S * 2)
    assert script.published == [("DEAD", [b"early"])]


def test_a_late_watcher_hears_the_state_and_a_dead_one_nothing():
    script = Script()
    script.run("register placed ready")
    script.table.watch(b"a", b"late", 0.0)
    script.table.watch(b"a", b"late", 0.0)
    script.table.process_gone(b"late")
    script.run("kill")
    assert script.published == [
        ("ALIVE", [OWNER]),
        ("ALIVE", [b"late"]),
        ("ALIVE", [b"late"]),
        ("DEAD", [OWNER]),
    ]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("register placed ready dies", "signal SIGKILL"),
        ("register placed ready exits dies", "it left"),
        ("register kill", "killed by `ray.kill`"),
        ("register placed ready unreferenced dies", "out of scope"),
        ("register placed ready owner-dies", "its owner has died"),
        ("register refused", "no room"),
        ("register placed raises", "an error raised in its creation task"),
    ],
)
def test_the_dead_say_why(script, reason):
    run = Script()
    run.run(script)
    assert reason in run.record_of_a().reason


# ---- life cycles -----------------------------------------------------------------------------


@pytest.mark.parametrize("table", [TASK, ACTOR], ids=["task", "actor"])
def test_life_cycles_are_closed(table):
    reached, todo = set(), [next(iter(table))]
    while todo:
        state = todo.pop()
        if state not in reached:
            reached.add(state)
            todo += table[state]
    assert reached == set(table), "every state can be reached, and has a line of its own"


@pytest.mark.parametrize("table", [TASK, ACTOR], ids=["task", "actor"])
def test_only_what_the_table_names_is_allowed(table):
    for old, new in itertools.product(table, table):
        if new in table[old]:
            assert move(table, "thing", old, new) == new
        else:
            with pytest.raises(IllegalTransition, match=f"{old} -> {new} .* its story"):
                move(table, "thing", old, new, "its story")


def test_ends_are_ends():
    assert not TASK[lifecycle.FINISHED]
    assert not ACTOR[lifecycle.DEAD]


def test_a_kill_before_there_is_a_process_costs_a_restart():
    script = Script()
    script.run("register")
    record = script.record_of_a()
    record.max_restarts = 1
    script.table.kill(b"a", no_restart=False)
    assert (record.state, record.restarts) == (RESTARTING, 1)
    script.table.kill(b"a", no_restart=False)
    assert record.state == DEAD


def test_what_ended_its_last_process_is_the_error_of_its_calls():
    script = Script()
    script.run("register placed ready")
    record = script.record_of_a()
    record.max_restarts = 1
    script.table.worker_died(b"a", record.worker, "memory was full", code="actor_out_of_memory")
    assert (record.state, record.code) == (RESTARTING, "")
    script.run("placed ready")
    script.table.worker_died(b"a", record.worker, "memory was full", code="actor_out_of_memory")
    assert (record.state, record.code) == (DEAD, "actor_out_of_memory")
