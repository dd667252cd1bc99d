"""The machine of an owner's tasks, tested by scripts: what it sends, requests, cancels and gives
up.

A script is one line. Before the arrow stands what happens; after it, the effects in order.
  `f`, `f*3`, `f!`       submit tasks of function f (`!`: not to be retried), numbered from 1
  `grant 1`, `due 1`     the node lends worker 1, or wants it back; `gone`: one was unreachable
  `done 1`, `back 2,3`   task 1 gave its result; tasks came back unstarted
  `raised 1`             task 1 raised, and is to be tried again
  `lost 1`, `moved 1`    worker 1 crashed; or its lease ended before the task could start
  `leaves 1`             worker 1 ends by plan
  `flush`, `after 0.5`   the outbox is sent; this many seconds pass and a tick comes
  `knows f 0.001`        f takes this many seconds on average
  `never`, `notnow`      the node refuses the class for good, or for now
  `cancel 2`             task 2 is marked as cancelled
  `over`                 no task of the class will come any more
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.present import present

from phalanx.model.crash_pauses import LONGEST_PAUSE_S
from phalanx.owner.tasks.leases import AHEAD_TASKS, TaskMachine
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, PendingTask, TaskBurst, Template

KEY = ClassKey((("CPU", 1.0),), b"", b"", "", 0, False)


class Script:
    """Plays a script on a machine and records the machine's effects."""

    def __init__(self, key=KEY):
        self.machine = TaskMachine(self)
        self.functions = {}
        self.tasks: Any = {}
        self.key = key
        self.now = 0.0
        self.log = []
        self.attempts = {}

    # ---- effects

    def send_tasks(self, worker, tasks, urgent):
        for task in tasks:
            assert task.worker is worker
        self.log.append(f"send {worker.lease}:{','.join(str(t.number) for t in tasks)}")

    def recall(self, worker):
        self.log.append(f"recall {worker.lease}")

    def want_workers(self, scheduling_class, count):
        self.log.append(f"want {count}")

    def return_lease(self, worker, reusable):
        self.log.append(f"return {worker.lease}" + ("" if reusable else " spent"))

    def fail(self, task, kind, reason):
        self.log.append(f"fail {task.number} {kind}")

    def attempt_lost(self, task):
        pass

    def requeued(self, task, reason):
        if task.attempt != self.attempts.get(task.number, 0):
            self.attempts[task.number] = task.attempt
            self.log.append(f"retry {task.number}")

    # ---- events

    def run(self, script):
        for line in script.split(";"):
            name, _, rest = line.strip().partition(" ")
            event = getattr(self, f"on_{name}", None)
            if event is not None:
                event(*rest.split())
            else:
                self.submit(name)
        return "; ".join(self.log)

    def submit(self, text):
        name, _, count = text.partition("*")
        once = name.endswith("!")
        record = self.functions.setdefault(name[0], FunctionRecord(name[0].encode(), name[0], b""))
        template = Template(
            function=record, key=self.key, name=name[0], returns=1, max_retries=0 if once else 1
        )
        for _ in range(int(count or 1)):
            self.queue(template)

    def queue(self, template):
        task = PendingTask(len(self.tasks) + 1, template, b"", None, None, [])
        self.tasks[task.number] = self.machine.pending[task.number] = task
        self.machine.enqueue(task)

    def worker(self, lease):
        return self.machine.by_lease.get(int(lease))

    def on_grant(self, lease, node="w"):
        worker = self.machine.granted(1, int(lease), (node + lease).encode(), self.now)
        if worker is not None:
            self.machine.pump(worker.scheduling_class)

    def on_gone(self):
        self.machine.unreachable(1)

    def on_due(self, lease):
        self.machine.lease_due(int(lease))

    def on_done(self, number):
        worker = self.tasks[int(number)].worker
        assert self.machine.finished(worker, int(number), self.now) is not None

    def on_raised(self, number):
        self.on_done(number)
        self.machine.retry_later(self.tasks[int(number)], "it raised", self.now)

    def on_back(self, numbers):
        found = [int(n) for n in numbers.split(",")]
        self.machine.returned(self.tasks[found[0]].worker, found)

    def on_lost(self, lease):
        self.machine.worker_lost(self.worker(lease), "it crashed", "crashed")

    def on_moved(self, lease):
        self.machine.worker_lost(self.worker(lease), "its lease ended", "lost")

    def on_leaves(self, lease):
        self.machine.leaving(self.worker(lease))

    def on_flush(self):
        self.machine.pump_dirty()

    def on_after(self, seconds):
        self.now += float(seconds)
        self.machine.tick(self.now)

    def on_knows(self, name, seconds):
        self.functions.setdefault(name, FunctionRecord(name.encode(), name, b""))
        self.functions[name].mean_s = float(seconds)

    def on_never(self):
        self.machine.refused(1, "it has none", True)

    def on_notnow(self):
        self.machine.refused(1, "it has none", False)

    def on_cancel(self, number):
        self.tasks[int(number)].cancelled = "cancelled"

    def on_over(self):
        self.machine.forget(self.key)

    def on_withdraw(self, number):
        assert self.machine.withdraw(self.tasks[int(number)])


