"""The scheduler's rules on a running cluster: the default rules, or an administrator's.

An administrator's rules are in the format of Volcano's scheduler configuration. The head refuses
rules by which gangs would start in parts, would start on nodes that cannot run them, or would never
start. Users may request licenses and reservations on every cluster, so both are honoured even if
the rules do not name their plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from phalanx.errors import BatchFileError, JobCommandError
from phalanx.head.events.event_log import EventLog
from phalanx.head.gangs.cycles import configuration, default_text
from phalanx.head.internal_errors import InternalErrors
from phalanx.head.state_store import StateStore
from phalanx.model.rows.work import RulesInfo
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.requests.gangs import GetRules, SetRules
from phalanx.protocol.requests.request import Entry
from phalanx.scheduler.cycle.config import Configuration, PluginOption, parse_volcano
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.forecast.planner import lent
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

MAX_BYTES = 64 << 10
"""The largest size of a configuration in bytes."""
MAX_VALUES = 10_000
"""The largest number of values in a configuration. A YAML alias counts as all values that it stands
for.
"""
NEEDED = ("gang", "predicates")
ADDED = ("licenses", "calendar", "limits", "gpu-sharing")
"""Plugins that every cluster uses. These plugins are added to rules that do not name them."""
RESTLESS = frozenset({"shuffle", "consolidate"})
"""Actions that evict for reasons other than priority and queues."""
_KEY = b"scheduler"


class RulesRow(msgspec.Struct, frozen=True, kw_only=True):
    """An administrator's rules, as the store keeps them."""

    text: str
    file: str


class Rules:
    """The rules that cycles follow."""

    def __init__(
        self,
        state_store: StateStore,
        placement: PlacementPolicy,
        internal_errors: InternalErrors,
        snapshot: Callable[[], Snapshot],
        changed: Callable[[], None],
        meter: Meter,
        event_log: EventLog,
    ) -> None:
        """`snapshot` returns everything that a cycle could read; new rules are tried on that.
        `changed` is called when the rules have changed.
        """
        self._event_log = event_log
        self._state_store = state_store
        self._placement = placement
        self._internal_errors = internal_errors
        self._snapshot = snapshot
        self._changed = changed
        self._meter = meter
        self._own: RulesRow | None = None
        self._config: Configuration | None = None
        self._trouble = ""

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            GetRules.handled_by(lambda _, request: self.row()),
            SetRules.handled_by(lambda _, request: self.put(request.text, request.file)),
        ]

    def current(self, *, has_paths: bool = False) -> Configuration:
        """Return the current rules. `has_paths`: whether queues have paths. An administrator's
        rules use paths only if they name a plugin that uses paths.
        """
        if self._config is not None:
            return self._config
        return configuration(self._placement, has_paths=has_paths)

    @property
    def every_cycle_may_evict(self) -> bool:
        """Whether every cycle may evict gangs, because the rules have actions that evict for
        reasons other than priority and queues.
        """
        return not RESTLESS.isdisjoint(self.current().actions)

    def row(self) -> RulesInfo:
        """Return the rules for display."""
        config = self.current()
        return RulesInfo(
            text=default_text(self._placement) if self._own is None else self._own.text,
            file="" if self._own is None else self._own.file,
            is_own=self._own is not None,
            actions=list(config.actions),
            plugins=config.plugin_names(),
            trouble=self._trouble,
        )

    def put(self, text: str | None, file: str) -> RulesInfo:
        """Follow the rules in `text` from now on; with None, follow the default rules. Raises
        JobCommandError for rules with which no cycle could run.
        """
        own = None if text is None else RulesRow(text=text, file=file)
        try:
            config = None if own is None else read_rules(own)
            if config is not None:
                self._try(config)
        except JobCommandError as error:
            self._meter.add("phalanx_config_reloads_total", "refused")
            self._event_log.note("rules-refused", name=file, why=str(error))
            raise
        self._meter.add("phalanx_config_reloads_total", "done")
        self._own, self._config, self._trouble = own, config, ""
        self._state_store.keep("rules", _KEY, own)
        why = "back to the rules that come with the cluster" if own is None else ""
        self._event_log.note("rules-set", name=file, why=why)
        self._changed()
        return self.row()

    def _try(self, config: Configuration) -> None:
        """Try the rules in one cycle, and discard its plan."""
        seen = msgspec.structs.replace(self._snapshot(), config=config)
        try:
            run_cycle(seen, shells=lent(), explains=False)
        except Exception as error:
            raise JobCommandError(
                f"a cycle with these rules fails: {type(error).__name__}: {error}"
            ) from error

    def load(self, rows: Iterable[RulesRow]) -> None:
        """Restore stored rules. Rules that can no longer be read are kept, but cycles do not follow
        them.
        """
        for row in rows:
            self._own = row
            try:
                self._config = read_rules(row)
            except JobCommandError as error:
                self._trouble = str(error)
                self._internal_errors.add("rules", error, row.file)
            self._changed()


def read_rules(row: RulesRow) -> Configuration:
    """Read an administrator's rules, and add the plugins that every cluster has. Raises
    JobCommandError with file, line and reason.
    """
    size = len(row.text.encode())
    if size > MAX_BYTES:
        raise JobCommandError(f"rules may have at most {MAX_BYTES} bytes; these have {size}")
    try:
        config = parse_volcano(row.text, known_plugins(), row.file, most_values=MAX_VALUES)
    except BatchFileError as error:
        raise JobCommandError(str(error)) from None
    named = config.plugin_names()
    missing = [f"plugin {name}" for name in NEEDED if name not in named]
    missing += [] if "allocate" in config.actions else ["action allocate"]
    if missing:
        raise JobCommandError(
            f"{row.file}: these rules lack {', '.join(missing)}; without them, gangs would start "
            "in parts, where they cannot run, or not at all"
        )
    added = tuple(PluginOption(name=name) for name in ADDED if name not in named)
    return msgspec.structs.replace(config, tiers=(*config.tiers, added) if added else config.tiers)
