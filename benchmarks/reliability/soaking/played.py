"""A soak without a GPU: CUPTI is played, and all else is the recorder's own.

In: `benchmarks.reliability.soak --device played`.  Out: its workers, whose launches leave records
as those on a GPU do: by threads with buffers of their own, on two streams each, of graphs, copies
and kernels beside operations of PyTorch on the host, and of the inside of kernels with marks.

What is done each so many seconds (records that are handed over, files that are written) is done
`HURRY` times as often, as a soak of ten minutes takes one here.
"""

from __future__ import annotations

import ctypes as C
import os
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.reliability.soaking.inside import played_kernel
from benchmarks.reliability.soaking.kernels import shift_and_scale
from benchmarks.reliability.soaking.work import BATCH, IN_GRAPH, Worker
from tests.native.cupti_programs import (
    BEGIN_CAPTURE,
    END_CAPTURE,
    HTOD_ASYNC,
    LAUNCH,
    WAIT_EVENT,
    Fake,
    build_fake,
)
from tileprof.profiler.session import recording

__all__ = ["FLUSH_S", "PlayedWorker", "play"]

HURRY = 10
FLUSH_S = 10.0 / HURRY
"""`flush_interval` of the recording."""
MANY = 2 * BATCH
"""Launches of one kind in a row, for which the interpreter is not asked."""
_FIRST_STREAM = 7
_KERNELS = (C.c_char_p(b"neg_kernel"), C.c_char_p(b"neg_in_graph"))

_played: Fake | None = None
_launch_marked: Callable[[], None] | None = None


def play() -> None:
    """Have the next recording use the played library."""
    global _played, _launch_marked
    from tileprof.native import _recorder

    library = build_fake()
    os.environ["TILEPROF_CUPTI"] = str(library)
    _played = Fake(library, _recorder)
    recording.HANDOVER_S /= HURRY
    _launch_marked = played_kernel()


class PlayedWorker(Worker):
    """A worker whose launches are calls of the played library."""

    def __init__(self, number: int, device: str) -> None:
        assert _played is not None
        self._c: Any = _played.c
        self._stream_number = _FIRST_STREAM + 2 * number
        super().__init__(number, "cpu")
        self.device = device
        self._node = 100 * (number + 1)
        self._capture()
        self.jobs |= {"graph": self._graph, "stream": self._stream, "copies": self._copies}
        self.jobs["inside"] = self._inside

    def _capture(self) -> None:
        assert _played is not None
        _played.call(BEGIN_CAPTURE)
        for node in range(IN_GRAPH):
            _played.capture(self._node + node)
        _played.call(END_CAPTURE)

    def _launch(self, count: int, number: int = LAUNCH, second: bool = False) -> None:
        stream = self._stream_number + second
        self._c.fake_soak(_KERNELS[0], number, stream, count)

    def _torch(self) -> int:
        for _ in range(BATCH):
            torch.neg(self.x, out=self.y)
            self._launch(1)
        return BATCH

    def _ours(self) -> int:
        shift_and_scale(self.x, self.y)
        return 1

    def _inside(self) -> int:
        assert _launch_marked is not None
        for _ in range(BATCH):
            _launch_marked()
        return BATCH

    def _graph(self) -> int:
        node = C.c_uint64(self._node)
        for _ in range(BATCH // 4):
            self._c.fake_soak_graph(_KERNELS[1], node, self._stream_number, IN_GRAPH)
        return BATCH // 4 * IN_GRAPH

    def _stream(self) -> int:
        self._launch(MANY, second=True)
        self._c.fake_call(WAIT_EVENT)
        return MANY

    def _copies(self) -> int:
        self._launch(BATCH, HTOD_ASYNC)
        return BATCH