CASES = """
the first task asks at once: f -> want 1
later ones wait for the flush: f*3; flush -> want 1; want 3
a burst does not ask for each: f*130 -> want 1; want 64; want 128
the worker gets the first: f*2; grant 1 -> want 1; send 1:1; want 1
first in, first out: f*3; grant 1; done 1; flush; done 2; flush -> want 1; send 1:1; want 2; \
  send 1:2; send 1:3; want 0
an unknown function travels alone: f*9; grant 1; flush -> want 1; send 1:1; want 8
a known one is sent ahead: knows f 0.001; f*9; grant 1; flush -> want 1; send 1:1; send \
  1:2,3,4,5; want 4
two workers share what waits: knows f 0.0001; f*7; grant 1; grant 2 -> want 1; send 1:1; send \
  1:2,3,4,5,6,7; return 2
a slow function is not sent ahead: knows f 0.5; f*3; grant 1; flush -> want 1; send 1:1; want 2
another function stops the batch: knows f 0.0001; knows g 0.0001; f*2; g; f; grant 1 -> want 1; \
  send 1:1; send 1:2
what is not retried is never sent ahead: knows f 0.0001; f; f!*2; grant 1; flush -> want 1; \
  send 1:1
what is not retried stops the batch: knows f 0.0001; f*2; f!; f; grant 1; flush -> want 1; send \
  1:1; send 1:2
an idle worker is used at once: f; grant 1; done 1; f -> want 1; send 1:1; send 1:2
a grant too many goes back: f; grant 1; done 1; grant 2 -> want 1; send 1:1; return 2
idle leases go back: f; grant 1; done 1; after 0.29; after 0.02 -> want 1; send 1:1; return 1
a busy one stays: f; grant 1; after 9 -> want 1; send 1:1
a due idle one goes back at once: f; grant 1; done 1; due 1 -> want 1; send 1:1; return 1
a due busy one goes back when done: f*2; grant 1; due 1; done 1; flush -> want 1; send 1:1; \
  want 1; return 1
a due one gives back what it has not begun: knows f 0.0001; f*4; grant 1; due 1; back 2,3,4; \
  done 1; flush -> want 1; send 1:1; send 1:2,3,4; recall 1; return 1; want 3
no task stays behind a slow one: knows f 0.0001; f*3; grant 1; after 0.03 -> want 1; send 1:1; \
  send 1:2,3; recall 1
it is asked once: knows f 0.0001; f*3; grant 1; after 0.03; after 1 -> want 1; send 1:1; send \
  1:2,3; recall 1
recalled tasks keep their place: knows f 0.0001; f*3; grant 1; f; after 0.03; back 2,3; flush; \
  grant 2; done 2; flush; done 3; flush -> want 1; send 1:1; send 1:2,3; recall 1; want 3; send \
  2:2; send 2:3; want 0; send 2:4
nothing more goes behind a slow one: knows f 0.0001; f*3; grant 1; after 0.03; f; flush -> want \
  1; send 1:1; send 1:2,3; recall 1; want 1
only the head is charged: knows f 0.0001; f*3; grant 1; lost 1; flush -> want 1; send 1:1; send \
  1:2,3; retry 1; want 3
after a crash a function travels alone: knows f 0.0001; f*3; grant 1; lost 1; grant 2; flush -> \
  want 1; send 1:1; send 1:2,3; retry 1; send 2:1
retries end: f; grant 1; lost 1; grant 2; lost 2; flush -> want 1; send 1:1; retry 1; send 2:1; \
  fail 1 crashed
what raised is tried again at once: f; grant 1; raised 1; flush -> want 1; send 1:1; retry 1; \
  send 1:1
then it rests: f; grant 1; raised 1; flush; raised 1; flush; after 0.04; flush; after 0.02 -> \
  want 1; send 1:1; retry 1; send 1:1; retry 1; send 1:1
it rests in no queue: f*2; grant 1; raised 1; flush; raised 1; withdraw 1; flush; after 1 -> \
  want 1; send 1:1; want 1; retry 1; send 1:1; retry 1; send 1:2; want 0
none are left to begin with: f!; grant 1; lost 1; flush -> want 1; send 1:1; fail 1 crashed
an ended lease charges nobody: f!; grant 1; moved 1; flush; grant 2; done 1 -> want 1; send \
  1:1; want 1; send 2:1
an unreachable worker is asked for again: f; gone; flush -> want 1; want 1
a leaving worker ends: f*2; grant 1; leaves 1; done 1; flush -> want 1; send 1:1; want 1; \
  return 1 spent
a refused class fails what waits: f*2; never; f -> want 1; fail 1 refused; fail 2 refused; want \
  1
a refusal for now lets it wait: f; notnow; grant 1 -> want 1; send 1:1
a withdrawn task does not run: f*2; withdraw 1; grant 1 -> want 1; send 1:2
the last one withdrawn is not asked for: f; withdraw 1; flush -> want 1; want 0
a cancelled task that comes back does not run: knows f 0.0001; f*3; grant 1; cancel 2; back \
  2,3; done 1; flush -> want 1; send 1:1; send 1:2,3; fail 2 cancelled; send 1:3
a cancelled task behind a crash does not run: knows f 0.0001; f*2; grant 1; cancel 2; lost 1; \
  grant 2 -> want 1; send 1:1; send 1:2; fail 2 cancelled; retry 1; send 2:1
a cancelled head ends with its worker: f; grant 1; cancel 1; lost 1 -> want 1; send 1:1; fail 1 \
  cancelled
and so when only its lease ended: f; grant 1; cancel 1; moved 1; flush -> want 1; send 1:1; fail 1 \
  cancelled
a class that is over is forgotten: f; grant 1; done 1; due 1; over -> want 1; send 1:1; return 1; \
  want -1
though it asked for more than it needs: f; withdraw 1; over; flush; never -> want 1; want -1
with its last worker: f; grant 1; over; done 1; after 0.5; flush -> want 1; send 1:1; want -1; \
  return 1
not with tasks in it: f; over; grant 1; done 1 -> want 1; send 1:1
"""


