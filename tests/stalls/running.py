"""Launches of the kernels with known stalls on a GPU, sampled, and what the samples say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.stalls.kernels import Stalled, cubin, stalled
from tileprof.profile import PcFunction, PcSamples

torch: Any = pytest.importorskip("torch")

INPUTS = (1 << 26) + 8192
"""Floats of the input: kernels read within the first 2²⁶, some a bit further."""
AIMED_MS = 4.0
"""Of a launch."""


@dataclass(frozen=True)
class Seen:
    """The samples of one kernel."""

    kernel: Stalled
    samples: int
    on_lines: int
    """Of these, on an instruction with a source line."""
    stalls: Counter[str] = field(repr=False)
    """By reason, of the whole kernel."""
    hottest: str
    """The instruction with most samples; its reasons, its line, and what it waits for."""
    reasons: Counter[str]
    line: int
    waits_for: tuple[str, ...]
    by_line: Counter[int] = field(repr=False)


class Kernels:
    """The kernels, loaded; `launch` is for one of them."""

    def __init__(self, image: bytes | None = None) -> None:
        from cuda.bindings import driver

        self._image = image or cubin()
        self._driver = driver
        self._in = torch.zeros(INPUTS, device="cuda")
        self._out = torch.zeros(1 << 24, device="cuda")
        self.load()

    def load(self) -> None:
        """Load them anew: CUPTI hands over the code of what is loaded while it samples."""
        load = self._driver.cuLibraryLoadData
        self._library = self._call(load(self._image, [], [], 0, [], [], 0))

    @staticmethod
    def _call(answer: Any) -> Any:
        error, *values = answer
        if int(error):
            raise RuntimeError(str(error))
        return values[0] if values else None

    def launch(self, kernel: Stalled, turns: int) -> None:
        """As many blocks as the device holds at once."""
        function = self._call(self._driver.cuLibraryGetKernel(self._library, kernel.name.encode()))
        blocks = 132 * max(1, min(8, 2048 // kernel.threads))
        values: list[np.ndarray[Any, Any]] = [
            np.array([self._out.data_ptr()], np.uint64),
            np.array([self._in.data_ptr()], np.uint64),
            np.array([turns], np.int32),
        ]
        places = np.array([each.ctypes.data for each in values], np.uint64)
        stream = torch.cuda.current_stream().cuda_stream
        shape = (blocks, 1, 1, kernel.threads, 1, 1)
        launched = self._driver.CUfunction(int(function))
        self._call(self._driver.cuLaunchKernel(launched, *shape, 0, stream, places.ctypes.data, 0))

    @staticmethod
    def _event() -> Any:
        return torch.cuda.Event(enable_timing=True)  # PyTorch's own

    def turns(self, kernel: Stalled) -> int:
        """So that a launch takes `AIMED_MS`."""
        few = 64
        while True:
            begin, end = (self._event() for _ in range(2))
            self.launch(kernel, few)
            begin.record()
            self.launch(kernel, few)
            end.record()
            torch.cuda.synchronize()
            took = float(begin.elapsed_time(end))
            if took > AIMED_MS / 4:
                return max(1, round(few * AIMED_MS / took))
            few *= 4


@contextmanager
def sampled(**options: Any) -> Iterator[Any]:
    """A profile with samples of program counters; the device is idle at its end."""
    chosen = {"pc_sampling": True} | options
    with tileprof.profile(context="scopes", **chosen) as session:
        yield session
        torch.cuda.synchronize()


def seen(launches: int = 10, **options: Any) -> dict[str, Seen]:
    """Samples of some launches of every kernel."""
    kernels = Kernels()
    turns = {kernel: kernels.turns(kernel) for kernel in stalled().values()}
    with sampled(**options) as session:
        kernels.load()
        for kernel, count in turns.items():
            for _ in range(launches):
                kernels.launch(kernel, count)
    samples = session.profile.tables.pc
    found = {each.name: at for at, each in enumerate(samples.functions)}
    return {
        kernel.name: summary(kernel, samples, found[kernel.name])
        for kernel in turns
        if kernel.name in found
    }


def summary(kernel: Stalled, samples: PcSamples, at: int) -> Seen:
    """What the samples of a function say."""
    function: PcFunction = samples.functions[at]
    code = {each.offset: each for each in function.code}
    own = samples.rows.function == at
    stalls: Counter[str] = Counter()
    places: dict[int, Counter[str]] = {}
    for offset, stall, count in zip(
        samples.rows.offset[own], samples.rows.stall[own], samples.counted[own]
    ):
        if count:
            name = samples.stalls[stall]
            stalls[name] += int(count)
            places.setdefault(int(offset), Counter())[name] += int(count)
    by_line: Counter[int] = Counter()
    for offset, reasons in places.items():
        place = code[offset].place if offset in code else None
        by_line[place.line if place else 0] += reasons.total()
    hottest = max(places, key=lambda offset: places[offset].total())
    waits = [code[b.producer].text for b in function.blames if b.offset == hottest]
    held = code.get(hottest)
    return Seen(
        kernel,
        stalls.total(),
        stalls.total() - by_line[0],
        stalls,
        held.text if held else "",
        places[hottest],
        held.place.line if held and held.place else 0,
        tuple(dict.fromkeys(waits)),
        by_line,
    )
