"""Runs a piece of a test without root's right to overlook file modes.

Capabilities belong to a thread. A thread started inside the context inherits them, one that was there before
keeps its own: open a database inside, so that the thread which does its work is bound too. A program that root
starts gets them all back, unless they are dropped for good: that is what `give_up_override` is for.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP = 24
_DAC_OVERRIDE, _DAC_READ_SEARCH, _FOWNER = 1, 2, 3
_OVERRIDING = (_DAC_OVERRIDE, _DAC_READ_SEARCH, _FOWNER)

_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def bound_by_file_modes() -> Iterator[None]:
    """Inside, the calling thread may do to files what their modes say. Nothing changes for who is not root."""
    if os.geteuid() != 0:
        yield
        return
    before = _get()
    bound = _get()
    for capability in _OVERRIDING:
        bound[0].effective &= ~(1 << capability)
    _set(bound)
    try:
        yield
    finally:
        _set(before)


def give_up_override() -> None:
    """For `preexec_fn`: the program started next cannot overlook file modes either."""
    if os.geteuid() == 0:
        for capability in _OVERRIDING:
            _check(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0))


def _get() -> "ctypes.Array[_Sets]":
    sets = (_Sets * 2)()
    _check(_libc.capget(ctypes.byref(_Header(_VERSION_3, 0)), sets))
    return sets


def _set(sets: "ctypes.Array[_Sets]") -> None:
    _check(_libc.capset(ctypes.byref(_Header(_VERSION_3, 0)), sets))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
