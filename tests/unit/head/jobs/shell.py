"""A shell that runs nothing: it records the requested effects, and plays events from a script.

Words of a script, each one event; members are named group-index:
    run a-0 / run          that member (or all pending ones) runs
    ok a-0 / ok            that member (or all running ones) ends with exit code 0
    fail a-0[:3]           it ends with exit code 1 (or 3)
    lose a-0               it is evicted
    gone                   all members that are being ended have ended
    do AbortJob[:a[:0]]    a command to the job
    at 30                  both clocks are set to 30 seconds
    jump 3600              only the wall-clock time is set ahead by so much
    away, back             the node of all members loses its connection, and has it again
    hold, release          a person holds the job, and releases it
    strand, delete         the gang is stranded; the job is deleted
"""

from __future__ import annotations

from phalanx.head.jobs import events as ev
from phalanx.head.jobs.counts import JobCounts
from phalanx.head.jobs.lifecycle import JobTable
from phalanx.manifests.reading import read_checked
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.jobs.timing import WarningSignal
from phalanx.observe.metrics.meter import Meter

J = JobId("default/j")


def job_spec(text: str) -> JobSpec:
    """Return the JobSpec of a Job whose spec is `{text}` in YAML's flow style."""
    body = (
        f"kind: Job\napiVersion: batch.volcano.sh/v1alpha1\nmetadata: {{name: j}}\nspec: {{{text}}}"
    )
    spec = read_checked(body)[0][0].spec
    assert isinstance(spec, JobSpec)
    return spec


class Shell:
    """Records the requested effects, and the state that results from them."""

    def __init__(self, spec: JobSpec | str) -> None:
        self.table = JobTable(self)
        self.now = self.jumped_s = 0.0
        self.is_away = False
        self.warned: list[str] = []
        self.asked: list[str] = []
        self.ended: list[str] = []
        self.restarted: list[str] = []
        self.published = 0
        self.awaiting: list[str] = []
        self.meter = Meter()
        self.forgotten: list[str] = []
        spec = job_spec(spec) if isinstance(spec, str) else spec
        self.handle(ev.Submitted(spec=spec))

    def handle(self, event: ev.Event) -> None:
        """Handle an event at the current time."""
        self.table.handle(event, self.wall, self.now)

    @property
    def wall(self) -> float:
        """Return the wall-clock time."""
        return self.now + self.jumped_s

    # ---- effects

    def want_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        assert not job.is_finished
        assert all(m.state == st.PENDING for m in members)
        self.asked += [m.name for m in members]

    def restart_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        assert not job.is_finished
        self.restarted += [m.name for m in members]

    def end_members(self, job: JobRecord, members: list[MemberRecord], reason: str) -> None:
        assert reason
        assert all(m.state == st.TERMINATING for m in members)
        self.ended += [m.name for m in members]

    def warn_members(self, job: JobRecord, signal: WarningSignal) -> None:
        assert job.count(st.RUNNING)
        self.warned.append(f"{signal.name} at {self.now:g}")

    def is_here(self, node_id: str) -> bool:
        return not self.is_away

    def want_array_tasks(self, job: JobRecord) -> None:
        self.asked.append("elements")

    def end_array_tasks(self, job: JobRecord, only_pending: bool, comes_back: bool) -> None:
        self.ended.append("elements")

    def notify_dependents(self, jobs: list[str]) -> None:
        self.awaiting += jobs

    def count(self, job: JobRecord, what: str) -> None:
        JobCounts(self.meter).count(job, what)

    def publish(self, job: JobRecord) -> None:
        self.published += 1

    def forget(self, job: JobRecord) -> None:
        self.forgotten.append(job.uid)

    # ---- events

    @property
    def job(self) -> JobRecord:
        job = self.table.get(J)
        assert job is not None
        return job

    def of(self, name: str) -> MemberRecord:
        group, _, index = name.rpartition("-")
        member = self.job.member(group, int(index))
        assert member is not None, name
        return member

    def _in(self, *states: str) -> list[str]:
        return [m.name for m in self.job.members if m.state in states]

    def tell(self, kind: type, name: str, **more: object) -> None:
        m = self.of(name)
        event = kind(job=J, group=m.group, index=m.index, attempt=m.attempt, **more)
        self.handle(event)

    def play(self, script: str) -> Shell:
        words = iter(script.split())
        pending: str | None = next(words, None)
        while pending is not None:
            word, pending = pending, next(words, None)
            name = ""
            if word in ("run", "ok", "fail", "lose", "do", "at", "jump") and pending not in VERBS:
                name, pending = pending or "", next(words, None)
            self._play(word, name)
        return self

    def _play(self, word: str, name: str) -> None:
        if word == "run":
            for member in [name] if name else self._in(st.PENDING):
                self.tell(ev.MemberRan, member, node="n")
        elif word == "ok":
            for member in [name] if name else self._in(st.RUNNING):
                if self.table.get(J) is not None:
                    self.tell(ev.MemberExited, member, exit_code=0)
        elif word == "fail":
            member, _, code = name.partition(":")
            self.tell(ev.MemberExited, member, exit_code=int(code or 1))
        elif word == "lose":
            self.tell(ev.MemberLost, name, reason="preempted", is_preempted=True)
        elif word == "gone":
            for member in self._in(st.TERMINATING):
                self.tell(ev.MemberExited, member, exit_code=143)
        elif word == "do":
            action, _, rest = name.partition(":")
            group, _, index = rest.partition(":")
            command = ev.Commanded(job=J, action=action, group=group, index=int(index or -1))
            self.handle(command)
        elif word == "at":
            self.now = float(name)
            self.table.tick(self.wall, self.now)
        elif word == "jump":
            self.jumped_s += float(name)
            self.table.clock_stepped(float(name), self.wall, self.now)
            self.table.tick(self.wall, self.now)
        elif word in ("away", "back"):
            self.is_away = word == "away"
            self.table.connections_changed(J, self.wall, self.now)
        elif word in ("hold", "release"):
            self.handle(ev.Held(job=J, is_held=word == "hold"))
        elif word == "strand":
            self.handle(ev.Stranded(job=J))
        else:
            assert word == "delete", word
            self.handle(ev.Deleted(job=J))

    def story(self) -> str:
        """Return the job's states, one after another."""
        return " ".join(t.new for t in self.job.history)


VERBS = (
    "run", "ok", "fail", "lose", "gone", "do", "at", "jump", "away", "back", "hold", "release",
    "strand", "delete", None,
)  # fmt: skip
