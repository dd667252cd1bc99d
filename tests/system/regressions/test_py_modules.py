"""Modules in a runtime environment's py_modules are imported under the name of their path."""

from __future__ import annotations


def test_modules_are_imported_by_the_names_of_their_directories_and_files(run_program):
    program = """
        import pathlib, sys, tempfile
        here = pathlib.Path(tempfile.mkdtemp())
        for path, text in {
            "package/__init__.py": "", "package/json.py": "1/0", "package/part.py": "X = 1",
            "spaces/inner.py": "X = 2", "single.py": "X = 3", "beside.py": "",
        }.items():
            (here / path).parent.mkdir(exist_ok=True)
            (here / path).write_text(text)
        sys.path.insert(0, str(here))
        import package
        sys.path.remove(str(here))
        import phalanx
        from phalanx.runtime_env import RuntimeEnv, RuntimeEnvConfig

        @phalanx.remote
        def look():
            import importlib.util, json, inner, package.part, single, spaces.inner
            beside = importlib.util.find_spec("beside")
            return package.part.X, spaces.inner.X, inner.X, single.X, json.dumps(4), beside

        modules = [package, here / "spaces", str(here / "single.py")]
        given = RuntimeEnv(py_modules=modules, config=RuntimeEnvConfig(eager_install=False))
        phalanx.init(num_cpus=1)
        print(phalanx.get(look.options(runtime_env=given).remote()))
    """
    assert run_program(program) == (0, "(1, 2, 2, 3, '4', None)\n")
