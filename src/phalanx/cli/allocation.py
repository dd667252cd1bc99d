"""Jobs that end when the command that submitted them ends: jobs whose input and output go through
the command, and allocations.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

import msgspec

from phalanx.cli.ending import Ended
from phalanx.cli.lost_output import exit_code, is_lost, lose_output
from phalanx.cli.reach import FAILED, USAGE, ask, fail, is_elsewhere, remote_head
from phalanx.cli.table import say
from phalanx.cli.waiting import Notices
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.jobs import CommandJob, GetJob, ListJobs
from phalanx.protocol.requests.steps import AttachMember
from phalanx.protocol.stream_messages import Begin, Typed
from phalanx.runtime.os.connection import Connection

LOOK_EVERY_S = 0.1
"""Seconds between two questions about a job for which the command waits."""
_CONNECT_S = 30.0
"""Seconds for which the command waits for a connection to a program's streams, or for a member that
runs HOLDER to end.
"""
Streams = Literal["pipes", "terminal"]
_IGNORED = 'trap "" INT QUIT USR1 USR2 ALRM'
HOLDER = ("sh", "-c", f'{_IGNORED}; read -r code && exit "$code"')
"""The command of a member that only holds resources for steps. The command uses no CPU. It ends
with the exit code that it reads from its input. If the command that holds the allocation ends
first, the input is closed, and this command ends, too. It ignores signals to its job, because these
are meant for steps.
"""
_HUNG_UP_S = 5.0
"""Seconds between SIGHUP and SIGKILL for a command whose allocation has ended."""


def need_node(address: str | None, what: str) -> None:
    """End the command if programs of jobs cannot be reached from here. `what`: the feature that has
    to reach them. On a Ray cluster nobody can reach them, because its nodes have no gateways. On a
    machine without a node of the cluster, a token reaches only the head.
    """
    if is_elsewhere(address):
        fail(f"{what} does not work on a Ray cluster: its nodes have no gateways.", USAGE)
    if head := remote_head(address):
        fail(
            f"{what} does not work from here: it needs a node of the cluster on this machine, and "
            f"a token reaches only the head at {head}. phalanx run, logs -f and signal work.",
            USAGE,
        )


def wait_until_running(
    address: str | None, uid: str, is_quiet: bool, any_member: bool = False
) -> JobDescription:
    """Wait until all members of a job run (with `any_member`: one of them), or until the job is
    over.

    Returns the job. Prints why the job waits, unless `is_quiet`.
    """
    notices = Notices(lambda: ask(address, ListJobs(name=uid))[0], is_quiet)
    while True:
        found = ask(address, GetJob(uid))
        running = [m.state == st.RUNNING for m in found.members]
        if found.state in st.SETTLED or (any(running) if any_member else all(running)):
            return found
        if found.running == 0:
            notices.look()
        time.sleep(LOOK_EVERY_S)


def submit_with_streams(address: str | None, spec: JobSpec, kind: Streams, is_quiet: bool) -> None:
    """Submit a job. The input and output of each member's first program go over a connection."""
    from phalanx.api.new_manifests import job_manifest, new_request

    ask(address, new_request([job_manifest(_with_streams(spec, kind))]))
    if not is_quiet:
        say(f"job {spec.name}", err=True)


def _with_streams(spec: JobSpec, kind: Streams) -> JobSpec:
    groups = []
    for group in spec.groups:
        first, *others = group.template.processes
        first = msgspec.structs.replace(first, streams=kind)
        template = msgspec.structs.replace(group.template, processes=(first, *others))
        groups.append(msgspec.structs.replace(group, template=template))
    return msgspec.structs.replace(spec, groups=tuple(groups))


def reach(address: str | None, process: bytes) -> Connection:
    """Connect to a program's streams. Tries again while the program does not listen yet."""
    from phalanx.runtime.daemons.reaching import reach_streams

    deadline = time.monotonic() + _CONNECT_S
    while True:
        try:
            return reach_streams(address, process)
        except ValueError as error:
            fail(str(error), USAGE)
        except OSError as error:
            if time.monotonic() > deadline:
                fail(str(error))
        time.sleep(LOOK_EVERY_S)


