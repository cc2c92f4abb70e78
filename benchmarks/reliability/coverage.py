"""Lines of the readers that kept files and mutants reach.

In: the kept files of `tests/data/fuzz`, the faults of `stated.py` and the first `--runs` mutants of
each kind of file.  Out: a JSON object with the share of lines that ran, by kind and module, and the
lines that did not.  Lines of functions count, but not those of functions that only write files or
run kernels; nor lines that run at import alone.

    python -m benchmarks.reliability.coverage --runs 3000 -o out.json
    python -m benchmarks.reliability.coverage --only ir_text --runs 0
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from tileprof.binary.cubin import read as read_cubin
from tileprof.errors import TileprofError
from tileprof.lang.saved import load_kernel
from tileprof.profile import load
from tileprof.profile.storage import limits

__all__ = ["PROFILES", "READERS", "Lines", "Reader", "main", "reached", "read_profile"]

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "data" / "fuzz"

Lines = Mapping[str, set[int]]
"""Numbers of lines by module."""


@dataclass(frozen=True)
class Reader:
    """The modules that read one kind of file."""

    modules: tuple[str, ...]
    """Their paths below `tileprof`, without `.py`."""
    writers: frozenset[str] = frozenset()
    """Functions and classes in them that write or run kernels, `module.name`; files do not reach
    them."""

    def lines(self) -> Lines:
        """Return the lines that a file can reach."""
        return {module: _lines_of(module, self.writers) for module in self.modules}


PROFILES = Reader(
    tuple(
        f"profile/storage/{name}"
        for name in (
            "cta_bytes", "database", "file", "inflate", "ir_bytes", "ir_text", "pc_reading",
            "plain_text", "reading", "series_tables", "sketch_bytes", "timeline_bytes",
        )
    ),
    frozenset({
        "cta_bytes.to_bytes", "file.save", "ir_bytes.rows", "ir_bytes._depth",
        "series_tables.column_rows", "series_tables.series_rows", "sketch_bytes._append",
        "sketch_bytes.encode", "timeline_bytes.packed", "timeline_bytes.to_bytes",
    }),
)  # fmt: skip
READERS = {
    "profiles": PROFILES,
    "cubins": Reader(
        ("binary/attributes", "binary/cubin", "binary/elf", "binary/line_table"),
        frozenset({"line_table.Chain.__str__"}),
    ),
    "saved_kernels": Reader(
        ("lang/saved", "runtime/cuda/binary_file", "runtime/typed_json"),
        frozenset({
            "saved.save", "saved._default_target", "saved._variants", "saved._expression",
            "saved._no_source", "saved._File.builder", "saved.SavedKernel", "saved.SavedVariant",
            "binary_file.write_binary", "binary_file._plain",
        }),
    ),
    "ir_text": Reader(
        ("compiler/untrusted", "ir/attribute_types", "ir/parser", "ir/verifier"),
        frozenset({"verifier.verify"}),
    ),
}  # fmt: skip


def _lines_of(module: str, writers: frozenset[str]) -> set[int]:
    """Lines of a module's functions, but for those of writers."""
    path = ROOT / "tileprof" / f"{module}.py"
    name = path.stem
    found: set[int] = set()
    pending = [compile(path.read_text(), str(path), "exec")]
    while pending:
        code = pending.pop()
        own = code.co_qualname.partition(".<locals>")[0]
        if f"{name}.{own}" in writers or f"{name}.{own.partition('.')[0]}" in writers:
            continue
        pending += [each for each in code.co_consts if isinstance(each, CodeType)]
        if code.co_flags & 0x02:  # CO_NEWLOCALS: no module and no body of a class
            found |= {n for _, _, n in code.co_lines() if n and n != code.co_firstlineno}
    return found


@contextlib.contextmanager
def reached(modules: Iterable[str]) -> Iterator[Lines]:
    """Note the lines of modules that this thread runs meanwhile."""
    ran: dict[str, set[int]] = {module: set() for module in modules}
    files = {str(ROOT / "tileprof" / f"{module}.py"): lines for module, lines in ran.items()}

    def trace(frame: Any, event: str, _argument: object) -> Any:
        lines = files.get(frame.f_code.co_filename)
        if lines is None:
            return None
        lines.add(frame.f_lineno)

        def inside(frame: Any, event: str, _argument: object) -> Any:
            lines.add(frame.f_lineno)
            return inside

        return inside

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield ran
    finally:
        sys.settrace(before)


def read_profile(path: str) -> None:
    """Read all of a profile, what is read late too; raises whatever reading raises."""
    tables = load(path).tables
    for late in (
        lambda: tables.timeline.events,
        lambda: tables.ctas.visits,
        lambda: [text.text for text in tables.pc.texts.values()],
        lambda: [tables.pc.cubin(module) for module in tables.pc.cubins],
    ):
        with contextlib.suppress(TileprofError):
            late()


class _First(random.Random):
    """Draws the first of all choices, so that a cubin is disassembled."""

    def randrange(self, *_bounds: Any, **_named: Any) -> int:
        return 0


