"""Members of jobs on a node. Orders arrive twice, or in another order than they were sent."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.command_starting import start_command

from phalanx.model.exit_codes import KILLED, NOT_STARTED, TIMED_OUT
from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.model.node_deaths import PARENT_KILLED
from phalanx.node import followed_logs
from phalanx.node.bundle_table import BundleTable
from phalanx.node.directories import Directories, DirectorySample
from phalanx.node.job_members import JobMembers
from phalanx.node.member_effects import CommandEnd, MemberEffects
from phalanx.node.member_logs import LOOK_EVERY_S
from phalanx.node.memory_limits import LOOK_AT_MEMORY_EVERY_S
from phalanx.node.shortage import Shortage
from phalanx.node.usage import NoUsageMeter
from phalanx.protocol.bundle_messages import (
    ERROR_FILE,
    Command,
    EndMember,
    ExtendRun,
    MemberNews,
    MemberUsed,
    ReadLog,
    RunTask,
    StartMember,
    StartStep,
    StepStarted,
    WarnMember,
)
from phalanx.runtime.os import job_files
from phalanx.runtime.os.job_files import JobDirectories
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

GROUP = GangId(GroupId(bytes(18)))
JOB = JobId("default/j")
UNSTARTED = CommandEnd(code=1, reason="no process could be started", is_unstarted=True)


class Node:
    """The parts of a node that deal with members. Commands run until the test ends them."""

    def __init__(self, tmp_path):
        self.now = 1.0
        self.root = str(tmp_path)
        self.news: list[Any] = []
        self.processes: list[Any] = []
        self.notes: list[str] = []
        self.signals = []
        self.used = {}
        self.directory_error = ""
        self.is_sure = True
        self.files: Any = JobDirectories(str(tmp_path))
        self.shortage = Shortage(lambda: self.now, lambda text, **about: None)
        self.bundles = bundles = BundleTable(NodeResources({"CPU": 1}))
        bundles.prepare(GROUP, 1, {0: ResourceSet.from_mapping({"CPU": 1})}, 0.0)
        bundles.commit(GROUP, 1)
        self.members = JobMembers(
            MemberEffects(
                clock=lambda: self.now,
                commands=self,
                files=self.files,
                memory=self,
                make_unique=lambda size: len(self.processes).to_bytes(size, "big"),
                usage=NoUsageMeter(),
                note=lambda text, **about: self.notes.append(text),
            ),
            bundles,
            SimpleNamespace(notify=self.news.append),
            directories=Directories(self, lambda: self.now, lambda text, **about: None),
            report=lambda: self.news.append("report"),
            shortage=self.shortage,
            may_begin=lambda: self.is_sure,
        )

    # ---- effects

    def run(self, process, order, command, log):
        self.processes.append(process)
        pathlib.Path(log).touch()

    def terminate(self, process):
        self.signals.append(("TERM", self.processes.index(process)))

    def kill(self, process):
        self.signals.append(("KILL", self.processes.index(process)))

    def signal(self, process, number, to):
        self.signals.append((number, to, self.processes.index(process)))

    def look(self, writes):
        return [
            DirectorySample(
                what="jobs",
                path="/d",
                error=self.directory_error,
                free=1 << 30,
                total=1 << 30,
                has_logs=True,
            )
        ]

    def above(self, limits):
        return {pid: used for pid, used in self.used.items() if used > limits.get(pid, used)}

    # ---- events

    def start(self, attempt=1, commands=1, grace_s=0.0, **limits):
        self.members.start(self.order(attempt, commands, grace_s, **limits))

    def order(self, attempt=1, commands=1, grace_s=0.0, memory_limit=0, before=(), **limits):
        command = Command(["true"], {}, "", memory_limit)
        return StartMember(
            GROUP,
            0,
            attempt,
            JobId("default/job"),
            "a-0",
            list(before),
            [command] * commands,
            {},
            grace_s,
            **limits,
        )

    def end(self, attempt=1):
        self.members.end(EndMember(GROUP, 0, attempt))

    def evict(self):
        self.members.warn_in(list(self.bundles.pools((GROUP, 0))))

    def exits(self, code=0, process=-1):
        assert self.members.exited(self.processes[process], CommandEnd(code=code))

    def later(self, seconds):
        self.now += seconds
        self.members.tick(self.now)

    def told(self):
        """Return (attempt, exit code) of all news."""
        assert all(isinstance(news, MemberNews) for news in self.news)
        return [(news.attempt, news.code) for news in self.news]


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_an_order_that_comes_twice_starts_one_attempt(node):
    node.start()
    node.start()
    assert (len(node.processes), node.told()) == (1, [(1, None), (1, None)])


def test_lines_about_a_member_number_its_start_as_its_files_do(node, tmp_path):
    node.start(attempt=7, start=2)
    assert node.notes == ["member a-0 begins, start 2"]
    assert [path.suffixes for path in tmp_path.rglob("*.log")] == [[".2", ".log"]]


def test_an_attempt_that_has_ended_does_not_begin_again(node):
    node.start()
    node.exits()
    node.start()
    node.end()
    assert (len(node.processes), node.told()) == (1, [(1, None), (1, 0)])
    node.start(2)
    assert len(node.processes) == 2


def test_an_attempt_that_was_ended_before_it_was_heard_of_never_begins(node):
    node.end()
    assert node.told() == [(1, NOT_STARTED)]
    node.start()
    node.end()
    assert (node.processes, node.told()) == ([], [(1, NOT_STARTED)])


def test_a_member_that_rests_begins_after_that(node):
    node.start(rest_s=0.4, time_limit_s=10.0)
    node.start(rest_s=0.1)
    node.later(0.3)
    assert (node.processes, node.news) == ([], []), "it does not run yet"
    node.later(0.1)
    node.later(0.1)
    assert (len(node.processes), node.told()) == (1, [(1, None)])
    node.later(9.8)
    assert node.signals == [], "its limit counts from its beginning"


@pytest.mark.parametrize("is_evicted", [False, True])
def test_a_member_that_rests_can_be_ended(node, is_evicted):
    node.start(rest_s=1.0)
    if is_evicted:
        node.evict()
    else:
        node.end()
    assert [type(news) for news in node.news] == [MemberUsed if is_evicted else MemberNews]
    node.later(2.0)
    assert (node.processes, len(node.news)) == ([], 1), "it never begins"
    node.start(2)
    assert len(node.processes) == 1, "its place is free"


def test_a_member_that_rests_has_no_steps(node):
    node.start(rest_s=1.0)
    node.members.start_step(StartStep(7, GROUP, 0, 1, Command(["true"], {})))
    assert node.news == [StepStarted(7, "it rests after a crash")]


def test_nothing_begins_while_the_head_may_have_given_the_node_up(node):
    node.is_sure = False
    node.start(commands=2, grace_s=5.0, time_limit_s=10.0)
    node.later(9.0)
    node.start(commands=2)
    assert (node.processes, node.news) == ([], []), "it is not said to run either"
    node.is_sure = True
    node.members.begin_waiting()
    node.members.begin_waiting()
    assert (len(node.processes), node.told()) == (2, [(1, None)])
    node.later(9.0)
    assert node.signals == [], "its limit counts from its beginning"
    node.later(1.0)
    assert node.signals == [("TERM", 0), ("TERM", 1)]


def test_what_a_member_does_next_waits_as_well(node):
    """While the node may not begin work, nothing begins: no member whose rest is over, no step, and
    not the next one of a member's commands.
    """
    node.start(rest_s=1.0, before=[Command(["true"], {})])
    node.is_sure = False
    node.later(2.0)
    assert node.processes == []
    node.is_sure = True
    node.members.begin_waiting()
    assert len(node.processes) == 1
    node.is_sure = False
    node.exits()
    node.members.start_step(StartStep(7, GROUP, 0, 1, Command(["true"], {})))
    assert (len(node.processes), node.news[1:]) == (1, [])
    node.is_sure = True
    node.members.begin_waiting()
    assert (len(node.processes), node.news[1:]) == (3, [StepStarted(7, "")])


def test_the_next_task_of_a_run_waits_as_well(node):
    node.start()
    like = node.order(commands=1)
    node.members.extend(ExtendRun(2, [RunTask(JobId("default/job[2]"), ["true"], {})], like, 1))
    node.is_sure = False
    node.exits()
    node.later(1.0)
    assert len(node.processes) == 1
    node.is_sure = True
    node.members.begin_waiting()
    assert len(node.processes) == 2


@pytest.mark.parametrize("is_evicted", [False, True])
def test_a_member_that_is_ended_while_it_waits_never_begins(node, is_evicted):
    node.is_sure = False
    node.start()
    if is_evicted:
        node.evict()
    else:
        node.end()
    node.is_sure = True
    node.members.begin_waiting()
    assert node.processes == []
    node.start(2)
    assert len(node.processes) == 1, "its place is free"


def test_a_member_that_runs_for_too_long_is_asked_to_end_and_killed_after_its_grace(node):
    node.start(grace_s=5.0, time_limit_s=10.0)
    node.later(9.0)
    assert node.signals == []
    node.later(1.0)
    assert node.signals == [("TERM", 0)]
    node.later(4.0)
    assert node.signals == [("TERM", 0)]
    node.later(1.0)
    assert node.signals == [("TERM", 0), ("KILL", 0)]
    node.exits(KILLED)
    assert node.told()[-1] == (1, TIMED_OUT)


def test_the_signal_before_the_end_is_sent_once_each_start(node):
    node.start(commands=2)
    for _ in range(2):
        node.members.warn(WarnMember(GROUP, 0, 1, 10, only_shell=True))
    node.members.warn(WarnMember(GROUP, 0, 2, 10))
    node.members.warn(WarnMember(GROUP, 1, 1, 10))
    assert node.signals == [(10, "command", 0), (10, "command", 1)]
    node.exits(process=0)
    node.exits(process=1)
    node.start(2)
    node.members.warn(WarnMember(GROUP, 0, 1, 12))
    node.members.warn(WarnMember(GROUP, 0, 2, 12))
    assert node.signals[2:] == [(12, "started", 2)]


def test_who_loses_its_place_gets_its_own_signal_first_and_sigterm_at_half_of_its_grace(node):
    node.start(grace_s=10.0, signal=12)
    node.evict()
    assert node.signals == [(12, "started", 0)]
    node.later(4.0)
    assert len(node.signals) == 1
    node.later(1.0)
    assert node.signals[1:] == [("TERM", 0)]
    node.exits(255)
    assert isinstance(node.news[-1], MemberUsed), "who took the place knows that it ended"


@pytest.mark.parametrize("signal", [0, 12])
def test_who_was_warned_before_or_has_no_signal_is_asked_by_sigterm_to_leave(node, signal):
    node.start(grace_s=10.0, signal=signal)
    if signal:
        node.members.warn(WarnMember(GROUP, 0, 1, 12))
    node.evict()
    node.evict()
    assert node.signals[-1] == ("TERM", 0)
    assert len(node.signals) == 1 + bool(signal)


def test_a_node_says_how_long_a_member_has_run_by_its_own_clock(node):
    node.start()
    node.later(20.0)
    node.start()
    assert [news.ran_s for news in node.news] == [0.0, 20.0]
    node.exits()
    node.start(2)
    assert node.news[-1].ran_s == 0.0


def test_when_one_command_fails_the_others_of_its_member_end_too(node):
    node.start(commands=2)
    node.exits(3, process=0)
    assert node.signals == [("KILL", 1)]
    assert node.told() == [(1, None)], "the member ends with its last command"
    node.exits(KILLED, process=1)
    assert node.told()[-1] == (1, 3)


def test_a_command_that_uses_too_much_memory_is_killed_and_the_news_say_how_much(node):
    node.start(memory_limit=50 << 20)
    node.used = {77: 80 << 20}
    node.members.began(node.processes[0], 77)
    node.later(LOOK_AT_MEMORY_EVERY_S)
    assert node.signals[0] == ("KILL", 0)
    node.exits(KILLED)
    assert node.told()[-1] == (1, KILLED)
    assert node.news[-1].reason == "out of memory: it used 80 MiB, above its limit of 50 MiB"


def test_of_a_log_without_end_the_last_part_is_kept(node, tmp_path, monkeypatch):
    """The beginning of the file is freed. The program continues to write at its own offset in the
    file, so offsets stay the same.
    """
    monkeypatch.setattr(job_files, "LOG_BYTES", 64 << 10)
    node.start()
    log = node.news[-1].log
    line = b"0123456789abcde\n"
    with open(log, "ab", buffering=0) as file:
        for _ in range(20):
            file.write(line * 1024)
            node.later(LOOK_EVERY_S)
            assert os.stat(log).st_blocks * 512 <= 80 << 10
    length = 20 * 1024 * len(line)
    files = JobDirectories(str(tmp_path))
    data, size, skipped = files.read(log, 0, length)
    assert size == length == skipped + len(data)
    assert data == line * (len(data) // len(line))
    assert 32 << 10 <= len(data) <= 64 << 10
    assert files.read(log, length - 16, 100) == (line, length, 0)
    assert files.read(log, length, 100) == (b"", length, 0)


def test_output_that_a_command_has_not_read_stays_and_its_member_waits(node, monkeypatch):
    monkeypatch.setattr(job_files, "LOG_BYTES", 64 << 10)
    monkeypatch.setattr(followed_logs, "MOST_UNREAD_BYTES", 200 << 10)
    node.start(is_followed=True)
    log = node.news[-1].log
    with open(log, "ab") as file:
        file.write(b"x" * (400 << 10))
    node.later(1)
    assert node.signals == [(signal.SIGSTOP, "all", 0)]
    assert node.files.read(log, 0, 1)[2] == 0, "nothing is dropped"
    node.members.read_log(ReadLog(1, log, 399 << 10, 10, is_followed=True))
    node.later(1)
    assert node.signals[1:] == [(signal.SIGCONT, "all", 0)]
    assert os.stat(log).st_blocks * 512 <= 64 << 10
    assert node.files.read(log, 399 << 10, 1)[2] == 0, "nothing unread is lost"


@pytest.mark.parametrize("ends", ["asked", "silent"])
def test_a_member_that_waits_for_its_reader_goes_on_when_it_ends_or_nobody_reads(
    node, monkeypatch, ends
):
    monkeypatch.setattr(job_files, "LOG_BYTES", 64 << 10)
    monkeypatch.setattr(followed_logs, "MOST_UNREAD_BYTES", 100 << 10)
    node.start(is_followed=True, grace_s=30.0)
    log = node.news[-1].log
    with open(log, "ab") as file:
        file.write(b"x" * (400 << 10))
    node.later(1)
    if ends == "asked":
        node.end()
        assert node.signals[1:] == [(signal.SIGCONT, "all", 0), ("TERM", 0)]
        node.later(1)
        assert len(node.signals) == 3, "it is not stopped again"
    else:
        node.later(followed_logs.PATIENCE_S + 1)
        assert node.signals[1:] == [(signal.SIGCONT, "all", 0)]
        assert node.files.read(log, 0, 1)[2] > 0, "its log is bounded as every other"


def test_of_the_output_of_old_attempts_little_is_kept(node, tmp_path, monkeypatch):
    monkeypatch.setattr(job_files, "OLD_LOG_BYTES", 16 << 10)
    logs = []
    for attempt in range(1, 5):
        node.start(attempt)
        logs.append(node.news[-1].log)
        with open(logs[-1], "ab") as file:
            file.write(b"x" * (40 << 10))
        node.exits(1)
    kept = [os.stat(log).st_blocks * 512 <= 16 << 10 for log in logs]
    assert kept == [True, True, False, False]


HOSTILE = ("..", ".", "../..", "/etc", "a/../../b", "a\nb", "", "x" * 300, "~", "..\\..")


@pytest.mark.parametrize("job", HOSTILE)
@pytest.mark.parametrize("name", ["..", "a/../../../b", "m"])
def test_no_name_of_a_job_or_member_leads_out_of_its_directory(tmp_path, job, name):
    root = tmp_path / "session" / "jobs"
    files = JobDirectories(str(root))
    order = StartMember(GROUP, 0, 1, job, name, [], [Command(["true"], {})], {"hosts": "h"}, 0.0)
    log = files.make(order)
    assert Path(log).resolve().is_relative_to(root)
    assert Path(files.place(order, order.commands[0]).directory).resolve().is_relative_to(root)
    assert [each.name for each in tmp_path.iterdir()] == ["session"]
    assert [each.name for each in (tmp_path / "session").iterdir()] == ["jobs"]
    other = files.make(msgspec.structs.replace(order, job="other"))
    files.remove(job)
    assert [str(each) for each in root.iterdir()] == [os.path.dirname(other)]


def test_links_that_a_job_makes_in_its_directory_are_not_followed(tmp_path):
    root, outside = tmp_path / "jobs", tmp_path / "outside"
    outside.mkdir()
    secret = outside / "secret"
    secret.write_text("x" * 100_000)
    files = JobDirectories(str(root))
    at_home, files_of_job = [Command(["true"], {})], {"secret": "overwritten"}
    order = StartMember(GROUP, 0, 3, JOB, "m", [], at_home, files_of_job, 0.0)
    log = files.make(msgspec.structs.replace(order, files={}))
    directory = Path(log).parent
    Path(log).symlink_to(secret)
    assert files.read(log, 0, 100) == (b"", -1, 0)
    files.shorten(log)
    (directory / "files").symlink_to(outside)
    with pytest.raises(OSError):
        files.make(order)
    (directory / "files").unlink()
    (directory / "files").mkdir()
    (directory / "files" / "secret").symlink_to(secret)
    with pytest.raises(OSError):
        files.make(order)
    (directory / "up").symlink_to(outside)
    assert files.read(str(directory / "up" / "secret"), 0, 100) == (b"", -1, 0)
    assert files.read(str(root / ".." / "outside" / "secret"), 0, 100) == (b"", -1, 0)
    assert secret.read_text() == "x" * 100_000
    files.remove(JOB)
    assert secret.exists()


def test_a_member_has_a_directory_where_a_command_runs_in_it(tmp_path):
    files = JobDirectories(str(tmp_path))
    elsewhere, at_home = Command(["true"], {}, "/"), Command(["true"], {})
    order = StartMember(GROUP, 0, 1, JOB, "m", [], [elsewhere], {}, 0.0)
    files.make(order)
    assert list(tmp_path.iterdir()) == []
    step = files.place(order, at_home)
    assert os.path.isdir(step.directory)
    files.remove(JOB)
    files.make(msgspec.structs.replace(order, before=[at_home]))
    assert os.path.isdir(step.directory)


def test_a_command_does_not_write_its_output_through_a_link(tmp_path):
    secret, log = tmp_path / "secret", tmp_path / "m.1.log"
    secret.write_text("kept")
    log.symlink_to(secret)
    with pytest.raises(OSError):
        start_command(["echo", "hello"], {}, str(tmp_path), str(log))
    assert secret.read_text() == "kept"


def test_a_member_says_in_its_error_file_why_it_failed(node, tmp_path):
    order = StartMember(GROUP, 0, 1, JobId("default/job"), "a-0", [], [], {}, 0.0)
    command = Command(["true"], {"TORCHELASTIC_ERROR_FILE": ERROR_FILE})
    node.start()
    path = JobDirectories(str(tmp_path)).place(order, command).variables["TORCHELASTIC_ERROR_FILE"]
    Path(path).write_text('{"message": {"message": "ValueError: no more digits"}}')
    node.exits(1)
    assert node.news[-1].reason == "exit code 1: ValueError: no more digits"
    node.start(attempt=2)
    node.exits(1)
    assert node.news[-1].reason == "", "another attempt has another file"


def test_an_error_file_is_read_only_where_it_is_one(node, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text('{"message": "of somebody else"}')
    order = StartMember(GROUP, 0, 1, JobId("default/job"), "a-0", [], [], {}, 0.0)
    command = Command([ERROR_FILE], {})
    for make in (lambda path: os.symlink(secret, path), os.mkfifo, os.mkdir):
        there = Node(tmp_path / str(len(os.listdir(tmp_path))))
        there.start()
        directories = JobDirectories(there.root)
        make(directories.place(order, command).argv[0])
        there.exits(1)
        assert there.news[-1].reason == ""


FULL = "its node is not well: its directory for jobs, /d, cannot be written to: No space left"


def refused(attempt):
    """Return the report and the news that a node must send when a member could not begin and its
    job is not to blame.
    """
    return ["report", MemberNews(GROUP, 0, attempt, NOT_STARTED, FULL, is_nodes_fault=True)]


def test_nothing_begins_in_a_full_directory_and_that_is_the_nodes_fault(node):
    node.directory_error = "No space left"
    node.start()
    assert (node.news, node.processes) == (refused(1), [])
    node.start(attempt=1)
    assert len(node.news) == 2, "that attempt is over"
    node.directory_error = ""
    node.start(attempt=2)
    assert (node.news[2:][0].code, len(node.processes)) == (None, 1)


def test_files_that_cannot_be_made_are_the_nodes_fault_where_its_directory_is_full(node):
    make = node.files.make

    def fails(order):
        node.directory_error = "No space left"
        raise OSError(28, "No space left")

    node.files.make = fails
    node.start()
    assert (node.news, node.processes) == (refused(1), [])
    node.directory_error, node.files.make = "", make
    node.start(attempt=2)
    assert len(node.processes) == 1


def test_files_that_cannot_be_made_in_a_directory_that_is_well_are_the_jobs_own_fault(node):
    def fails(order):
        raise OSError(40, "Too many levels of symbolic links")

    node.files.make = fails
    node.start()
    why = "its files could not be made: Too many levels of symbolic links"
    assert node.news == [MemberNews(GROUP, 0, 1, NOT_STARTED, why)]


def test_a_process_that_could_not_be_started_in_a_full_directory_is_the_nodes_fault(node):
    node.start(commands=2)
    node.news.clear()
    node.directory_error = "No space left"
    for process in node.processes:
        node.members.exited(process, UNSTARTED)
    first, told = node.news
    assert (first, told.is_nodes_fault, told.reason, told.log) == ("report", True, FULL, "")


def test_a_command_that_ended_with_its_parent_is_told_so(node):
    node.start(commands=2)
    end = CommandEnd(code=137, reason=PARENT_KILLED, signal=9, is_parent_killed=True)
    node.members.exited(node.processes[0], end)
    node.exits(143, process=1)
    told = node.news[-1]
    assert (told.code, told.reason, told.is_parent_killed) == (137, PARENT_KILLED, True)


NONE_LEFT = "no process could be started for it: Resource temporarily unavailable"
SHORT = f"its node is not well: commands cannot be started ({NONE_LEFT})"


def cannot_start(node):
    """Let the start of the newest command fail because the node has run out of something."""
    end = CommandEnd(code=1, reason=NONE_LEFT, is_unstarted=True, is_shortage=True)
    node.members.exited(node.processes[-1], end)


def test_a_process_that_could_not_be_started_for_want_of_something_is_the_nodes_fault(node):
    node.start()
    cannot_start(node)
    first, told = node.news[-2:]
    assert (first, told.code, told.is_nodes_fault, told.reason, told.log) == (
        "report", NOT_STARTED, True, SHORT, "",
    )  # fmt: skip
    node.start(attempt=2)
    assert (len(node.processes), node.news[-1].is_nodes_fault) == (1, True), "the node rests"
    node.shortage.tick(node.now + 1.0)
    node.start(attempt=3)
    assert (len(node.processes), node.news[-1].code) == (2, None)


def test_files_that_cannot_be_made_for_want_of_descriptors_are_the_nodes_fault(node):
    def fails(order):
        raise OSError(24, "Too many open files")

    node.files.make = fails
    node.start()
    assert node.news[-1].is_nodes_fault
    assert node.shortage.trouble


def test_what_had_begun_before_something_ran_out_is_not_done_again(node):
    node.start(commands=2)
    node.members.began(node.processes[0], 1)
    cannot_start(node)
    node.exits(0, process=0)
    assert (node.news[-1].code, node.news[-1].is_nodes_fault) == (1, False)


def test_a_process_that_could_not_be_started_elsewhere_is_told_as_it_is(node):
    node.start()
    node.members.exited(node.processes[0], UNSTARTED)
    told = node.news[-1]
    assert (told.code, told.is_nodes_fault) == (1, False)
    assert told.reason == "no process could be started"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (0, "the disk of its log had no room, and output may be lost"),
        (120, "exit code 120; the disk of its log had no room, and output may be lost"),
    ],
)
def test_lost_output_is_said(node, code, reason):
    node.start()
    node.members.began(node.processes[0], 1)
    node.later(1)
    node.directory_error = "No space left"
    node.exits(code)
    assert (node.news[-1].code, node.news[-1].reason) == (code, reason)
    assert not node.news[-1].is_nodes_fault, "it has begun, and is not done again"


def test_a_member_before_which_a_check_is_bad_waits_for_another_place(node):
    asked: list[Any] = []

    def before(devices, done):
        asked.append(done)
        return True

    node.members._checks = SimpleNamespace(before=before, after=lambda devices: None)
    node.start()
    node.news.clear()
    asked[0]("check cables is bad: a link is down")
    why = "its node is not well: check cables is bad: a link is down"
    first, told = node.news
    assert (first, told.code, told.reason, told.is_nodes_fault) == (
        "report",
        NOT_STARTED,
        why,
        True,
    )
    assert node.processes == []


@pytest.mark.parametrize("is_made_again", [False, True])
def test_output_whose_directory_was_removed_is_said_to_be_lost(node, is_made_again):
    """The keeper of the session makes removed directories again, but not the files in them."""
    node.start()
    node.members.began(node.processes[0], 1)
    before = [path for path, _, _ in os.walk(node.root)]
    shutil.rmtree(node.root)
    for path in before if is_made_again else []:
        os.mkdir(path)
    node.exits(0)
    lost = "its log was removed or moved, and its output may be lost"
    assert (node.news[-1].code, node.news[-1].reason) == (0, lost)
