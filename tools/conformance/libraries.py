#!/usr/bin/env python3
"""Run the tests of Ray's libraries (Tune, Train, Data) on phalanx, or on Ray itself.

    python libraries.py --ray DIR --python PY --library tune

DIR is Ray's python/ray with the libraries' tests. PY is an interpreter with ray[tune,data,train],
phalanx and pytest. The libraries come from that ray, their tests from DIR, and the fixtures and
helpers from this folder. `--engine ray --write-baseline` writes the tests that pass on the real Ray
to libraries.csv. If that file exists, only these tests run on phalanx (--all runs all tests).
"""

import argparse
import ast
import collections
import csv
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import run

FIELDS = ["library", "test", "result", "seconds", "cases", "passed", "reason"]
BASELINE = os.path.join(run.HERE, "libraries.csv")
TESTS = {
    "tune": ("tune/tests",),
    "train": ("train/v2/tests",),
    "data": ("data/tests",),
}
FIXTURES = {
    "data": ("ray.data.tests.conftest",),
    "train": ("ray.train.v2.tests.conftest",),
    "tune": ("ray.tune.tests.conftest",),
}
"""Modules in DIR with a library's own fixtures."""


def tests_of(path):
    """Return the names of the tests that pytest would find in a file, in their order: test or
    Class::test.
    """
    found = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test"):
                found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found += [
                f"{node.name}::{one.name}"
                for one in node.body
                if isinstance(one, ast.FunctionDef) and one.name.startswith("test")
            ]
    return found


def collect(opts):
    """Return {file below DIR: its tests}."""
    files = collections.OrderedDict()
    wanted = set(filter(None, opts.files.split(",")))
    for folder in TESTS[opts.library]:
        for path in sorted(pathlib.Path(opts.ray, folder).rglob("test_*.py")):
            name = str(path.relative_to(opts.ray))
            if not wanted or path.name in wanted or name in wanted:
                files[name] = [f"{path.name}::{test}" for test in tests_of(path)]
    if opts.sample:
        every = [(name, test) for name, tests in files.items() for test in tests]
        drawn = set(random.Random(opts.seed).sample(every, min(opts.sample, len(every))))
        files = {n: [t for t in tests if (n, t) in drawn] for n, tests in files.items()}
    return files


def read_baseline():
    if not os.path.exists(BASELINE):
        return []
    with open(BASELINE, newline="") as src:
        return list(csv.DictReader(src))


def write_baseline(rows):
    order = sorted(rows, key=lambda row: (row["library"], row["test"].partition("::")[0]))
    with open(BASELINE + ".part", "w", newline="") as out:
        writer = csv.DictWriter(out, FIELDS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(order)
    os.replace(BASELINE + ".part", BASELINE)


def run_file(opts, name, tests, end):
    """Yield the rows of one file's tests."""
    path = pathlib.Path(opts.ray, name)
    opts.tests_dir = str(path.parent)
    one = run.FileRun(opts, path.name, tests, min(end, time.time() + opts.per_file))
    one.run()
    rows = []
    for test in tests:
        cases = one.cases[test]
        result, seconds, count, passed = run.total(cases)
        bad = [case for case in cases.values() if case["result"] != "pass"]
        rows.append(
            {
                "library": opts.library,
                "test": f"{name}::{test.partition('::')[2]}",
                "result": result,
                "seconds": seconds,
                "cases": count,
                "passed": passed,
                "reason": run.last_line(bad[0]["msg"]) if bad else "",
                "detail": {case: row for case, row in cases.items() if row["result"] != "pass"},
            }
        )
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ray", required=True, help="Ray's python/ray, with tests")
    parser.add_argument("--python", default=sys.executable, help="with ray, phalanx and pytest")
    parser.add_argument("--library", choices=sorted(TESTS), default="tune")
    parser.add_argument("--engine", choices=["phalanx", "ray"], default="phalanx")
    parser.add_argument("--files", default="", help="comma list of test files")
    parser.add_argument("--tests", default="", help="comma list of file::test")
    parser.add_argument("--sample", type=int, default=0, help="number of tests to draw at random")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw")
    parser.add_argument(
        "--all", action="store_true", help="run all tests, whatever the baseline says"
    )
    parser.add_argument("--write-baseline", action="store_true")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds per test phase")
    parser.add_argument("--total", type=float, default=5400.0, help="seconds for the whole run")
    parser.add_argument("--per-file", type=float, default=1500.0, help="seconds for one file")
    parser.add_argument("--out", default="libraries.json")
    parser.add_argument("--work", default="", help="scratch folder for logs")
    opts = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, run.stop_all)
    opts.ray = os.path.abspath(opts.ray)
    opts.work = os.path.abspath(opts.work or tempfile.mkdtemp(prefix="ray_libraries_"))
    os.makedirs(opts.work, exist_ok=True)
    # The tests' temporary files lie in a separate directory.
    opts.env = {
        "PHALANX_COMPAT_RAY_LIBRARIES": "1",
        "TMPDIR": tempfile.mkdtemp(prefix="rl"),
        "RAY_CONF_SOURCES": opts.ray,
    }
    opts.missing, opts.keep, opts.stop, opts.dashboard = set(), False, False, False
    opts.programs = ""
    opts.plugins = FIXTURES.get(opts.library, ())

    known = {row["test"]: row for row in read_baseline()}
    begin = time.time()
    results = []
    for number, (name, tests) in enumerate(files := list(collect(opts).items()), 1):
        if opts.tests:
            tests = [test for test in tests if test in opts.tests.split(",")]
        if known and not opts.all and not opts.write_baseline:
            full = {test: f"{name}::{test.partition('::')[2]}" for test in tests}
            tests = [t for t in tests if known.get(full[t], {}).get("result") == "pass"]
        if not tests:
            continue
        rows = run_file(opts, name, tests, begin + opts.total)
        results += rows
        if opts.write_baseline:
            known.update((row["test"], row) for row in rows if row["result"] != "notrun")
            write_baseline(known.values())
        good = sum(row["result"] == "pass" for row in rows)
        now = time.time() - begin
        print(
            f"[{number:3}/{len(files)}] {name:60} {good:3}/{len(rows):<3} {now:6.0f} s", flush=True
        )
        with open(opts.out + ".part", "w") as out:
            missing = sorted(opts.missing)
            json.dump({"missing_names": missing, "results": results}, out, indent=1)
        os.replace(opts.out + ".part", opts.out)
    kinds = collections.Counter(row["result"] for row in results)
    print(
        f"{opts.library} on {opts.engine}: {kinds['pass']}/{len(results)} passed in "
        f"{time.time() - begin:.0f} s  ({dict(sorted(kinds.items()))})"
    )
    return 0 if kinds["pass"] == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
