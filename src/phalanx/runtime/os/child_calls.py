"""Starts a child process that makes calls of the C library, one after another, and becomes another
program.

A fork copies the page tables of its process, and then each page that the parent or the child writes
to, although the child becomes another program a moment later. The child here shares its parent's
memory until then, and the thread that made it waits (clone(2): CLONE_VM, CLONE_VFORK). This costs a
third of a fork, and the cost does not grow with the process.

Such a child must not run Python, because it shares Python's state with its parent. So its calls are
prepared as a chain of contexts (makecontext(3)): each context has a stack of its own and makes one
call. When the call returns, the C library continues with the next context. The only shared memory
that the child writes is the C library's error number of the waiting thread.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

_c = ctypes.PyDLL(None)
_waiting_c = ctypes.CDLL(None, use_errno=True)
"""The C library, for calls during which other threads may run."""
Function = Any
"""A function of the C library, as ctypes represents it."""
Call = tuple[Function, tuple[int, ...]]
"""A function with its arguments, which are numbers or addresses. The result is ignored."""

_VM, _VFORK, _PARENT_SETTID, _CHILD_CLEARTID = 0x100, 0x4000, 0x100000, 0x200000
_ALL_SIGNALS = 128 * b"\xff"
"""The bytes of a signal set (sigset_t) that contains all signals. The C library's type is not
longer.
"""
_CONTEXT_BYTES = 8192
"""The number of bytes that are reserved for a ucontext_t. It has 968 on x86-64, and 4,560 on
aarch64.
"""
_LINK, _STACK, _STACK_BYTES = 1, 2, 4
"""The positions, in words, of uc_link and of uc_stack.ss_sp and ss_size in a context. A context
begins with uc_flags, uc_link, uc_stack.ss_sp, ss_flags, ss_size.
"""
_ROOM = 16384
"""The size of each call's stack in bytes."""
_WORD = ctypes.sizeof(ctypes.c_long)
_STACK_END = 32
"""The number of words at the end of a call's stack that are written again before each run. The C
library keeps in them the call's return address and the arguments that are in no register.
"""
_NOTHING = memoryview(bytes(_STACK_END * _WORD)).cast("l")
_MARK = 0x5A5A_F00D_0B5E_0000
"""The first of the numbers that stand for arguments while their positions are searched."""
LATE = 0x5A5A_F00D
"""Represents an argument that is known only when the call is made (`late_argument`)."""