class BurstScript(Script):
    """Submits tasks as parts of bursts where that is allowed. The effects are the same."""

    def __init__(self, key=KEY):
        super().__init__(key)
        self.count = 0
        self.tasks: Any = Records(self.machine)

    def send_tasks(self, worker, tasks, urgent):
        numbers: list[int] = []
        for task in tasks:
            assert task.worker is worker
            count = len(task) if isinstance(task, TaskBurst) else 1
            numbers += range(task.number, task.number + count)
        self.log.append(f"send {worker.lease}:{','.join(map(str, numbers))}")

    def queue(self, template):
        self.count += 1
        ref: Any = object()
        if not template.goes_in_bursts or not self.machine.join(
            template, self.count, (self.count,), ref, 0.0, None
        ):
            task = PendingTask(self.count, template, b"", None, None, [ref])
            self.machine.pending[task.number] = task
            self.machine.enqueue(task)

    def on_done(self, number):
        task = present(self.machine.pending.get(int(number)))
        self.tasks.ended[int(number)] = task
        worker = present(task.worker)
        if self.machine.finished_burst(worker, int(number), 1, self.now) is None:
            assert self.machine.finished(worker, int(number), self.now) is not None


class Records:
    """The records of tasks by number, each made when it is first requested."""

    def __init__(self, machine):
        self.machine = machine
        self.ended = {}

    def __getitem__(self, number):
        return self.machine.own(number) or self.ended[number]


def cases():
    for line in CASES.replace("\\\n", "").strip().splitlines():
        name, _, rest = line.partition(":")
        script, _, effects = rest.partition("->")
        yield pytest.param(script.strip(), " ".join(effects.split()), id=name.strip())


@pytest.mark.parametrize("kind", [Script, BurstScript])
@pytest.mark.parametrize(("script", "effects"), list(cases()))
def test_script(script, effects, kind):
    assert kind().run(script) == effects


def test_a_pipeline_has_a_limit():
    script = Script()
    script.run(f"knows f 0.000001; f*{AHEAD_TASKS + 9}; grant 1; flush")
    assert len(script.worker(1).inflight) == AHEAD_TASKS


def test_the_node_is_told_when_half_of_many_workers_are_wanted_no_more():
    script = Script()
    script.run("f*33; flush; grant 1")
    script.run("; ".join(f"done {number}; flush" for number in range(1, 34)))
    wanted = [entry for entry in script.log if entry.startswith("want")]
    assert wanted == ["want 1", "want 33", "want 16", "want 8", "want 0"]


def test_timed_tasks_are_one_to_a_worker():
    single = ClassKey((("CPU", 1.0),), b"", b"", "", 0, True)
    assert Script(single).run("knows f 0.0001; f*3; grant 1") == "want 1; send 1:1"


