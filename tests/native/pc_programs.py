"""Samples of program counters on the played CUPTI, and what the recorder counted."""

from __future__ import annotations

import ctypes as C
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.native.cupti_programs import LAUNCH, Fake
from tests.native.kept_samples import Kept
from tileprof.profiler.pcs.options import PcOptions
from tileprof.profiler.pcs.raw import RawPcSamples
from tileprof.profiler.pcs.sampling import PcSampling

SELECTED, WAIT, WAIT_LATENCY, ARRIVE, ARRIVE_LATENCY, SCOREBOARD = range(6)
"""Stall reasons of the played device, by their place in its list."""
CONTEXT = 0x1000
DRAIN_MS = 5

PREFIX = "smsp__pcsamp_warps_issue_stalled_"

Row = tuple[str, int, str, int]
"""Function, offset, stall reason without the common beginning, number of the calling context."""


@dataclass(frozen=True)
class Counted:
    """What the recorder handed over."""

    rows: Counter[Row]
    drained: dict[str, Any]

    def samples(self) -> dict[tuple[str, int, str], int]:
        """The rows without contexts."""
        merged: Counter[tuple[str, int, str]] = Counter()
        for (function, offset, stall, _), samples in self.rows.items():
            merged[function, offset, stall] += samples
        return dict(merged)


class Sampling:
    """The played library with sampling of program counters; one context unless told otherwise."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self.recorder = fake.recorder
        self.given: Counter[tuple[str, int, int]] = Counter()
        """Samples that were taken by function, offset and place of the stall reason."""
        for name in ("load", "calls_of", "misuses", "names", "attribute", "reads_left"):
            getattr(fake.c, f"fake_{name}").restype = C.c_uint64

    def configure(self, log2_period: int = 12, **options: Any) -> None:
        """Say what is wanted; reads are frequent."""
        self.recorder.pc_configure(log2_period, **{"drain_ms": DRAIN_MS, **options})

    def start(self, **options: Any) -> None:
        """Begin a recording that samples."""
        self.configure(**options)
        assert self.fake.start() == (0, "")

    def load(self, cubin: bytes) -> int:
        """Load a module; what its samples name it by."""
        return int(self.fake.c.fake_load(cubin, C.c_size_t(len(cubin))))

    def launch(self, context: int = CONTEXT) -> int:
        """Launch a kernel in a context; the correlation number."""
        self.fake.c.fake_current(C.c_uint64(context))
        return self.fake.kernel(correlation=self.fake.call(LAUNCH))

    def sample(self, function: str = "f", offset: int = 0, reasons: Iterable[int] = (WAIT,),
               samples: int = 1, module: int = 0xABCDEF, correlation: int = 7,
               context: int = CONTEXT, late: bool = False) -> None:  # fmt: skip
        """Take samples of an instruction, if the context is sampled."""
        if not self.state(context) & 2:
            return
        mask = 0
        for reason in reasons:
            mask |= 1 << reason
            self.given[function, offset, reason] += samples
        number = sum(function.encode())
        self.fake.c.fake_sample(
            C.c_uint64(context), C.c_uint64(module), number, function.encode(),
            C.c_uint64(offset), mask, samples, correlation, late,
        )  # fmt: skip

    def finish(self) -> None:
        """End the recording."""
        assert self.recorder.gpu_pause() == (0, "")
        assert self.recorder.gpu_flush(True) == (0, "")

    @contextmanager
    def ended(self) -> Iterator[Sampling]:
        """Sampling that is over at the end, without a call in a wrong order."""
        yield self
        if self.recorder.gpu_started():
            self.recorder.gpu_stop(5)
        self.recorder.pc_configure(0)
        self.fake.c.fake_current(0)
        assert self.fake.c.fake_misuses() == 0

    def replay(self, kept: Kept, **options: Any) -> RawPcSamples:
        """Record what was kept on a device; what the recording hands over."""
        wanted = PcSampling(self.recorder)
        wanted.want(PcOptions(int(kept.facts["period"]).bit_length() - 1, 0, False))
        self.start(**options)
        raw = kept.raw()
        self.fake.c.fake_replay(raw, C.c_size_t(len(raw)))
        self.launch()
        until = time.monotonic() + 20
        while self.fake.c.fake_reads_left():
            assert time.monotonic() < until, "nobody reads"
            time.sleep(0.001)
        self.finish()
        samples = wanted.samples()
        assert samples is not None
        return samples

    def lose(self, non_user: int = 0, dropped: int = 0, context: int = CONTEXT) -> None:
        """Take samples of kernels that are not told, or drop some."""
        self.fake.c.fake_lose(C.c_uint64(context), C.c_uint64(non_user), C.c_uint64(dropped))

    def overflow(self, context: int = CONTEXT) -> None:
        """Fill the device's buffer."""
        self.fake.c.fake_overflow(C.c_uint64(context))

    def context_ends(self, context: int = CONTEXT) -> None:
        """Destroy a context."""
        self.fake.c.fake_context_ends(C.c_uint64(context))

    def state(self, context: int = CONTEXT) -> int:
        """1: sampling is enabled in a context, 2: started."""
        return int(self.fake.c.fake_sampled(C.c_uint64(context)))

    def attribute(self, number: int, context: int = CONTEXT) -> int:
        """What was configured."""
        return int(self.fake.c.fake_attribute(C.c_uint64(context), number))

    def calls_of(self, name: str) -> int:
        """How often a function was called."""
        return int(self.fake.c.fake_calls_of(name.encode()))

    def wait_for_reads(self, more: int = 2) -> None:
        """Let the recorder's thread read."""
        until, seen = time.monotonic() + 5, self.calls_of("data")
        while self.calls_of("data") < seen + more:
            assert time.monotonic() < until, "nobody reads"
            time.sleep(0.001)

    def counted(self) -> Counted:
        """What was counted until now."""
        drained = self.recorder.pc_drain()
        rows: Counter[Row] = Counter()
        names = ("function", "offset", "stall", "context", "samples")
        for function, offset, stall, context, samples in zip(*(drained[n].tolist() for n in names)):
            reason = drained["stalls"][stall].removeprefix(PREFIX)
            rows[drained["functions"][function][1], offset, reason, context] += samples
        return Counted(rows, drained)

    def expected(self) -> dict[tuple[str, int, str], int]:
        """What was given, in the words of `Counted.samples`."""
        names = ("selected", "wait", "wait_not_issued", "warpgroup_arrive",
                 "warpgroup_arrive_not_issued", "long_scoreboard")  # fmt: skip
        return {(f, offset, names[reason]): n for (f, offset, reason), n in self.given.items()}

    def total(self) -> int:
        """Samples that were given, parts of others not counted twice."""
        latency = (WAIT_LATENCY, ARRIVE_LATENCY)
        return sum(n for (_, _, reason), n in self.given.items() if reason not in latency)