_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def _is_cut_off(error: BaseException | None) -> bool:
    """Whether the error ends a command early: a signal, Ctrl-C, or output that cannot be
    written.
    """
    return isinstance(error, SystemExit | KeyboardInterrupt) or is_lost(error)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Make signals that end this process raise SystemExit, with the exit code that shells give.
    SystemExit is also raised when this process's output cannot be written.
    """

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = {n: signal.signal(n, end) for n in _ENDING}
    try:
        yield
    except OSError as error:
        if not is_lost(error):
            raise
        lose_output(error)
        raise SystemExit(exit_code() or 128 + signal.SIGPIPE) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def cancelled_by_interrupt(address: str | None, spec: JobSpec) -> Iterator[None]:
    """Cancel the job when this command is interrupted or ended by a signal. A closed terminal
    counts as a signal, and so does output that cannot be written.
    """
    try:
        with ended_by_signals():
            yield
    except (KeyboardInterrupt, SystemExit) as ended:
        code = 130 if isinstance(ended, KeyboardInterrupt) else ended.code
        cancel(address, spec)
        raise Ended(code if isinstance(code, int) else FAILED) from None


def cancel(address: str | None, spec: JobSpec) -> None:
    """Cancel a job before this command ends, unless the job is over."""
    for number in (*_ENDING, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    if ask(address, GetJob(spec.uid)).state in st.SETTLED:
        return
    ask(address, CommandJob(spec.uid, "cancel"))
    say(f"job {spec.name} is cancelled", err=True)


class Allocation:
    """A job whose resources are held during a `with` block. At the end of the block, the job ends
    with the exit code in the attribute `code`.
    """

    def __init__(self, address: str | None, spec: JobSpec, is_quiet: bool) -> None:
        """`spec`: a job whose members run HOLDER."""
        self._address = address
        self._spec = spec
        self._is_quiet = is_quiet
        self._holders: list[Connection] = []
        self._signals = contextlib.ExitStack()
        self.code = 0
        self.job: JobDescription

    def submit(self) -> None:
        """Submit the job that holds the resources."""
        submit_with_streams(self._address, self._spec, "pipes", self._is_quiet)

    def __enter__(self) -> Allocation:
        """Wait until the job runs.

        An interrupt cancels the job. If the job ends before it runs, this command ends.
        """
        uid = self._spec.uid
        self._signals.enter_context(ended_by_signals())
        with cancelled_by_interrupt(self._address, self._spec):
            self.job = wait_until_running(self._address, uid, self._is_quiet)
            if self.job.state in st.SETTLED:
                name, state = self.job.name, self.job.state
                fail(f"job {name} ended before it ran: {state}; {self.job.reason}", FAILED)
            for member in self.job.members:
                process = ask(self._address, AttachMember(uid, member.name))
                connection = reach(self._address, process)
                connection.send(Begin())
                self._holders.append(connection)
        return self

    def run_here(self, argv: Sequence[str], variables: Mapping[str, str]) -> int:
        """Run a command on this machine.

        Returns its exit code. The command gets SIGHUP if the job ends first, or if a signal ends
        this process.
        """
        ours = {"PHALANX_JOB": self.job.name, "PHALANX_NAMESPACE": self.job.namespace}
        ignored = (signal.SIGINT, signal.SIGQUIT)  # these signals are for the command
        before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
        signal.pthread_sigmask(
            signal.SIG_BLOCK, _ENDING
        )  # no signal arrives between fork and `try`
        try:
            process = subprocess.Popen(
                list(argv),
                env={**os.environ, **ours, **variables},
                preexec_fn=_with_usual_signals,  # noqa: PLW1509  # there are no threads here
            )
        except OSError as error:
            fail(f"{argv[0]}: {error.strerror}")
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            pidfd = os.pidfd_open(process.pid)
            if self.is_lost_before(pidfd):
                say(f"allocation {self.job.name} is over", err=True)
            else:
                process.wait()
            os.close(pidfd)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGHUP)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_HUNG_UP_S)
                process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
        code = process.wait()
        self.code = code if code >= 0 else 128 - code
        return self.code

    def is_lost_before(self, pidfd: int) -> bool:
        """Wait until a process or a member ends. Returns whether a member ended first."""
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        for holder in self._holders:
            poll.register(holder.fileno, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if pidfd in ready:
                return False
            if ready:
                return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Release the resources. If a signal ended this process, cancel the job."""
        if _is_cut_off(error):
            cancel(self._address, self._spec)
            for holder in self._holders:
                holder.close()
            return
        self._signals.close()
        code = self.code if kind is None else FAILED
        for holder in self._holders:
            holder.send(Typed(b"%d\n" % code))
            holder.drain_all(1.0)
        end = time.monotonic() + _CONNECT_S
        for holder in self._holders:
            while self._is_open(holder, end):
                pass
            holder.close()
        if not self._is_quiet:
            say(f"allocation {self._spec.name} is released", err=True)

    def _is_open(self, holder: Connection, end: float) -> bool:
        """Wait for a holder's next message. Returns whether the holder still runs and time is
        left.
        """
        from phalanx.runtime.os.polling import wait_for

        left_s = end - time.monotonic()
        return left_s > 0 and (
            not wait_for(holder.fileno, select.POLLIN, left_s) or holder.receive() is not None
        )


def _with_usual_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
