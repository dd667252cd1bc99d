"""What may be a name, by Kubernetes' rules."""

from __future__ import annotations

import re

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?$", re.ASCII)
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", re.ASCII)
_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", re.ASCII
)
MAX_LABEL = 63
MAX_SUBDOMAIN = 253


def label_fault(name: str) -> str | None:
    """Why `name` is no DNS label (the name of a task group), or None."""
    if not _LABEL.match(name) or len(name) > MAX_LABEL:
        return (
            f"{name!r} is no name: up to {MAX_LABEL} small letters, digits and '-', "
            "with a letter or digit at both ends"
        )
    return None


def qualified_fault(name: str) -> str | None:
    """Why `name` cannot name a job or one of its members, or None."""
    if not _QUALIFIED.match(name) or len(name) > MAX_LABEL:
        return (
            f"{name!r} is no name: up to {MAX_LABEL} letters, digits, '-', '_' and '.', "
            "with a letter or digit at both ends"
        )
    return None


def subdomain_fault(name: str) -> str | None:
    """Why `name` cannot name a queue or a domain, or None."""
    if not _SUBDOMAIN.match(name) or len(name) > MAX_SUBDOMAIN:
        return (
            f"{name!r} is no name: up to {MAX_SUBDOMAIN} small letters, digits, '-' and '.', "
            "with a letter or digit at both ends"
        )
    return None
