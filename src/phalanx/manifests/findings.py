"""Findings about a manifest: errors, and warnings of fields without effect in Phalanx, each with
its place.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.errors import PhalanxError


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding, with its place: `path` is the way to the value (spec.tasks[0].replicas), and
    `line` is counted from 1.

    `code` names the rule for scripts; `reason` says what is wrong and what would be right. `object`
    is kind/name, which distinguishes the documents of a file.
    """

    path: str
    reason: str
    code: str = ""
    object: str = ""
    line: int | None = None

    def __str__(self) -> str:
        where = " ".join(x for x in (self.object, self.path) if x)
        where = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in where)
        line = f"line {self.line}: " if self.line is not None else ""
        return f"{line}{where + ': ' if where else ''}{self.reason}"


class Fault(msgspec.Struct, frozen=True):
    """A broken rule: the field, the rule's name for scripts, and a sentence with the allowed
    values.
    """

    path: tuple[str | int, ...]
    code: str
    reason: str


class Report:
    """Errors and warnings in the order in which they were found."""

    def __init__(self) -> None:
        self.errors: list[Finding] = []
        self.warnings: list[Finding] = []

    @property
    def ok(self) -> bool:
        return not self.errors

    def error(self, path: str, code: str, reason: str, line: int | None = None) -> None:
        self.errors.append(Finding(path=path, code=code, reason=reason, line=line))

    def warn(self, path: str, code: str, reason: str, line: int | None = None) -> None:
        self.warnings.append(Finding(path=path, code=code, reason=reason, line=line))

    def as_data(self) -> dict[str, Any]:
        """Return the report as `{"ok", "errors": [{"path", "reason", ...}], "warnings": [...]}`."""
        return {
            "ok": self.ok,
            "errors": msgspec.to_builtins(self.errors),
            "warnings": msgspec.to_builtins(self.warnings),
        }


class ManifestError(PhalanxError, ValueError):
    """Raised for a manifest with errors; `findings` says where they are and why."""

    def __init__(self, findings: list[Finding], file: str = "") -> None:
        super().__init__(findings, file)
        self.findings = findings
        self.file = file

    def __str__(self) -> str:
        lines = [str(f) for f in self.findings]
        return "\n".join(f"{self.file}: {line}" if self.file else line for line in lines)
