"""Verbs: the kinds of requests. A right allows or denies all requests of one kind."""

from __future__ import annotations

import enum


class Verb(enum.Enum):
    """The kinds of requests; docs/explanation/security.md has the table of rights."""

    SEE = "see"
    """Read names, states and amounts of jobs, queues and nodes."""
    READ = "read"
    """Read the logs, the environment and the details of work."""
    SUBMIT = "submit"
    CHANGE = "change"
    """Cancel, suspend, resume, requeue or change work, or run something inside it."""
    RAISE = "raise"
    """Move work ahead of other work."""
    OPERATE = "operate"
    """Drain nodes, open and close queues, reserve."""
    ADMINISTER = "administer"
    """Change queues, rights, the configuration and the cluster itself."""
    USE = "use"
    """Make and use the actors, groups and values of programs."""
    JOIN = "join"
    """Take part in the cluster as a node."""


WORDS = {
    **{verb.value: verb for verb in Verb if verb is not Verb.JOIN},
    "list": Verb.SEE,
    **dict.fromkeys(("logs", "explain", "env"), Verb.READ),
    "run": Verb.SUBMIT,
    **dict.fromkeys(
        ("cancel", "suspend", "resume", "requeue", "hold", "release", "update", "resize"),
        Verb.CHANGE,
    ),
    **dict.fromkeys(("delete", "signal", "attach", "shell", "step"), Verb.CHANGE),
    "priority": Verb.RAISE,
    **dict.fromkeys(("drain", "undrain", "cordon", "uncordon", "open", "close"), Verb.OPERATE),
    **dict.fromkeys(("reserve", "unreserve", "set-resource"), Verb.OPERATE),
    **dict.fromkeys(("queue", "config", "role", "token", "limits", "audit"), Verb.ADMINISTER),
}
"""The verbs by the words that people use for them."""