def test_no_class_comes_under_the_number_of_one_that_is_over():
    script = Script()
    script.run("f; grant 1; done 1; due 1; over")
    assert not script.machine.known(1)
    script.submit("f")
    assert script.machine.class_of(script.key).number == 2
    assert not script.machine.known(1), "a worker that comes late for the old class goes back"


def test_classes_have_queues_of_their_own():
    script = Script()
    other = ClassKey((("GPU", 1.0),), b"", b"", "", 0, False)
    script.submit("f")
    first = script.machine.class_of(KEY)
    assert script.machine.class_of(other).number == 2
    assert script.machine.class_of(KEY) is first
    assert not script.machine.class_of(other).queue


def test_an_idle_worker_goes_back_soon_while_tasks_of_another_class_wait():
    """In an earlier version the worker kept resources for which those tasks waited. Its node seemed
    full, so no other node handed requests on to it.
    """
    script = Script()
    script.run("f; grant 1; done 1; after 0.03")
    script.key = msgspec.structs.replace(KEY, resources=(("CPU", 1.0), ("R", 1.0)))
    assert script.run("f; after 0.01") == "want 1; send 1:1; want 1; return 1"


@pytest.mark.parametrize(("resource", "goes_back"), [("R", True), ("GPU", False)])
def test_an_idle_worker_that_holds_a_resource_of_the_users_own_goes_back_soon(resource, goes_back):
    """Programs that watch free resources see the amount as free, as on Ray. A worker with a GPU is
    kept for the next task, because it may have loaded a model onto the GPU.
    """
    script = Script(msgspec.structs.replace(KEY, resources=(("CPU", 1.0), (resource, 1.0))))
    done = script.run("f; grant 1; done 1; after 0.03")
    assert done == "want 1; send 1:1" + ("; return 1" if goes_back else "")


def test_run_times_are_believed_at_once_when_bad():
    record = FunctionRecord(b"f", "f", b"")
    means = []
    for seconds in (1.0, 1.0, 2.0, 10.0, 1.0):
        record.observe(seconds)
        means.append(round(present(record.mean_s), 3))
    assert means == [1.0, 1.0, 1.2, 10.0, 8.2]


def test_a_class_for_once_gives_its_worker_back_at_once():
    script = Script(msgspec.structs.replace(KEY, once=True))
    assert script.run("f; grant 1; done 1") == "want 1; send 1:1; return 1"


def test_a_worker_away_from_the_arguments_goes_back_at_once():
    near = msgspec.structs.replace(KEY, near=b"w")
    assert Script(near).run("f; grant 1 x; done 1") == "want 1; send 1:1; return 1"
    assert Script(near).run("f; grant 1 w; done 1") == "want 1; send 1:1"


@pytest.mark.parametrize("script", ["f", "f; grant 1"])
def test_a_class_with_work_is_not_forgotten(script):
    world = Script()
    world.run(script)
    before = world.machine.class_of(KEY)
    world.machine.forget(KEY)
    assert world.machine.class_of(KEY) is before


@pytest.mark.parametrize(
    ("seconds", "script", "effects"),
    [
        (0, "f*2; grant 1; done 1; flush; done 2", "send 1:1; want 1; send 1:2; want 0; return 1"),
        (2, "f; grant 1; done 1; after 1.9; f; done 2; after 2.1", "send 1:1; send 1:2; return 1"),
    ],
)
def test_how_long_a_worker_is_kept_idle_is_a_setting(seconds, script, effects):
    machine = Script()
    machine.machine.idle_return_s = seconds
    assert machine.run(script) == f"want 1; {effects}"


def test_a_task_that_ends_its_worker_again_and_again_rests_ever_longer():
    """In an earlier version the task was started 200 times in six seconds. Only the first retry may
    be immediate.
    """
    script = Script()
    script.run("f; grant 1")
    script.tasks[1].retries = -1
    rests, lease = [], 1
    for _ in range(12):
        script.run(f"lost {lease}")
        began = script.now
        while script.tasks[1] not in script.machine.class_of(KEY).queue:
            script.run("after 0.01")
        rests.append(round(script.now - began, 1))
        lease += 1
        script.run(f"flush; grant {lease}")
    assert rests == [0, 0.1, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *[LONGEST_PAUSE_S] * 4]


def test_a_task_that_is_moved_does_not_rest():
    script = Script()
    script.run("f; grant 1; moved 1; flush; grant 2; moved 2; flush")
    assert script.tasks[1] in script.machine.class_of(KEY).queue
    assert not script.machine.resting
