"""The example notebook, run headless by nbclient: the output of its cells."""

import os
import queue
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[3] / "examples" / "integrations" / "notebook.ipynb"


def stream_of(listener):
    """Return what a kernel has printed. nbclient drops output between two cells."""
    texts = []
    while True:
        try:
            message = listener.get_iopub_msg(timeout=1)
        except queue.Empty:
            return "".join(texts)
        if message["msg_type"] == "stream":
            texts.append(message["content"]["text"])


@pytest.fixture(scope="module")
def executed():
    """Return the executed notebook, and everything that its kernel has printed."""
    os.environ["PHALANX_ADDRESS"] = "local"
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=120, kernel_name="python3")
    with client.setup_kernel():
        listener = client.km.blocking_client()
        listener.start_channels()
        for number, cell in enumerate(notebook.cells):
            client.execute_cell(cell, number)
        printed = stream_of(listener)
        listener.stop_channels()
    return notebook, printed


@pytest.fixture(scope="module")
def shown(executed):
    """Return the output of each cell by its number: texts, and HTML."""
    notebook, _ = executed
    kept = os.environ.get("PHALANX_NOTEBOOK")
    if kept:
        nbformat.write(notebook, kept)
    return {
        number: "\n".join(
            out.get("text") or "\n".join(out.get("data", {}).values()) for out in cell.outputs
        )
        for number, cell in enumerate(notebook.cells)
        if cell.cell_type == "code"
    }


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (1, "<th>resource</th><th>free</th><th>in all</th>"),
        (2, "<progress value='50' max='50'></progress> 50 of 50 done"),
        (4, "<th>rank</th><th>state</th><th>node</th><th>devices</th>"),
        (4, "GPU 0"),
        (5, "white-space:pre-wrap"),
        (6, "<td>default</td>"),
        (7, "<td>hello</td>"),
        (9, "90"),
        (10, "(1, '1', 10)"),
        (11, "45"),
        (12, "shut down"),
    ],
)
def test_a_cell_shows(shown, cell, words):
    assert words in shown[cell]


def test_a_bar_of_a_worker_is_few_lines(executed):
    _, printed = executed
    lines = [line for line in printed.splitlines() if "steps" in line]
    assert 1 <= len(lines) <= 6
    assert "100%" in lines[-1]
    assert not any("\r" in line for line in lines)
