"""A kernel compiled by the system's C++ compiler, ready to run on this machine's processors.

The library has one function, `int tileprof_kernel(const uint64_t *words, TpRun *run)`.  `words` has
8 bytes for each argument of the kernel's body: the address of a tensor's first element, the bits of
a scalar in the low bytes, the value of a symbol.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.compiler.build import load
from tileprof.compiler.codegen import ENTRY, CppSource
from tileprof.instrument import SiteTimes
from tileprof.instrument import records as layout
from tileprof.instrument.decode.decoding import decode
from tileprof.instrument.decode.samples import Counts, SampleTotals
from tileprof.runtime import hooks
from tileprof.runtime.arguments import address, check_writable, word_of
from tileprof.runtime.cpu import pool as cpu_pool
from tileprof.runtime.cpu.abi import Run
from tileprof.runtime.cpu.report import raise_failure, show_printed
from tileprof.runtime.device import RunResult, taken, written_params

_FIRST_CAPACITY = 1 << 18
_MOST_CAPACITY = 1 << 22
"""Records a worker's buffer has room for (4 MiB and 64 MiB)."""
_WORD = (1 << 64) - 1


class CpuExecutable:
    """One compiled kernel.

    Building it compiles, or takes the library from the cache: BuildError, MissingDependencyError.
    """

    def __init__(self, kernel: ir.Kernel, source: CppSource) -> None:
        self.kernel = kernel
        self.source = source
        compiler = cpu_pool.compiler()
        self.library, self._held = load(source.text, source.headers, compiler, name=source.name)
        self._entry = ctypes.cast(getattr(self._held, ENTRY), ctypes.c_void_p).value
        pool = cpu_pool.load_pool()
        self._pool_run, self._pool_free = pool.tp_pool_run, pool.tp_pool_free
        self._words = [_packer(p.type) for p in kernel.params]
        self._pack = struct.Struct(f"={len(kernel.params) + len(kernel.symbols)}Q").pack
        self._written = written_params(kernel)
        self._grids = ctypes.c_int64 * (3 * max(source.launches, 1))
        self._axes = next((len(each.grid) for each in kernel.launches()), 0)
        self._capacity = _FIRST_CAPACITY
        self._free: list[list[layout.Bytes]] = []

    def run(self, values: Sequence[Any], symbols: Sequence[int]) -> RunResult:
        """Run to the end; see `Executable.run`.

        BoundsError and DeviceAssertError where the kernel stopped: the lowest block that failed is
        named; what was written until then stays written.
        """
        check_writable(self.kernel, self._written, values)
        words = self._pack(
            *[pack(value) for pack, value in zip(self._words, values)],
            *[s & _WORD for s in symbols],
        )
        grids = self._grids()
        run = Run(workers=cpu_pool.threads(), grids=ctypes.addressof(grids))
        if self.source.measured:
            return self._measured(words, run, grids, symbols)
        if self.source.states:
            return self._sampled(words, run, grids, symbols)
        self._call(words, run, grids, symbols)
        return RunResult(run.time_ns, tuple(grids[: self._axes]), run.blocks)

    def _call(self, words: bytes, run: Run, grids: Any, symbols: Sequence[int]) -> None:
        if not self._pool_run(self._entry, words, ctypes.addressof(run)):
            return
        try:
            show_printed(run, self.kernel, self.source, list(grids), symbols)
        finally:
            self._pool_free(run.printed)
        if run.failure.place >= 0:
            raise_failure(run.failure, self.kernel, self.source, list(grids), symbols)

    # -- measurement

    def _sampled(self, words: bytes, run: Run, grids: Any, symbols: Sequence[int]) -> RunResult:
        seen = Seen(self.source, run.workers)
        seen.give_to(run)
        self._call(words, run, grids, symbols)
        held = tuple(grids[: self._axes])
        return RunResult(run.time_ns, held, run.blocks, samples=seen.totals(run.looks))

    def _measured(self, words: bytes, run: Run, grids: Any, symbols: Sequence[int]) -> RunResult:
        buffers = self._buffers(run.workers)
        pointers = (ctypes.c_void_p * len(buffers))(*[b.ctypes.data for b in buffers])
        run.records = ctypes.addressof(pointers)
        self._call(words, run, grids, symbols)
        sites: SiteTimes = decode(buffers, block_ns=run.block_ns)
        if sites.lost:
            # The next launch of this kernel is likely to write as much.
            self._capacity = min(self._capacity * 4, _MOST_CAPACITY)
        else:
            self._free.append(buffers)
        return RunResult(run.time_ns, tuple(grids[: self._axes]), run.blocks, sites=sites)

    def _buffers(self, workers: int) -> list[layout.Bytes]:
        """Empty record buffers, one a worker; those of an earlier launch where they fit."""
        while (held := taken(self._free)) is not None:
            if len(held) >= workers:
                for buffer in held:
                    header = buffer[: layout.HEADER.itemsize].view(layout.HEADER)
                    header["written"] = header["lost"] = 0
                return held
        return [layout.allocate(self._capacity, worker=n) for n in range(workers)]


def _packer(type_: ir.BufferType | ir.DType) -> Callable[[Any], int]:
    """Return a function from an argument to its word."""
    return address if isinstance(type_, ir.BufferType) else word_of(type_)


SHORTEST_NS = 20_000
"""Shortest period that may be asked for: a thread takes as long to wake up."""
_LINE = 8
"""64-bit words that nobody else writes to."""
_IDLE = 0xFFFFFFFF


class Seen:
    """The counts of one launch."""

    def __init__(self, source: CppSource, workers: int) -> None:
        self._source = source
        states = len(source.states)
        row = _LINE + -(-states // _LINE) * _LINE
        held = np.zeros(workers * row + _LINE, np.uint64)
        begin = -held.ctypes.data // 8 % _LINE
        self._rows: NDArray[np.uint64] = held[begin : begin + workers * row].reshape(workers, row)
        self._rows[:, 0] = _IDLE

    def give_to(self, run: Run) -> None:
        """Have a run looked at."""
        run.samples = self._rows.ctypes.data
        run.sample_bytes = self._rows.strides[0]
        run.states = len(self._source.states)
        asked = hooks.sample_period_ns
        run.period_ns = max(asked, SHORTEST_NS) if asked else 0

    def totals(self, looks: int) -> SampleTotals | None:
        """Return the totals of so many samples; None where there were none."""
        if not looks:
            return None
        states = self._source.states
        seen = self._rows[:, _LINE : _LINE + len(states)].astype(np.int64)
        return SampleTotals.of(Counts(looks, seen), self._source.sites, states, len(seen))
