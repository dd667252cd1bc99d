"""Jobs that somebody stays with: their streams, and places that are held as long as he does."""

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
import typer

from phalanx.cli.reach import FAILED, USAGE, ask, fail, is_elsewhere
from phalanx.cli.table import drop_output, say
from phalanx.cli.waiting import Notices
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.jobs import CommandJob, GetJob, ListJobs
from phalanx.protocol.requests.steps import AttachMember
from phalanx.protocol.stream_messages import Begin, Typed
from phalanx.runtime.os.connection import Connection

LOOK_EVERY_S = 0.1
_CONNECT_S = 30.0
OVER = (*st.FINISHED, st.ABORTED)
Streams = Literal["pipes", "terminal"]
_IGNORED = 'trap "" INT QUIT USR1 USR2 ALRM'
HOLDER = ("sh", "-c", f'{_IGNORED}; read -r code && exit "$code"')
"""What holds a place: it uses nothing up, ends with the code that it reads, and with whoever holds
it, as then there is nothing to read any more. Signals that are sent to its job are for others."""
_HUNG_UP_S = 5.0


def refuse_ray(address: str | None, what: str) -> None:
    """End the command where the cluster is one of Ray: its nodes have no gates."""
    if is_elsewhere(address):
        fail(f"{what} is not there on a Ray cluster: its nodes have no gates.", USAGE)


def wait_until_running(
    address: str | None, uid: str, is_quiet: bool, any_member: bool = False
) -> JobDescription:
    """The job once all of its members run (`any_member`: once one does), or once it is over; tells
    meanwhile what it waits for."""
    notices = Notices(lambda: ask(address, ListJobs(name=uid))[0], is_quiet)
    while True:
        found = ask(address, GetJob(uid))
        running = [m.state == st.RUNNING for m in found.members]
        if found.state in OVER or (any(running) if any_member else all(running)):
            return found
        if found.running == 0:
            notices.look()
        time.sleep(LOOK_EVERY_S)


def submit_with_streams(address: str | None, spec: JobSpec, kind: Streams, is_quiet: bool) -> None:
    """Submit a job whose members' first programs have their input and output over connections."""
    from phalanx.api.jobs import job_manifest, new_request

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
    """A connection to a program's streams. It may not have begun to listen."""
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
_CUT_OFF = (SystemExit, KeyboardInterrupt, BrokenPipeError)
"""Errors by which a command ends whom nobody waits for any more."""


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Signals that would end this process raise SystemExit, with the code that shells give for
    them; so does the end of whoever reads what is printed here."""

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = {n: signal.signal(n, end) for n in _ENDING}
    try:
        yield
    except BrokenPipeError:
        drop_output()
        raise SystemExit(128 + signal.SIGPIPE) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def cancelled_by_interrupt(address: str | None, spec: JobSpec) -> Iterator[None]:
    """Whoever is interrupted, asked to end, cut off from the terminal, or read by nobody any more,
    takes the job along."""
    try:
        with ended_by_signals():
            yield
    except (KeyboardInterrupt, SystemExit) as ended:
        code = 130 if isinstance(ended, KeyboardInterrupt) else ended.code
        cancel(address, spec)
        raise typer.Exit(code if isinstance(code, int) else FAILED) from None


def cancel(address: str | None, spec: JobSpec) -> None:
    """Cancel a job as this command's last deed; the terminal may be gone by now."""
    for number in (*_ENDING, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    ask(address, CommandJob(spec.uid, "cancel"))
    with contextlib.suppress(OSError):
        say(f"job {spec.name} is cancelled", err=True)


class Allocation:
    """Places of a job that are held until the `with` is left; then the job ends with `code`."""

    def __init__(self, address: str | None, spec: JobSpec, is_quiet: bool) -> None:
        """`spec`: of members that run HOLDER."""
        self._address = address
        self._spec = spec
        self._is_quiet = is_quiet
        self._holders: list[Connection] = []
        self._signals = contextlib.ExitStack()
        self.code = 0
        self.job: JobDescription

    def submit(self) -> None:
        """Ask for the places."""
        submit_with_streams(self._address, self._spec, "pipes", self._is_quiet)

    def __enter__(self) -> Allocation:
        """Wait until the job runs; whoever is interrupted meanwhile takes it along. Ends the
        command where the job ends before it runs."""
        uid = self._spec.uid
        self._signals.enter_context(ended_by_signals())
        with cancelled_by_interrupt(self._address, self._spec):
            self.job = wait_until_running(self._address, uid, self._is_quiet)
            if self.job.state in OVER:
                name, state = self.job.name, self.job.state
                fail(f"job {name} ended before it ran: {state}; {self.job.reason}", FAILED)
            for member in self.job.members:
                process = ask(self._address, AttachMember(uid, member.name))
                connection = reach(self._address, process)
                connection.send(Begin())
                self._holders.append(connection)
        return self

    def run_here(self, argv: Sequence[str], variables: Mapping[str, str]) -> int:
        """Run a command on this machine; its exit code. It gets SIGHUP when the job ends first, and
        when this process is asked to end."""
        ours = {"PHALANX_JOB": self.job.name, "PHALANX_NAMESPACE": self.job.namespace}
        ignored = (signal.SIGINT, signal.SIGQUIT)  # they are for the command
        before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # none comes while nobody can end it
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
        """Wait until a process ends; whether a member ended before."""
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
        """Give the places back; the job is cancelled where this process is asked to end."""
        if kind is not None and issubclass(kind, _CUT_OFF):
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
            say(f"allocation {self._spec.name} is given back", err=True)

    def _is_open(self, holder: Connection, end: float) -> bool:
        """Whether a holder still runs and there is time left to wait for it; waits a while."""
        from phalanx.runtime.os.polling import wait_for

        left_s = end - time.monotonic()
        return left_s > 0 and (
            not wait_for(holder.fileno, select.POLLIN, left_s) or holder.receive() is not None
        )


def _with_usual_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