Read = Callable[[], object]


def _reads(name: str, runs: int) -> Iterator[Read]:
    """Give what reads each kept file of a kind, then each of the first `runs` mutants."""
    if name == "profiles":
        yield from _profiles(runs)
        return
    from . import cubins, ir_text, saved_kernels, stated

    saved_kernels.ON_CPU = 1 << 60  # its C++ is compiled by what is no reader
    campaign, faults = {
        "cubins": (cubins, stated.cubins),
        "ir_text": (ir_text, stated.texts),
        "saved_kernels": (saved_kernels, stated.kernels),
    }[name]
    mutate, read = campaign.prepare()
    if name != "ir_text":
        by_path = load_kernel if name == "saved_kernels" else read_cubin
        with tempfile.TemporaryDirectory() as folder:
            for path in stated.paths(Path(folder)):
                yield lambda path=path: by_path(path)  # type: ignore[misc]
    for kept in (*campaign.kept(), *faults()):
        draw = _First() if name == "cubins" else random.Random(0)
        yield lambda kept=kept, draw=draw: read(kept, draw)  # type: ignore[misc]
    for number in range(runs):
        draw = random.Random(number)
        held = mutate(draw)
        yield lambda held=held, draw=draw: read(held, draw)  # type: ignore[misc]


def _profiles(runs: int) -> Iterator[Read]:
    from . import stated
    from .profiles import drawn, sound_profiles

    kept = [zlib.decompress(path.read_bytes()) for path in sorted(CORPUS.glob("profiles/*.z"))]
    sound = [content for _, content in sound_profiles()]
    contents = itertools.chain(sound, kept, stated.profiles(), (drawn(n)[1] for n in range(runs)))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/p.tprof"
        for other in itertools.chain(stated.paths(Path(folder)), [Path(f"{folder}/a\0b")]):
            yield lambda other=other: load(other)  # type: ignore[misc]
        for content in contents:
            Path(path).write_bytes(content)
            yield lambda: read_profile(path)
        # Longer than any profile, and mostly a hole.
        Path(path).write_bytes(sound[0])
        os.truncate(path, limits.FILE_BYTES + 1)
        yield lambda: load(path)


class _TooLongError(Exception):
    pass


def _alarm(signum: int, frame: Any) -> None:
    raise _TooLongError


def measured(name: str, runs: int, seconds: float = 1e9) -> dict[str, Any]:
    """Read the files of one kind; returns counts, the share of lines and what was missed."""
    reader = READERS[name]
    lines = reader.lines()
    until = time.monotonic() + seconds
    counts = {"read": 0, "refused": 0, "failed": 0}
    before = signal.signal(signal.SIGALRM, _alarm)
    found: dict[str, set[int]] = {module: set() for module in lines}
    for read in _reads(name, runs):
        if time.monotonic() > until:
            break
        signal.setitimer(signal.ITIMER_REAL, 60)
        try:
            with reached(lines) as ran:
                read()
            counts["read"] += 1
        except TileprofError:
            counts["refused"] += 1
        except (Exception, RecursionError):
            # The campaign of this kind of file says what is a fault.
            counts["failed"] += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for module in found:
            found[module] |= ran[module] & lines[module]
    signal.signal(signal.SIGALRM, before)
    whole = sum(map(len, lines.values()))
    return {
        "files": sum(counts.values()),
        **counts,
        "lines": whole,
        "share": round(sum(map(len, found.values())) / whole, 4),
        "modules": {m: round(len(found[m]) / len(lines[m]), 4) for m in lines},
        "missed": {m: sorted(lines[m] - found[m]) for m in lines if lines[m] - found[m]},
    }


@cache
def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 31),) * 2)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure the readers of a command line and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3000, help="mutants of each kind")
    parser.add_argument("--jobs", type=int, default=1, help="one is used")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--only", choices=READERS, nargs="+", default=list(READERS))
    parser.add_argument("-o", dest="out", type=Path)
    args = parser.parse_args(argv)
    began = time.monotonic()
    silent = os.open(os.devnull, os.O_WRONLY)
    told = os.dup(1)
    os.dup2(silent, 1)
    _limit_memory()
    each = {name: measured(name, args.runs, args.seconds / len(args.only)) for name in args.only}
    os.dup2(told, 1)
    result = {
        "name": "coverage",
        "runs": sum(found["files"] for found in each.values()),
        "failures": sum(found["failed"] for found in each.values()),
        "hangs": 0,
        "seconds": round(time.monotonic() - began, 1),
        "lowest": min(found["share"] for found in each.values()),
        "note": ", ".join(f"{name} {100 * found['share']:.1f} %" for name, found in each.items()),
        "readers": each,
    }
    text = json.dumps(result, indent=1)
    if args.out:
        args.out.write_text(text + "\n")
    print(text, file=sys.stderr if args.out else sys.stdout)
    return result


if __name__ == "__main__":
    main()
