"""The one place where kernel launches can be listened to.

The runtime looks at `listener` at each launch and knows nothing about who sits there; the profiler
takes the seat while a session is active. With nobody listening a launch pays for one `is None`.
"""

from __future__ import annotations

import os
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
"""Detail that is measured inside a kernel: nothing, the author's scopes, stages too, every op too;
or samples of where its warps are."""


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
    """The program of `ir` as records."""
    later: Callable[[], LateDescription] | None = None
    """Returns facts that are known only after launches; called whenever a profile is made."""


@dataclass(frozen=True, slots=True)
class LateDescription:
    """Facts about a variant that became known after it was described."""

    remarks: tuple[Remark, ...] = ()
    sites: tuple[SiteDescription, ...] = ()
    """Further sites, besides those of the description."""
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)


class LaunchedKernel(Protocol):
    """One compiled variant of a kernel, on its way to a device."""

    @property
    def key(self) -> Hashable:
        """Identity of the variant; hashed at each launch, so it should hash fast."""

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def location(self) -> Location | None:
        """Place where its function is defined."""

    def info(self) -> KernelDescription:
        """Everything that is known about the variant; asked for once, at its first launch."""


@dataclass(slots=True)  # not frozen: that costs 0.8 µs more, at each launch
class Launch:
    """Result of one launch; handed to `end` once it is over."""

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
    """Samples of its workers, if a sampler ran meanwhile."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements from inside the launches of one token; numbers add up."""

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
    """Samples of their warps."""
    excerpt: Excerpt | None = None
    """Timeline of some blocks of one of the launches."""


class LateListener(Protocol):
    """Receiver of measurements that arrive after their launch; one for a period of recording."""

    @property
    def closed(self) -> bool:
        """Whether further measurements are ignored."""

    def measured(self, token: int, measured: Measured, *, replayed: bool) -> None:
        """Add to the kernel of a token; `replayed`: also of launches long after the token's."""

    def lost(self, what: str, count: int = 0) -> None:
        """Note a loss that belongs to no known kernel; `count` 0: `what` is the whole sentence."""


class LaunchListener(Protocol):
    """Receiver of launches."""

    @property
    def late(self) -> LateListener:
        """Receiver of later measurements of these launches; one object for a period."""

    @property
    def instrument(self) -> Instrument:
        """Variant of a kernel that should be launched."""

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
"""The current listener; set by the profiler, read at each launch."""

clock: Callable[[], int] = time.perf_counter_ns
"""Gives ns; set with the listener, so that one clock times a whole profile (that of a test too)."""

sample_period_ns: int = 0
"""Mean time between two samples; set with the listener, 0 where it is to be chosen."""

record_options = RecordOptions()
"""Choice of the blocks and records of GPU launches; set with the listener."""


class Collector(Protocol):
    """Holder of records that launches have written and nobody has read."""

    def collect(self, final: bool) -> None:
        """Read them and notify the late listeners; `final`: of all launches, waiting for them."""


collectors: list[Collector] = []
"""Collectors that the profiler calls before it makes a profile."""

own_threads: set[int] = set()
"""Threads that work for the measurement; what they do is no part of the program."""

if hasattr(os, "register_at_fork"):
    # Here, so that those which a child starts after its fork are not forgotten.
    os.register_at_fork(after_in_child=own_threads.clear)

set_unrecorded: Callable[[bool], None] | None = None
"""Stops or resumes recording of the calling thread's work on GPUs; set by the profiler."""


def collect(final: bool) -> None:
    """Have everybody who holds records read them."""
    for each in collectors[:]:
        each.collect(final)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Leave the calling thread's work on GPUs unrecorded: it is the measurement's own."""
    switch = set_unrecorded
    if switch is not None:
        switch(True)
    try:
        yield
    finally:
        if switch is not None:
            switch(False)
