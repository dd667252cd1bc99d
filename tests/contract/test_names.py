"""The names that `import` alone gives."""

from __future__ import annotations

NAMES = """
    ActorID DynamicObjectRefGenerator JobID LoggingConfig NodeID ObjectID ObjectRef
    ObjectRefGenerator PlacementGroupID TaskID UniqueID WorkerID actor available_resources cancel
    cloudpickle cluster_resources exceptions get get_actor get_gpu_ids get_runtime_context init
    is_initialized kill method nodes put remote runtime_context runtime_env shutdown timeline
    util wait __version__
"""


def test_public_names(module):
    """The test runs in a new process, because no other test has imported a submodule there."""
    import subprocess
    import sys

    program = f"import {module.__name__} as ray\nprint(*dir(ray))"
    shown = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert set(NAMES.split()) - set(shown.split()) == set()
