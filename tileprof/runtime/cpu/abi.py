"""Structures that the host, the thread pool and emitted kernels share: `prelude/abi.h` in
ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

MAX_INDICES = 16
NO_MEMORY = 1 << 30
"""The place of a failure that is no op's."""


class Failure(ctypes.Structure):
    """`TpFailure`: what stopped a launch."""

    _fields_ = (
        ("block", ctypes.c_int64),
        ("place", ctypes.c_int32),
        ("launch", ctypes.c_int32),
        ("index", ctypes.c_int64 * MAX_INDICES),
    )


class Run(ctypes.Structure):
    """`TpRun`: one run of a kernel."""

    launch: Any
    records: Any
    workers: int
    time_ns: int
    blocks: int
    block_ns: int
    launches: int
    grids: Any
    printed: int
    printed_bytes: int
    printed_lost: int
    samples: Any
    sample_bytes: int
    states: int
    period_ns: int
    looks: int
    failure: Failure

    _fields_ = (
        ("launch", ctypes.c_void_p), ("begin_print", ctypes.c_void_p),
        ("end_print", ctypes.c_void_p), ("records", ctypes.c_void_p), ("workers", ctypes.c_int64),
        ("time_ns", ctypes.c_int64), ("blocks", ctypes.c_int64), ("block_ns", ctypes.c_int64),
        ("launches", ctypes.c_int64), ("grids", ctypes.c_void_p), ("printed", ctypes.c_void_p),
        ("printed_bytes", ctypes.c_uint64), ("printed_capacity", ctypes.c_uint64),
        ("printed_lost", ctypes.c_uint64), ("samples", ctypes.c_void_p),
        ("sample_bytes", ctypes.c_int64), ("states", ctypes.c_int64), ("period_ns", ctypes.c_int64),
        ("looks", ctypes.c_uint64), ("failure", Failure), ("failing", ctypes.c_int64),
    )  # fmt: skip


class Message(ctypes.Structure):
    """`TpMessage`: the head of a printed message."""

    block: int
    bytes: int
    place: int
    launch: int

    _fields_ = (
        ("block", ctypes.c_int64),
        ("bytes", ctypes.c_uint64),
        ("place", ctypes.c_int32),
        ("launch", ctypes.c_int32),
    )
