"""Samples and counts of instructions as they were read from devices, with nothing looked up yet.

The native recorder counts; `sampling` reads its counts into this; `attribution` finds the
instruction, the source line and the place in the tree of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Mode = Literal["continuous", "exact"]
"""Kernels run as ever, or one after the other so that each sample knows its launch."""


@dataclass(frozen=True, slots=True, eq=False)
class RawPcSamples:
    """Counts by instruction and stall reason; the columns have one entry for each."""

    function: npt.NDArray[np.uint32]
    """Index into `functions`."""
    offset: npt.NDArray[np.uint32]
    """Bytes from the function's begin to the instruction."""
    stall: npt.NDArray[np.uint16]
    """Index into `stalls`."""
    context: npt.NDArray[np.uint32]
    """The recorder's number of the call path; 0 where it is not known, as in continuous mode."""
    samples: npt.NDArray[np.uint64]
    functions: tuple[tuple[int, str], ...]
    """Module and name (as the compiler wrote it) of each function."""
    modules: Mapping[int, bytes]
    """Cubins by module; a module that was loaded before the recording has none."""
    stalls: tuple[str, ...]
    """The device's own names; those that end in `_not_issued` count a part of their namesakes."""
    period: int
    """Cycles between two samples of a multiprocessor."""
    mode: Mode
    total: int
    """Number of samples of the device, including those of no instruction."""
    dropped: int
    non_user: int
    """Number of samples without an instruction."""
    overflows: int
    """Number of times that the device's buffer was full; samples after that are lost."""


@dataclass(frozen=True, slots=True, eq=False)
class RawCounts:
    """Counts of instructions; the columns have one entry for each number."""

    function: npt.NDArray[np.int64]
    """Index into `functions`."""
    offset: npt.NDArray[np.int64]
    """Bytes from the function's begin to the instruction."""
    metric: npt.NDArray[np.int64]
    """Index into `metrics`."""
    count: npt.NDArray[np.int64]
    functions: tuple[tuple[int, str], ...]
    """Module and name (as the compiler wrote it) of each function."""
    modules: Mapping[int, bytes]
    """Cubins by module; a module that was loaded before the recording has none."""
    metrics: tuple[str, ...]
    """Names of metrics in a profile."""