class Chain:
    """Memory for a chain of calls, with a context and a stack for each call."""

    def __init__(self, length: int) -> None:
        self.length = length
        """The largest number of calls that the chain can have."""
        # Pages that are never used take no memory. A fork of this process gets a copy.
        size = (length + 1) * (_CONTEXT_BYTES + _ROOM)
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._words = memoryview(self._memory).cast("l")
        self._prepared: _Prepared | None = None

    def lay(self, calls: Sequence[Call]) -> int:
        """Prepare these calls. Returns the address of the first call's context.

        A process that begins there uses the memory below the address as its stack. During the
        calls, those signals are blocked that this thread blocked when the chain was first prepared
        for these functions.
        """
        prepared = self._prepared
        if prepared is None or prepared.shape != _shape(calls):
            prepared = self._prepared = self._prepare(calls)
        words = self._words
        # A run of the chain changes the end of each stack, and nothing else that a run needs.
        for there, content in prepared.stack_ends:
            words[there] = content
        given = [number for _, numbers in calls for number in numbers]
        for position, number in zip(prepared.positions, given, strict=True):
            words[position] = number
        return self.context(0)

    def _prepare(self, calls: Sequence[Call]) -> _Prepared:
        """Make the contexts of these calls, and find where in the memory the arguments are."""
        places = [self.context(at) for at in range(len(calls))]
        positions: list[int] = []
        stack_ends: list[tuple[slice, memoryview]] = []
        for place, behind, (function, given) in zip(places, [*places[1:], 0], calls, strict=True):
            _c.getcontext(ctypes.c_void_p(place))
            words = (ctypes.c_size_t * (_STACK_BYTES + 1)).from_address(place)
            words[_LINK] = behind
            words[_STACK], words[_STACK_BYTES] = place + _CONTEXT_BYTES, _ROOM
            marks = [_MARK + at for at in range(len(given))]
            called = ctypes.c_void_p(address_of(function))
            end = (place + _CONTEXT_BYTES + _ROOM - self._address) // _WORD
            there = slice(end - _STACK_END, end)
            self._words[there] = _NOTHING
            _c.makecontext(ctypes.c_void_p(place), called, len(given), *map(ctypes.c_long, marks))
            positions += self._positions(place, there, marks)
            stack_ends.append((there, memoryview(self._words[there].tobytes()).cast("l")))
        return _Prepared(_shape(calls), positions, stack_ends)

    def _positions(self, place: int, stack_end: slice, marks: Sequence[int]) -> list[int]:
        """Return where these arguments of the call at `place` are, in words of the memory."""
        first = (place - self._address) // _WORD
        searched = [*range(first, first + _CONTEXT_BYTES // _WORD)]
        searched += range(stack_end.start, stack_end.stop)
        found = {self._words[at]: at for at in reversed(searched)}
        try:
            return [found[mark] for mark in marks]
        except KeyError:
            raise OSError("the arguments of calls are not in their contexts") from None

    def context(self, at: int) -> int:
        """Return the address of the context of call number `at`."""
        return self._address + _ROOM + at * (_CONTEXT_BYTES + _ROOM)


class _Prepared(NamedTuple):
    """A chain whose contexts are made, so that only the arguments of its calls must be written."""

    shape: list[tuple[Function, int]]
    positions: list[int]
    """The position of each argument of each call, in words of the chain's memory."""
    stack_ends: list[tuple[slice, memoryview]]
    """The words at the end of each call's stack, and their contents before a run."""


def _shape(calls: Sequence[Call]) -> list[tuple[Function, int]]:
    """Return the function of each call, and how many arguments it has."""
    return [(function, len(given)) for function, given in calls]


@functools.cache
def late_argument(name: str, *given: int) -> int:
    """Return the distance in bytes from the address of a call's context to the call's argument
    LATE. `name`: the called function of the C library.

    An earlier call of the chain writes the argument there, four bytes. Raises OSError on a machine
    where that does not work.
    """
    chain = Chain(1)
    place = chain.lay([(function(name), given)])
    found = ctypes.string_at(place, _CONTEXT_BYTES).find(LATE.to_bytes(8, sys.byteorder))
    if found < 0 or sys.byteorder != "little":
        raise OSError("the arguments of calls are not in their contexts")
    return found


class ChildCalls:
    """Starts children that run chains of calls. Each thread needs an object of its own."""

    def __init__(self) -> None:
        """Raises OSError if the C library has no contexts."""
        try:
            _ = _c.makecontext, _c.getcontext
            self._begin = address_of(_c.setcontext)
            self._clone = _waiting_c.clone
        except AttributeError:
            raise OSError("this C library has no makecontext") from None
        self._chain = Chain(0)

    def run(self, calls: Sequence[Call], pid: ctypes.c_int) -> None:
        """Start a child that runs these calls.

        When this returns, the child has become another program or has ended; the calls must ensure
        that. `pid` gets the child's id as soon as the child exists. Raises OSError if no more
        processes can be made.
        """
        first = ctypes.c_void_p(self._lay(calls))
        flags = _VM | _VFORK | _PARENT_SETTID | int(signal.SIGCHLD)
        self._start(flags, first, pid)

    def call_to_run(self, calls: Sequence[Call], pid: ctypes.c_int, begins: ctypes.c_int) -> Call:
        """Return a call by which a child starts a child of its own, as `run` does.

        The kernel sets `begins` to 0, and wakes a waiting thread (futex(2)), when the child's child
        has become another program or has ended.
        """
        first = self._lay(calls)
        flags = _VM | _VFORK | _PARENT_SETTID | _CHILD_CLEARTID | int(signal.SIGCHLD)
        told = ctypes.addressof(pid), 0, ctypes.addressof(begins)
        return _c.clone, (self._begin, first, flags, first, *told)

    def run_along(self, chain: Chain, calls: Sequence[Call], pid: ctypes.c_int) -> None:
        """Start a child that runs these calls while this thread continues.

        The child shares the memory of this process as long as it lives, and blocks all signals.
        `chain` must be kept for that time, and must have room for the calls. Raises OSError as
        `run` does.
        """
        before = ctypes.create_string_buffer(len(_ALL_SIGNALS))
        _c.pthread_sigmask(signal.SIG_SETMASK, _ALL_SIGNALS, before)
        try:
            first = ctypes.c_void_p(chain.lay(calls))
        finally:
            _c.pthread_sigmask(signal.SIG_SETMASK, before, None)
        self._start(_VM | _PARENT_SETTID | int(signal.SIGCHLD), first, pid)

    def _lay(self, calls: Sequence[Call]) -> int:
        if self._chain.length < len(calls):
            self._chain = Chain(len(calls))
        return self._chain.lay(calls)

    def _start(self, flags: int, first: ctypes.c_void_p, pid: ctypes.c_int) -> None:
        begin = ctypes.c_void_p(self._begin)
        if self._clone(begin, first, flags, first, ctypes.byref(pid)) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def function(name: str) -> Function:
    """Return a function of the C library."""
    return getattr(_c, name)


def address_of(thing: Any) -> int:
    """Return the address of a function, or the address in a C pointer."""
    return ctypes.cast(thing, ctypes.c_void_p).value or 0
