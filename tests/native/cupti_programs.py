"""Driver calls and records of a CUPTI that is played, and what the recorder made of them."""

from __future__ import annotations

import ctypes as C
import fcntl
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FAKE = Path(__file__).parent / "fake_cupti"
PLAYED = (
    "fake", "library", "calls", "load", "soak", "pcs", "replay", "counters", "pms", "sass",
)  # fmt: skip
"""Sources of the played library."""
RECORDER = Path(__file__).parents[2] / "tileprof" / "native" / "recorder"

KERNEL, MEMCPY, MEMSET, PEER, OVERHEAD, MEMORY = 10, 1, 2, 22, 17, 49
KINDS = (KERNEL, MEMCPY, MEMSET, PEER, OVERHEAD, MEMORY)
LAUNCH, LAUNCH_PTSZ, LAUNCH_EX, COOPERATIVE, GRAPH_LAUNCH = 307, 442, 652, 477, 514
HTOD, HTOD_ASYNC, DTOH, DTOH_ASYNC, PEER_ASYNC, FILL = 276, 277, 278, 279, 319, 216
WAIT_EVENT = 295
STREAM_SYNC, CTX_SYNC, ALLOC, FREE, HOST_FUNC, EVENT_QUERY = 126, 17, 243, 245, 527, 211
BEGIN_CAPTURE, END_CAPTURE, ADD_NODE = 528, 529, 530
NODE_CREATED, NODE_CLONED = 13, 20
PAGEABLE, PINNED, DEVICE = 1, 2, 3

_API, _KERNEL, _RANGE, _CAPTURED = 6, 8, 5, 7
_SELDOM_COLLECTED = (
    "--param", "ggc-min-expand=1000", "--param", "ggc-min-heapsize=1000000"
)  # fmt: skip
"""Flags with which the compiler looks for garbage of its own from 1 GB on, which no source here
reaches; a tenth of its time goes into looking otherwise."""


def wait_until(done: Callable[[], bool]) -> None:
    """Wait for something that happens on another thread; a minute without it is a failure."""
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, "this never happened"
        time.sleep(0.001)


