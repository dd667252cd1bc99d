"""The public names of `util`: all exist, and each is imported when it is first used. A name that is
both a function and a module, as in Ray, gives the function.
"""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from phalanx import util


@pytest.mark.parametrize("name", util.__all__)
def test_every_public_name_is_there(name):
    assert not isinstance(getattr(util, name), types.ModuleType)


def test_modules_are_found_as_attributes():
    assert util.queue.Queue is util.Queue


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_thing"):
        util.no_such_thing


def test_placement_group_stays_the_function():
    import phalanx.util.placement_group

    assert callable(phalanx.util.placement_group)


def test_the_import_stays_light():
    program = (
        "import sys, phalanx.util; "
        "print([m for m in ('rich', 'joblib', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
