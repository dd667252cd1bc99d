"""Builds a release into `dist`: wheels, source archives, a list of parts and checksums.

`make release` runs it. All distributions are built twice from an export of a commit, in different
folders; the release fails when one file differs. The time of all files is that of the commit.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = (".", "docs", "research", "benchmarks")
"""The folders with a pyproject.toml of their own; the first is the core."""
SUMS = "SHA256SUMS"
PARTS = "phalanx.cdx.json"


class NotReleasable(Exception):
    """Raised with a sentence that says why there is no release."""


def run(words: list[str], folder: Path, **variables: str) -> str:
    """Run a program, and return its output. If the program fails, raise NotReleasable."""
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise NotReleasable(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def export(commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        # Debian 12's Python 3.11.2 knows no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)


def build(source: Path, out: Path, epoch: str, python: str) -> None:
    """Build all distributions of an exported tree into a folder."""
    variables = {"SOURCE_DATE_EPOCH": epoch, "PYTHONPATH": str(source / "src"), "TZ": "UTC"}
    pages = str(source / "docs" / "man")
    run([python, "tools/release/man.py", pages], source, **variables)
    for name in DISTRIBUTIONS:
        words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), name]
        run(words, source, SOURCE_DATE_EPOCH=epoch, TZ="UTC")


def build_wheel(source: Path, out: Path, epoch: str, python: str) -> None:
    """Build only the wheel of the core, from an exported tree. `python`: the Python of `make
    release`.
    """
    words = [python, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), "."]
    run(words, source, SOURCE_DATE_EPOCH=epoch, TZ="UTC")


def time_of(commit: str) -> str:
    """Return the time of a commit, in seconds since the epoch. All files of the commit's release
    get this time.
    """
    return run(["git", "log", "-1", "--format=%ct", commit], ROOT).strip()


def sums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 sum of each file in a folder."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != SUMS
    }


def check_versions(source: Path) -> str:
    """Return the version of the release. Raises NotReleasable unless all distributions have this
    version and CHANGELOG.md has a dated section for it.
    """
    versions = {}
    for name in DISTRIBUTIONS:
        project = tomllib.loads((source / name / "pyproject.toml").read_text())["project"]
        versions[project["name"]] = project["version"]
    if len(set(versions.values())) != 1:
        raise NotReleasable(f"The distributions have different versions: {versions}.")
    (version,) = set(versions.values())
    changes = (source / "CHANGELOG.md").read_text(encoding="utf-8")
    title = re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE)
    if re.fullmatch(r"\d+\.\d+\.\d+", version) and title is None:
        raise NotReleasable(f"CHANGELOG.md has no section of {version} with a date: make changelog")
    return str(version)


def write_parts(out: Path, python: str) -> None:
    """Write the list, in CycloneDX's form, of all packages that are installed together with the
    core.
    """
    with tempfile.TemporaryDirectory() as folder:
        run([python, "-m", "venv", folder], ROOT)
        own = f"{folder}/bin/python"
        (wheel,) = out.glob("phalanx-[0-9]*.whl")
        run([own, "-m", "pip", "install", "--quiet", f"{wheel}[cluster,dashboard]"], ROOT)
        run([own, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools"], ROOT)
        run(
            [
                *(sys.executable, "-m", "cyclonedx_py", "environment", own),
                *("--output-reproducible", "--output-format", "JSON"),
                *("--pyproject", str(ROOT / "pyproject.toml"), "--output-file", str(out / PARTS)),
            ],
            ROOT,
        )


def main() -> int:
    """Build the release of a commit."""
    reader = argparse.ArgumentParser(description=main.__doc__)
    reader.add_argument("--commit", default="HEAD")
    reader.add_argument("--out", type=Path, default=ROOT / "dist")
    reader.add_argument("--python", required=True, help="interpreter with Phalanx's packages")
    given = reader.parse_args()
    try:
        # "HEAD" may become another commit between the two builds.
        commit = run(["git", "rev-parse", "--verify", f"{given.commit}^{{commit}}"], ROOT).strip()
        epoch = time_of(commit)
        with tempfile.TemporaryDirectory() as folder:
            made = []
            for name in ("first", "second"):
                source, out = Path(folder, name, "source"), Path(folder, name, "dist")
                source.mkdir(parents=True)
                export(commit, source)
                version = check_versions(source)
                build(source, out, epoch, given.python)
                made.append(sums(out))
            if made[0] != made[1]:
                differ = [name for name in made[0] if made[0][name] != made[1].get(name)]
                raise NotReleasable(f"Two builds differ in {', '.join(differ)}.")
            shutil.rmtree(given.out, ignore_errors=True)
            shutil.copytree(out, given.out)
        write_parts(given.out, given.python)
    except NotReleasable as error:
        print(error, file=sys.stderr)
        return 1
    found = sums(given.out)
    (given.out / SUMS).write_text("".join(f"{one}  {name}\n" for name, one in found.items()))
    print(f"Release {version} of {commit[:12]}, built twice with the same bytes:")
    for name in found:
        print(f"  {(given.out / name).stat().st_size:>10,}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
