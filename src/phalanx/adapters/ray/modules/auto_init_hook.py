"""`ray._private.auto_init_hook`: the switch for starting a runtime when a call needs one."""

from __future__ import annotations

import sys
from types import ModuleType

from phalanx.adapters.ray.modules.client_mode_hook import auto_init_hook, wrap_auto_init
from phalanx.api import auto_init

__all__ = ["auto_init_hook", "enable_auto_connect", "wrap_auto_init"]

enable_auto_connect: bool
"""Phalanx's own switch, which programs read and set under this name."""


class _Switch(ModuleType):
    @property
    def enable_auto_connect(self) -> bool:
        return auto_init.is_on()

    @enable_auto_connect.setter
    def enable_auto_connect(self, value: bool) -> None:
        auto_init.switch(value)


sys.modules[__name__].__class__ = _Switch
