"""The example notebook, run headless by nbclient: the output of its cells. Cells that fail or wait
run in a shell of IPython in this process.
"""

import os
import queue
import signal
import threading
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient

import phalanx

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


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setenv("PHALANX_ADDRESS", "local")
    shell = InteractiveShell.instance()
    shell.run_line_magic("colors", "NoColor")
    shell.run_line_magic("load_ext", "phalanx.adapters.jupyter")
    phalanx.init(num_cpus=2)
    yield shell
    phalanx.shutdown()


def test_a_cell_that_fails_shows_only_its_own_code(shell, capsys):
    shell.run_cell("%%phalanx\ndef f(y):\n    return 1 / y\nf(0)")
    shown = capsys.readouterr().out
    assert "ZeroDivisionError: division by zero" in shown
    assert 'File "<cell>", line 3, in <module>' in shown
    assert len(shown.strip().splitlines()) < 10


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%phalanx --gang 2 --gpus 1\n1", "the largest node has 0 GPU"),
        ("%%phalanx --get w\nz = 1", "the cell does not bind w"),
        ("%%phalanx\nz = (", "was never closed"),
    ],
)
def test_a_cell_that_cannot_run_says_so_shortly(shell, capsys, cell, said):
    shell.run_cell(cell)
    shown = "".join(capsys.readouterr())
    assert said in shown
    assert len(shown.strip().splitlines()) < 6


def test_a_cell_that_waits_says_why_and_an_interrupt_cancels_it(shell, capsys):
    threading.Timer(3, signal.raise_signal, [signal.SIGINT]).start()
    shell.run_cell("%%phalanx --gpus 1\n1")
    shown = capsys.readouterr()
    assert "has 0 GPU of 1 asked" in shown.err
    assert "An interrupt (Ctrl-C) cancels it." in shown.err
    assert "KeyboardInterrupt: the work of this cell is cancelled" in shown.out
