"""The one place where kernel launches can be listened to.

The runtime looks at `listener` at each launch and knows nothing about who sits there; the profiler
takes the seat while a session is active. With nobody listening a launch pays for one `is None`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from tileprof.errors import Location
from tileprof.kernel_ir import TileKernel
from tileprof.remarks import Remark

from .record_options import RecordOptions

if TYPE_CHECKING:
    from tileprof.instrument import SiteTimes
    from tileprof.instrument.decode.excerpts import Excerpt
    from tileprof.instrument.decode.samples import SampleTotals

Instrument = Literal["off", "scopes", "stages", "ops", "sample"]
"""What is measured inside a kernel: nothing, the author's scopes, also stages, also every op; or
where it is seen by a sampler."""


@dataclass(frozen=True, slots=True)
class SiteDescription:
    """One measured place inside a kernel."""

    id: int
    name: str
    kind: Literal["scope", "stage", "op"]
    location: Location | None = None
    parent: int | None = None
    """`id` of the site around this one."""


@dataclass(frozen=True, slots=True)
class KernelDescription:
    """One compiled variant of a kernel, as a profile keeps it."""

    name: str
    device: str
    ir: str = ""
    source: str = ""
    source_file: str = ""
    source_line: int = 0
    code: str = ""
    code_language: str = "python"
    """`cpp`, `cuda` or `python`."""
    remarks: tuple[Remark, ...] = ()
    sites: tuple[SiteDescription, ...] = ()
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    program: TileKernel | None = None
    """What `ir` is the text of."""
    later: Callable[[], LateDescription] | None = None
    """Gives what is known of it only after launches; asked whenever a profile is made."""


@dataclass(frozen=True, slots=True)
class LateDescription:
    """What came to be known of a variant since it was described."""

    remarks: tuple[Remark, ...] = ()
    sites: tuple[SiteDescription, ...] = ()
    """In addition to those of the description."""
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)


class LaunchedKernel(Protocol):
    """One compiled variant of a kernel, on its way to a device."""

    @property
    def key(self) -> Hashable:
        """What tells variants apart; hashed at each launch, so it should hash fast."""

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def location(self) -> Location | None:
        """Where its function is defined."""

    def info(self) -> KernelDescription:
        """Everything that is known about the variant; asked for once, at its first launch."""


@dataclass(slots=True)  # not frozen: that costs 0.8 µs more, at each launch
class Launch:
    """What one launch did; handed to `end` once it is over."""

    kernel: LaunchedKernel
    device: str
    grid: tuple[int, ...]
    blocks: int
    time_ns: int
    """Time of the work on its device; -1 where the launch did not wait for it."""
    wall_ns: int
    """Host wall time of the call between `begin` and `end`."""
    flops: int = 0
    bytes: int = 0
    guarded: int = 0
    """Elements outside their tensor that were read as 0 or not written."""
    sites: SiteTimes | None = None
    samples: SampleTotals | None = None
    """Where a sampler saw its workers, if it did while the launch ran."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What launches under one token wrote about their inside; numbers add up."""

    sites: SiteTimes | None = None
    launches: int = 0
    """Those whose records were read; replays of a graph, whose number is not known, are none."""
    warps: int = 0
    """Those whose records were read."""
    skipped: int = 0
    """Launches that wrote no records, because the device's memory for them had no room left."""
    unread: int = 0
    """Launches whose records could not be read any more."""
    samples: SampleTotals | None = None
    """Where samplers saw their warps."""
    excerpt: Excerpt | None = None
    """What some blocks of one of the launches did when."""


class LateListener(Protocol):
    """Who takes what is known only after a launch is over; one for a period of recording."""

    @property
    def closed(self) -> bool:
        """Whether nobody will ask for what still comes."""

    def measured(self, token: int, measured: Measured, *, replayed: bool) -> None:
        """Add to the kernel of a token; `replayed`: also of launches long after the token's."""

    def lost(self, what: str, count: int = 0) -> None:
        """Note that so many of something were lost, which belong to no kernel that is known; 0: the
        words say all."""


class LaunchListener(Protocol):
    """Who wants to know about launches."""

    @property
    def late(self) -> LateListener:
        """Who takes what of these launches is known only later; the same object for a period."""

    @property
    def instrument(self) -> Instrument:
        """Which variant of a kernel should be launched."""

    @property
    def times_gpus(self) -> bool:
        """Whether it hears by itself how long work on a GPU takes; launches then do not wait."""

    def begin(self, kernel: LaunchedKernel) -> int:
        """Take the host call path, right before the launch; return a token for `end`."""

    def end(self, token: int, launch: Launch) -> None:
        """Record a launch that is over."""

    def abandon(self, token: int) -> None:
        """Forget a launch that failed."""


listener: LaunchListener | None = None
"""Who listens now; set by the profiler, read at each launch."""

clock: Callable[[], int] = time.perf_counter_ns
"""Gives ns; set with the listener, so that one clock times a whole profile (that of a test too)."""

sample_period_ns: int = 0
"""Mean time between two looks of a sampler; set with the listener, 0 where it is to be chosen."""

record_options = RecordOptions()
"""What of launches on GPUs is recorded; set with the listener."""


class Collector(Protocol):
    """Who holds what launches have written and nobody has read."""

    def collect(self, final: bool) -> None:
        """Read it and tell the late listeners; `final`: of all launches, waiting for them."""


collectors: list[Collector] = []
"""Asked by the profiler before it makes a profile."""

own_threads: set[int] = set()
"""Threads that work for the measurement; what they do is no part of the program."""

set_unrecorded: Callable[[bool], None] | None = None
"""Has the calling thread's work on GPUs recorded no more, or again; set by the profiler."""


def collect(final: bool) -> None:
    """Have everybody who holds records read them."""
    for each in collectors[:]:
        each.collect(final)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Work on GPUs within, of the calling thread, is the measurement's own."""
    told = set_unrecorded
    if told is not None:
        told(True)
    try:
        yield
    finally:
        if told is not None:
            told(False)
