"""A relative working_dir is relative to the caller's directory, also if a worker has changed its
own directory.
"""

from __future__ import annotations


def test_a_relative_working_dir_and_module(run_program):
    program = """
        import os, pathlib, tempfile
        here = os.path.realpath(tempfile.mkdtemp())
        os.chdir(here)
        for name in ("wd", "lib"):
            os.mkdir(name)
        pathlib.Path("wd/in_wd.py").touch()
        pathlib.Path("lib/in_lib.py").touch()
        import phalanx
        phalanx.init(num_cpus=1, runtime_env={"working_dir": "wd", "py_modules": ["lib"]})

        @phalanx.remote
        def look():
            import in_lib, in_wd
            return os.getcwd(), os.path.dirname(in_wd.__file__), os.path.dirname(in_lib.__file__)

        @phalanx.remote
        def nested():
            return phalanx.get(look.remote())

        expected = tuple(os.path.join(here, name) for name in ("wd", "wd", "lib"))
        assert phalanx.get(look.remote()) == expected, phalanx.get(look.remote())
        assert phalanx.get(nested.remote()) == expected
        other = look.options(runtime_env={"working_dir": "./wd"})
        assert phalanx.get(other.remote()) == expected
        labels = phalanx.nodes()[0]["Labels"]
        assert labels["kubernetes.io/os"] == "linux", labels
        assert labels["kubernetes.io/arch"] and labels["kubernetes.io/hostname"], labels
        selects = look.options(label_selector={"kubernetes.io/os": "linux"})
        assert phalanx.get(selects.remote()) == expected
        print("fine")
    """
    assert run_program(program) == (0, "fine\n")
