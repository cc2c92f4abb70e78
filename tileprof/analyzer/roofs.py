"""What a kernel's work takes at its device's roofs.

In: bytes and flops that its launches ask for, its program, what its device was measured to do.
Out: the least times of its work, ns, by roof; how many times as fast it can be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.numbers.kernels import MEMORY_USE_COPY
from tileprof.analyzer.numbers.shared import HALFWAY, L2_KEEPS
from tileprof.analyzer.tiles import work
from tileprof.analyzer.tiles.contractions import contractions
from tileprof.analyzer.tiles.launches.needless_writes import needless_bytes
from tileprof.analyzer.tiles.padding import products_inside
from tileprof.analyzer.tiles.walks import walk_of
from tileprof.kernel_ir import TileKernel
from tileprof.once import cached_property
from tileprof.profile import DevicePeak

_WIDEST_PRODUCTS = ("tensor_bfloat16", "tensor_float16", "tensor_tf32")
"""Roofs of products of types that programs which compute with floats use without scales."""

_AS_FAST = {"int8": "float8_e4m3"}
"""Types that tensor cores multiply as fast as another one, whose roof is measured."""


@dataclass(frozen=True, eq=False)
class Roofs:
    """Of all launches of a kernel."""

    peaks: Mapping[str, DevicePeak]
    """What its device was measured to do at most, by name."""
    tiles: TileKernel
    """Nothing where it is not a tile kernel."""
    time: float
    """What its device worked on it, ns."""
    launches: int
    bytes: float
    """What it asks for; 0 where nobody says."""
    flops: float
    issued: str = ""
    """The element type of products in its machine code, by the name of its roof; nothing where it
    has none, or the code is not known."""
    written: float = 0.0
    """Share of writes in the bytes that it moves, 0 to 1."""
    optional: float = 0.0
    """Bytes of its tensors that what is in memory may leave unread, of all launches."""

    @cached_property
    def matrix_dtype(self) -> str:
        """The element type of its matrix products, or nothing."""
        return work.matrix_dtype(self.tiles)

    @cached_property
    def needed_bytes(self) -> float:
        """What all launches have to move at most if each byte is moved once; 0 where not known.

        What a program asks for counts an element as often as blocks read it, so where the tensors
        are smaller, they count.
        """
        tensors = work.tensor_bytes(self.tiles)
        tensors = max(0.0, tensors - needless_bytes(self.tiles)) if tensors else 0.0
        known = [each for each in (self.bytes, tensors * self.launches) if each]
        return min(known, default=0.0)

    @cached_property
    def needed_flops(self) -> float:
        """What all launches have to compute: without products of what is outside of tensors."""
        walk = walk_of(self.tiles)
        inside = products_inside(self.tiles)
        return self.flops * (min(inside, 1 - walk.outside) if walk else inside)

    @cached_property
    def memory_peak(self) -> DevicePeak | None:
        """The best that its memory was seen to give, for whichever mix of reads and writes."""
        held = [peak for name, peak in self.peaks.items() if name in ("hbm_copy", "hbm_read")]
        return max(held, key=lambda peak: peak.value, default=None)

    @cached_property
    def floors(self) -> Mapping[str, float]:
        """By roof, the least time in ns that all its work takes there.

        One that is longer than the time that was measured is none: not all of the work was done.
        """
        memory = self.peaks.get("l2_read") if self.resides else self.memory_peak
        arithmetic = self.arithmetic_peak if self.tiles.nested else self._highest_peak
        works = ((memory, self.needed_bytes), (arithmetic, self.needed_flops))
        found = {roof.name: done / roof.value * 1e9 for roof, done in works if roof and done}
        held = {name: floor for name, floor in found.items() if floor <= self.time}
        own, best = self.arithmetic_peak, self._by_hand_peak
        if own is not None and best is not None and own.name in held:
            held[best.name] = held.pop(own.name) * own.value / best.value
        return held

    @cached_property
    def _highest_peak(self) -> DevicePeak | None:
        """The roof of whichever arithmetic is the fastest: a kernel that no program is known of may
        have products in any type, and come to do them on tensor cores."""
        names = {*_WIDEST_PRODUCTS, f"tensor_{_AS_FAST.get(self.issued, self.issued)}"}
        rates = [each for name, each in self.peaks.items() if name in names]
        return max(rates, key=lambda each: each.value, default=self.arithmetic_peak)

    @cached_property
    def _by_hand_peak(self) -> DevicePeak | None:
        """The roof at which tensor cores would do, as exactly, products that it writes as loops,
        where these are most of its arithmetic."""
        if self.matrix_dtype:
            return None
        known = (each for each in contractions(self.tiles) if math.isfinite(each.flops))
        found = max(known, key=lambda each: each.flops, default=None)
        if found is None or found.dtype == "tf32":
            return None
        most = found.flops * self.launches >= HALFWAY * self.flops
        return self.peaks.get(f"tensor_{found.dtype}") if most else None

    @cached_property
    def arithmetic_peak(self) -> DevicePeak | None:
        """The roof of its matrix products, or of sums and products without any."""
        dtype = self.matrix_dtype
        names = (f"tensor_{dtype}", "tensor_tf32") if dtype else ("fma_float32",)
        return next((self.peaks[name] for name in names if name in self.peaks), None)

    @cached_property
    def resides(self) -> bool:
        """Whether what a launch has to move may still be in the L2."""
        return bool(self.launches) and self.needed_bytes / self.launches < L2_KEEPS

    @cached_property
    def tensor_floor(self) -> float:
        """The time in ns that its matrix products take at their roof; 0 where there are none."""
        peak = self.arithmetic_peak if self.matrix_dtype else None
        return self.needed_flops / peak.value * 1e9 if peak else 0.0

    @cached_property
    def copy_floor(self) -> float:
        """The time in ns that its bytes take where reads and writes are as mixed as its own; 0
        where bytes or roofs are not known."""
        best = self.peaks.get("l2_read") if self.resides else self.memory_peak
        rate = best.value if best else 0.0
        if not self.resides:
            mix = min(self.written, MEMORY_USE_COPY) if self.written < 1 else self.written
            rate = self.mixed_rate(mix) or rate
        return self.needed_bytes / rate * 1e9 if rate else 0.0

    def mixed_rate(self, written: float) -> float:
        """What memory gives, bytes/s, where this share of the bytes is written; 0 if not known.

        It gives less to a mix than to reads, or writes, alone: between the three that were measured
        by the share of writes.
        """
        held = [self.peaks.get(f"hbm_{name}") for name in ("read", "copy", "write")]
        known = [each.value for each in held if each is not None]
        return float(np.interp(written, (0.0, 0.5, 1.0), known)) if len(known) == len(held) else 0.0

    @cached_property
    def most_gain(self) -> float:
        """How many times as fast it can be at most by measured roofs; inf where none is known.

        Of tensors that data may leave a part of unread, half is taken to be needed.
        """
        needless = HALFWAY * self.optional
        part = 1 - min(needless / self.needed_bytes, 1.0) if needless and self.needed_bytes else 1.0
        floor = part * max(self.floors.values(), default=0.0)
        return self.time / floor if floor else float("inf")
