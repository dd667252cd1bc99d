"""Take the pictures of the README: the page of a real cluster, in Debian's Chromium.

The script starts a head and five more nodes on this machine, each with eight declared GPUs, submits
jobs of three teams that run `sleep`, and photographs the page. The cluster itself computes every
reason and every expected start on it. The script stops the cluster at the end.

    make pictures
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

COMMAND = Path(sys.executable).with_name("phalanx")
NODES = 6
GPUS = 8

RUNNING = (
    # name, queue, members, GPUs of each, time limit
    ("llm-pretrain", "llm", 2, 8, "2h"),
    ("llm-align", "llm", 1, 4, "6h"),
    ("vision-detect", "vision", 1, 8, "1h30m"),
    ("vision-eval", "vision", 2, 1, "45m"),
    ("speech-finetune", "speech", 1, 4, "3h"),
    ("speech-notebook", "speech", 1, 1, "8h"),
    ("vision-sweep", "vision", 4, 1, "4h"),
)
WAITING = (
    ("llm-pretrain-next", "llm", 3, 8, "12h"),
    ("speech-distil", "speech", 2, 4, "2h"),
    ("vision-video", "vision", 2, 8, "5h"),
)


class Cluster:
    """The command line of one cluster, in a session directory of its own."""

    def __init__(self, home: Path) -> None:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("PHALANX_")
        }
        self._environment = {**kept, "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "TZ": "UTC"}

    def __call__(self, *words: str) -> str:
        """Run a command of Phalanx and return what it printed."""
        done = subprocess.run(
            [COMMAND, *words], env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"phalanx {' '.join(words)}: {done.stderr or done.stdout}")
        return done.stdout

    def submit(self, name: str, queue: str, members: int, gpus: int, limit: str) -> None:
        """Submit a gang of `sleep`."""
        self(
            "run", "--detach", "--name", name, "--queue", queue, "--gang", str(members), "--gpus",
            str(gpus), "--cpus", str(gpus), "--time", limit, "--", "sleep", "3600",
        )  # fmt: skip


@contextmanager
def _lab() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="phx") as home:
        cluster = Cluster(Path(home))
        amounts = ("--num-cpus", "64", "--num-gpus", str(GPUS), "--topology", "dgx_h100")
        said = cluster("start", "--head", "--port", "0", "--node-name", "gpu0", *amounts)
        try:
            address = said.split()[2].rstrip(";")  # Head at HOST:PORT; its store is ...
            for number in range(1, NODES):
                cluster("start", "--address", address, "--node-name", f"gpu{number}", *amounts)
            yield cluster
        finally:
            cluster("stop", "--forget", "--yes")


def _fill(cluster: Cluster) -> None:
    cluster("queue", "create", "llm", "--deserved", "GPU=24", "--capability", "GPU=40")
    cluster("queue", "create", "vision", "--deserved", "GPU=16")
    cluster("queue", "create", "speech", "--deserved", "GPU=8", "--capability", "GPU=12")
    for job in (*RUNNING, *WAITING):
        cluster.submit(*job)


def _photograph(page: Page, base: str, folder: Path) -> None:
    page.goto(f"{base}/jobs/default/{WAITING[0][0]}")
    page.get_by_text("Expected to start").wait_for()
    page.screenshot(path=folder / "job.png")
    page.goto(f"{base}/plan")
    page.get_by_text("Expected starts").wait_for()
    page.screenshot(path=folder / "plan.png", full_page=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder for the pictures")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with _lab() as cluster, sync_playwright() as tools:
        _fill(cluster)
        link = cluster("dashboard").split()[-1]
        base = link.partition("/login")[0]
        browser = tools.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 740})
        page.goto(link)
        page.wait_for_url(f"{base}/")
        _photograph(page, base, folder)
        browser.close()
    for path in sorted(folder.glob("*.png")):
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
