"""The jobs that a head on this machine still has to end, for `phalanx start` and `phalanx stop`."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.cli.table import report

_SHOWN = 5
_ANSWER_S = 5.0


def unfinished_jobs() -> list[str]:
    """Return the names of the jobs of this account's head that have not ended; none if no head runs
    here or answers.
    """
    from phalanx.errors import PhalanxError
    from phalanx.model.jobs.states import SETTLED
    from phalanx.protocol.requests.jobs import ListJobs
    from phalanx.runtime.daemons.local import local_daemons
    from phalanx.runtime.daemons.visitor import ask_daemon

    for session, daemon in local_daemons():
        if daemon.kind != "head":
            continue
        try:
            rows = ask_daemon(session, daemon, ListJobs(ended_within_s=0.0), _ANSWER_S)
        except (OSError, PhalanxError):
            return []
        return [row.name for row in rows if row.state not in SETTLED]
    return []


def report_unfinished(advice: str) -> None:
    """Print how many jobs have not ended, followed by this advice. If all have ended, print
    nothing.
    """
    if text := unfinished_text(unfinished_jobs()):
        report(f"{text} {advice}")


def unfinished_text(names: Sequence[str]) -> str:
    """Return a sentence that counts these jobs and names the first of them; "" for no job."""
    if not names:
        return ""
    shown = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        shown += f" and {len(names) - _SHOWN} more"
    return (
        f"1 job has not ended: {shown}."
        if len(names) == 1
        else (f"{len(names)} jobs have not ended: {shown}.")
    )
