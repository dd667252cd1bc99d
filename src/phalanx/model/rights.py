"""Verbs: kinds of requests. A right allows or denies all requests of one kind."""

from __future__ import annotations

import enum


class Verb(enum.Enum):
    """The kinds of requests; docs/explanation/security.md has the table of rights."""

    SEE = "see"
    """The right to read names, states and amounts of jobs, queues and nodes."""
    READ = "read"
    """The right to read the logs, the environment and the details of work."""
    SUBMIT = "submit"
    CHANGE = "change"
    """The right to cancel, suspend, resume, requeue or change work, or to run a step inside it."""
    RAISE = "raise"
    """The right to move work ahead of other work."""
    OPERATE = "operate"
    """The right to drain nodes, open and close queues, and make reservations."""
    ADMINISTER = "administer"
    """The right to change queues, rights, the configuration and the cluster itself."""
    USE = "use"
    """The right to create and use the actors, placement groups and stored values of programs."""
    JOIN = "join"
    """The right to take part in the cluster as a node."""


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
"""The verbs by the words that users write for them."""
