"""Typed reading of a mapping. The keys that were read are remembered, so that no key is ignored
silently.
"""

from __future__ import annotations

from typing import Any, TypeVar

from phalanx.manifests.document import Text
from phalanx.manifests.findings import Report
from phalanx.manifests.quantities import HOUSE, is_not_here, quantity
from phalanx.model.nearest import nearest
from phalanx.model.options import LARGEST_NUMBER

Path = tuple[str | int, ...]
MAX_HINTS = 100
"""The largest number of unknown fields of a file for which the nearest known name is searched,
because the search takes time.
"""
T = TypeVar("T")


def written(path: Path) -> str:
    """Return a path for display: spec.tasks[0].replicas."""
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else step
    return out


class Fields:
    """The reader of one mapping of a manifest.

    Each getter reports a value of a wrong type. For such a value, and for a missing value, the
    getter returns a default.
    """

    def __init__(self, document: Text, path: Path, value: Any, report: Report) -> None:
        self.document = document
        self.path = path
        self.report = report
        self.value = value
        self._asked: set[str] = set()
        if value is not None and not isinstance(value, dict):
            self._wrong(path, "a mapping", value)
        self.known: dict[str, Any] = value if isinstance(value, dict) else {}

    # ---- remarks -----------------------------------------------------------------------------

    def error(self, key: str | Path, code: str, reason: str) -> None:
        """Report an error at `key` of this mapping. An empty key stands for the mapping itself."""
        path = self._below(key)
        self.report.error(written(path), code, reason, self.document.line(path))

    def warn(self, key: str | Path, code: str, reason: str) -> None:
        path = self._below(key)
        self.report.warn(written(path), code, reason, self.document.line(path))

    def unused(self, key: str, why: str) -> None:
        """Warn that `key`, if given, has no effect here, although it is a known field."""
        self._asked.add(key)
        if self.has(key):
            self.warn(key, "no_meaning_here", why)

    def warn_unknown(self) -> None:
        """Warn of every key that was never read."""
        for key in self.known:
            if key not in self._asked:
                few = len(self.report.warnings) < MAX_HINTS
                hint = nearest(str(key), self._asked) if few else ""
                reason = f"there is no field {key!r} here, so it is ignored{hint}"
                self.warn(key, "unknown_field", reason)

    def _below(self, key: str | Path) -> Path:
        if isinstance(key, tuple):
            return (*self.path, *key)
        return (*self.path, key) if key else self.path

    def _wrong(self, path: Path, right: str, value: Any) -> None:
        given = f"{type(value).__name__} {value!r}"[:80]
        self.report.error(
            written(path),
            "wrong_type",
            f"this must be {right}, not {given}",
            self.document.line(path),
        )

    # ---- values ------------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        return self.known.get(key) is not None

    def raw(self, key: str) -> Any:
        self._asked.add(key)
        return self.known.get(key)

    def text(self, key: str, default: str = "") -> str:
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self._wrong((*self.path, key), "text", value)
            return default
        return value

    def choice(self, key: str, allowed: tuple[T, ...], default: T) -> T:
        """Return the value at `key`, which must be one of `allowed`."""
        value = self.raw(key)
        if value is None or value == "":
            return default
        if value not in allowed:
            allowed_words = ", ".join(map(str, allowed))
            self.error(key, "wrong_value", f"{value!r} is not one of {allowed_words}")
            return default
        return value  # type: ignore[no-any-return]

    def whole(self, key: str, default: int = 0) -> int:
        value = self.optional_whole(key)
        return default if value is None else value

    def optional_whole(self, key: str) -> int | None:
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong((*self.path, key), "a whole number", value)
            return None
        if abs(value) > LARGEST_NUMBER:
            self.error(key, "out_of_range", f"{value} is beyond {LARGEST_NUMBER}")
            return None
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self._wrong((*self.path, key), "true or false", value)
            return default
        return value

    def loose_text(self, key: str) -> str:
        """Return the text at `key`. A number or a flag becomes text as it was written, and is
        reported with a warning.
        """
        return self._as_text((key,), self.raw(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the list of texts at `key`. A number or a flag in the list becomes text as it was
        written.
        """
        value = self.raw(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self._wrong((*self.path, key), "a list of texts", value)
            return ()
        return tuple(self._as_text((key, i), item) for i, item in enumerate(value))

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return a mapping of texts (labels, annotations), in the order of its keys."""
        value = self.raw(key)
        if value is None:
            return ()
        if not isinstance(value, dict):
            self._wrong((*self.path, key), "a mapping of texts", value)
            return ()
        return tuple(sorted((str(k), self._as_text((key, str(k)), v)) for k, v in value.items()))

    def _as_text(self, below: Path, value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            self.warn(below, "quote_this", f"this is text: write it as {str(value)!r}")
            return str(value)
        if value is not None:
            self._wrong((*self.path, *below), "text", value)
        return ""

    def fields(self, key: str) -> Fields:
        """Return the mapping at `key`; an empty mapping if the key is missing."""
        return Fields(self.document, (*self.path, key), self.raw(key), self.report)

    def items(self, key: str) -> list[Fields]:
        """Return the mappings in the list at `key`."""
        value = self.raw(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self._wrong((*self.path, key), "a list", value)
            return []
        path = (*self.path, key)
        return [Fields(self.document, (*path, i), v, self.report) for i, v in enumerate(value)]

    def amounts(self, key: str, names: dict[str, str] = HOUSE) -> tuple[tuple[str, float], ...]:
        """Return the amounts of resources at `key`, sorted. `names`: the name under which each
        resource of the manifest is returned.

        Resources that no node offers are left out, with a warning.
        """
        inner = self.fields(key)
        out: dict[str, float] = {}
        for name in inner.known:
            if is_not_here(name):
                inner.unused(name, f"{name} is not handed out here, so it is ignored")
                continue
            try:
                amount = quantity(inner.raw(name))
            except ValueError as e:
                inner.error(name, "quantity_invalid", str(e))
                continue
            if amount < 0:
                inner.error(
                    name, "quantity_negative", f"an amount must be 0 or more, not {amount:g}"
                )
            house = names.get(name, name)
            out[house] = out.get(house, 0.0) + amount
        return tuple(sorted(out.items()))
