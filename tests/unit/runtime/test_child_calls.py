"""Chains of system calls of a child process that are reused: each run makes exactly its own
calls.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
from tests.command_starting import new_start, start_command, subreaper

from phalanx.runtime.os import shields
from phalanx.runtime.os.child_calls import Call, ChildCalls, address_of, function


@pytest.fixture
def children() -> ChildCalls:
    try:
        return ChildCalls()
    except OSError as error:
        pytest.skip(f"this C library runs no chains: {error}")


def ran(children: ChildCalls, texts: list[bytes], code: int) -> tuple[bytes, int]:
    """Let a child write these texts one after another; return (what it wrote, its exit code)."""
    read, write = os.pipe()
    kept = [ctypes.c_char_p(text) for text in texts]
    calls: list[Call] = [
        (function("write"), (write, address_of(one), len(text)))
        for one, text in zip(kept, texts, strict=True)
    ]
    pid = ctypes.c_int(0)
    children.run([*calls, (function("_exit"), (code,))], pid)
    os.close(write)
    _, status = os.waitpid(pid.value, 0)
    with os.fdopen(read, "rb") as file:
        return file.read(), os.waitstatus_to_exitcode(status)


def test_a_chain_has_the_arguments_of_each_run(children: ChildCalls) -> None:
    for number in range(5):
        text = b"run %d\n" % number
        assert ran(children, [text, b"end"], number) == (text + b"end", number)


def test_a_chain_takes_other_calls_after_it_has_run(children: ChildCalls) -> None:
    for length in (3, 1, 2, 3, 0, 1):
        texts = [b"<%d>" % at for at in range(length)]
        assert ran(children, texts, length) == (b"".join(texts), length)


def test_calls_with_more_arguments_than_registers_get_them_all(children: ChildCalls) -> None:
    written = ctypes.create_string_buffer(64)
    form = ctypes.c_char_p(b"%d %d %d %d %d %d")
    for first in (1, 70):
        read, write = os.pipe()
        numbers = range(first, first + 6)
        length = len(" ".join(map(str, numbers)))
        calls: list[Call] = [
            (function("snprintf"), (ctypes.addressof(written), 64, address_of(form), *numbers)),
            (function("write"), (write, ctypes.addressof(written), length)),
            (function("_exit"), (0,)),
        ]
        pid = ctypes.c_int(0)
        children.run(calls, pid)
        os.close(write)
        os.waitpid(pid.value, 0)
        with os.fdopen(read) as file:
            assert file.read() == " ".join(map(str, numbers))


@pytest.mark.usefixtures("children")
def test_the_memory_of_a_shield_serves_the_next_one_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shields, "_free", {False: [], True: []})
    start = new_start()
    used = []
    with subreaper():
        for number, kept in enumerate([False, False, True, False, True, False]):
            log, exit_file = tmp_path / f"{number}.log", tmp_path / f"{number}.exit"
            one = start_command(
                ["sh", "-c", f"echo {number}; exit {number}"],
                {},
                str(tmp_path),
                str(log),
                start=start,
                exit_file=str(exit_file) if kept else "",
            )
            used.append(shields._used[one.shield.pid])
            if kept:
                one.shield.end()  # which ends the command, too, or has seen its end
                os.waitpid(one.pid, 0)
            else:
                shields.reap(one.shield.pid)
                assert os.waitstatus_to_exitcode(os.waitpid(one.pid, 0)[1]) == number
                assert log.read_text() == f"{number}\n"
    plain, of_kept = [used[at] for at in (0, 1, 3, 5)], [used[at] for at in (2, 4)]
    assert len(set(map(id, plain))) == len(set(map(id, of_kept))) == 1
    assert not {id(one) for one in plain} & {id(one) for one in of_kept}