@cache
def build_fake() -> Path:
    """Compile the played library; once for all processes that test the same sources."""
    # Its calls of its own functions stay in it where `fake_without` renames one.
    flags = ("-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic-functions")
    held = [path.read_bytes() for path in sorted(FAKE.iterdir()) if path.is_file()]
    held += map(str.encode, flags)
    digest = hashlib.sha256(b"\0".join(held)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"tileprof-fake-cupti-{os.getuid()}-{digest}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library, partial = folder / "libfakecupti.so", folder / "partial.so"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            compile_cpp([played(folder)], partial, *flags)
            partial.rename(library)
    return library


def played(folder: Path) -> Path:
    """The source of the whole played library, written into a folder."""
    return joined(folder / "fake_cupti.cpp", *(FAKE / each for each in PLAYED))


def fake_without(functions: Sequence[str], folder: Path) -> Path:
    """Copy the played library, without some of its functions, as of an older version of CUPTI."""
    content = build_fake().read_bytes()
    for name in functions:
        held = b"\0" + name.encode() + b"\0"
        assert held in content, name
        # Under a name that nobody asks for; names keep their lengths in a table of a library.
        content = content.replace(held, held.replace(b"cupti", b"_lost"))
    copy = folder / "libcupti.so.12"
    copy.write_bytes(content)
    return copy


def joined(into: Path, *sources: Path) -> Path:
    """A file that includes sources in C++: most of their time goes into headers."""
    into.write_text("".join(f'#include "{source}.cpp"\n' for source in sources))
    return into


def compile_cpp(sources: list[Path], into: Path, *flags: str) -> None:
    """Compile C++ sources; fails with the compiler's words."""
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", *_SELDOM_COLLECTED, *flags]
    command += [*map(str, sources), "-o", str(into)]
    done = subprocess.run([*command, "-pthread"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


class _Kernel(C.Structure):
    _fields_ = (
        *((name, C.c_uint64) for name in ("start", "end", "node")),
        *((name, C.c_uint32) for name in ("correlation", "device", "stream", "registers")),
        *((name, C.c_uint32 * 3) for name in ("grid", "block", "cluster")),
        *((name, C.c_uint32) for name in ("static_shared", "dynamic_shared", "local")),
    )


@dataclass(frozen=True)
class Row:
    """One total that the recorder handed over."""

    what: str
    path: str
    """Names from the outermost in; a capture is in brackets."""
    epoch: int
    detail: int
    count: int
    untimed: int
    sum: int
    min: int
    max: int
    slack: int
    bytes: int
    blocks: int
    grid: tuple[int, int, int]
    sketch: dict[int, int]


def gaps_of(drained: dict[str, Any]) -> list[tuple[int, int, int]]:
    """The begin, end and detail of each long gap that the recorder handed over."""
    columns = (drained["gaps"][name].tolist() for name in ("from", "to", "detail"))
    return list(zip(*columns))


class Fake:
    """The played library: driver calls on the calling thread, and records for them."""

    def __init__(self, library: Path, recorder: Any) -> None:
        self.path = str(library)
        self.recorder = recorder
        self.c = C.CDLL(str(library))
        for name in ("delivered", "delivered_ns", "time_calls", "time_reading", "clock", "kinds"):
            getattr(self.c, f"fake_{name}").restype = C.c_uint64
        self.c.fake_reset()

    def option(self, name: str, value: int = 1) -> None:
        """Set how the library misbehaves."""
        self.c.fake_option(name.encode(), C.c_uint64(value))

    def option_now(self, name: str) -> int:
        """Return what is left of an option that the library counts down."""
        return int(self.c.fake_option_now(name.encode()))

    def call(self, number: int = LAUNCH) -> int:
        """Make a driver call; its correlation number."""
        return int(self.c.fake_call(number))

    def kernel(self, name: str | None = "kernel", start: int = 1000, end: int = 1100,
               correlation: int | None = None, number: int = LAUNCH,
               **fields: Any) -> int:  # fmt: skip
        """Launch a kernel (unless a correlation is given) and queue its record."""
        launched = self.call(number) if correlation is None else correlation
        record = _Kernel(start=start, end=end, correlation=launched)
        record.grid = record.block = (1, 1, 1)
        for field, value in fields.items():
            setattr(record, field, value)
        self.c.fake_kernel(name.encode() if name is not None else None, C.byref(record))
        return launched

    def copy(self, number: int, source: int, target: int, size: int, start: int, end: int,
             kind: int = 1, flags: int = 1, device: int = 0, peer: int | None = None,
             node: int = 0, correlation: int | None = None) -> None:  # fmt: skip
        """Copy, and queue the record."""
        launched = self.call(number) if correlation is None else correlation
        self.c.fake_memcpy(launched, kind, source, target, flags, C.c_uint64(size),
                           C.c_uint64(start), C.c_uint64(end), device,
                           0 if peer is None else peer + 1, C.c_uint64(node))  # fmt: skip

    def fill(self, size: int, start: int, end: int, device: int = 0) -> None:
        """Fill memory, and queue the record."""
        self.c.fake_memset(self.call(FILL), C.c_uint64(size), C.c_uint64(start), C.c_uint64(end),
                           device, DEVICE, 1)  # fmt: skip

    def wait(self, number: int, start: int, end: int) -> None:
        """Wait for the device from one time to another."""
        self.recorder.set_time(start)
        correlation = self.c.fake_enter(number)
        self.recorder.set_time(end)
        self.c.fake_exit(number, correlation, 0)
        self.recorder.set_time(0)

    def memory(self, operation: int, address: int, size: int, memory: int = DEVICE,
               device: int = 0, time: int = 1000) -> None:  # fmt: skip
        """Allocate (1) or release (2), and queue the record."""
        self.c.fake_memory(self.call(ALLOC if operation == 1 else FREE), operation, memory,
                           C.c_uint64(address), C.c_uint64(size), device,
                           C.c_uint64(time))  # fmt: skip

    def node(self, number: int, node: int, original: int = 0) -> None:
        """Tell of a graph's node."""
        self.c.fake_node(number, C.c_uint64(node), C.c_uint64(original))

    def capture(self, node: int, number: int = LAUNCH) -> None:
        """Make a driver call that becomes a node of a graph."""
        correlation = self.c.fake_enter(number)
        self.node(NODE_CREATED, node)
        self.c.fake_exit(number, correlation, 0)

    def pause(self) -> None:
        """Record nothing, as Python's side does."""
        self.recorder.gpu_pause()
        self.recorder.set_epoch(0)

    def resume(self, epoch: int = 1) -> None:
        """Go on."""
        self.recorder.gpu_resume()
        self.recorder.set_epoch(epoch)

    def many(self, count: int, name: str = "kernel", number: int = LAUNCH, start: int = 10**6,
             ns: int = 100, step: int = 1000, batch: int = 0) -> None:  # fmt: skip
        """Launch often on this thread."""
        self.c.fake_many(C.c_uint64(count), number, name.encode(),
                         *map(C.c_uint64, (start, ns, step, batch)))  # fmt: skip

    def threads(self, threads: int, count: int, batch: int) -> None:
        """Launch on several threads at once, kernels `kernel_0` and on."""
        self.c.fake_threads(threads, C.c_uint64(count), C.c_uint64(batch))

    def own_buffers(self, threads: int, count: int) -> None:
        """Launch on several threads at once, each with a buffer of records of its own."""
        self.c.fake_own_buffers(threads, C.c_uint64(count))

    def time_calls(self, count: int, number: int = LAUNCH) -> float:
        """Nanoseconds that the callbacks of a launch take."""
        return float(self.c.fake_time_calls(C.c_uint64(count), number)) / count

    def time_reading(self, count: int, names: int, streams: int = 1) -> float:
        """Nanoseconds that reading the record of a kernel takes."""
        return float(self.c.fake_time_reading(C.c_uint64(count), names, streams)) / count

    def delivered(self, kind: int) -> tuple[int, int]:
        """How many records of a kind were delivered, and the ns in them."""
        return self.c.fake_delivered(kind), self.c.fake_delivered_ns(kind)

    def deliver(self) -> None:
        """Hand over what is queued, as CUPTI's worker does."""
        self.c.fake_deliver()

    # -- what the recorder made of it

    def start(self, kinds: tuple[int, ...] = KINDS, **options: int) -> tuple[int, str]:
        """Begin a recording."""
        status: tuple[int, str] = self.recorder.gpu_start(self.path, kinds, **options)
        return status

    def rows(self, what: str | None = None) -> list[Row]:
        """Flush and take all totals, of one kind or of all."""
        assert self.recorder.gpu_flush() == (0, "")
        return self.rows_of(self.recorder.gpu_drain(), what)

    def rows_of(self, drained: dict[str, Any], what: str | None = None) -> list[Row]:
        """Columns that were handed over, as rows in order of their paths."""
        whats = {number: name for name, number in self.recorder.WHATS.items()}
        starts = drained["sketch_start"]
        rows = []
        for i, number in enumerate(drained["what"].tolist()):
            part = slice(starts[i], starts[i + 1])
            sketch = dict(zip(drained["sketch_bucket"][part].tolist(),
                              drained["sketch_count"][part].tolist()))  # fmt: skip
            assert list(sketch) == sorted(drained["sketch_bucket"][part].tolist())
            values = {name: int(drained[name][i]) for name in
                      ("epoch", "detail", "count", "untimed", "sum", "min", "max", "slack",
                       "bytes", "blocks")}  # fmt: skip
            grid = (drained["grid_x"][i], drained["grid_y"][i], drained["grid_z"][i])
            path = self.path_of(int(drained["context"][i]))
            rows.append(Row(whats[number], path, grid=grid, sketch=sketch, **values))
        return sorted((r for r in rows if what in (None, r.what)), key=lambda r: (r.path, r.detail))

    def path_of(self, context: int) -> str:
        """A context as text."""
        names: list[str] = []
        while context:
            parent, kind, a, _ = self.recorder.contexts(context, 1)[0]
            if kind in (_API, _RANGE):
                names.append(self.recorder.name(a))
            elif kind == _KERNEL:
                names.append(f"#{a}")
            elif kind == _CAPTURED:
                names.append(f"[{self.path_of(a)}]")
            context = parent
        return " ".join(reversed(names))

    def counts(self) -> dict[str, int]:
        """What the recorder counted, apart from zeros."""
        return {name: n for name, n in self.recorder.gpu_counts().items() if n}

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """A range that is open around driver calls."""
        self.recorder.push_range(name, "")
        try:
            yield
        finally:
            self.recorder.pop_range("")
