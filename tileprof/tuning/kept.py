"""Results of searches: in the cache, for the next process; in tables, for other machines.

In: what a search found for some shapes.  Out: a `Result` for those shapes, or for near ones.

A result in the cache is a file `SHAPES.json` in the folder `tuned-KERNEL-DIGEST`, whose digest is
made of the function's source, the device, and the compiler.  A table is one file with any number of
results, which an author ships beside a kernel; it names devices, and is believed for those alone.
Both are numbers and no code: they choose among values of arguments that the function has.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tileprof
from tileprof.errors import MissingDependencyError, OutputError, UsageError
from tileprof.files import replace_bytes
from tileprof.native import cache
from tileprof.once import once
from tileprof.runtime.typed_json import read_as

from .configurations import Configuration
from .machine import Gpu, Machine
from .numbers import MOST_SHAPES
from .outcomes import Outcome
from .shapes import Shapes

SCHEMA = 1
"""Raised when a field of a file changes its meaning or goes."""
_FORMAT = "tileprof tuned"


@dataclass(frozen=True, slots=True)
class Result:
    """The configuration that was found for some shapes."""

    kernel: str
    device: str
    """Name of the device that it was found on."""
    shapes: Shapes
    configuration: Configuration
    ns: float
    """Time of a call, in ns; nan where nothing was timed."""
    timed: int
    """Configurations that were timed."""
    sure: bool
    date: str
    tileprof: str
    """Version that searched."""

    @classmethod
    def of(cls, outcome: Outcome, shapes: Shapes) -> Result:
        """Return the result of a search."""
        won = outcome.winner
        date = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(
            outcome.kernel, outcome.machine, shapes, won.configuration,
            won.measured.ns if won.measured else math.nan, len(outcome.timed), outcome.sure, date,
            tileprof.__version__,
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "kernel": self.kernel,
            "device": self.device,
            "shapes": self.shapes.as_json(),
            "configuration": self.configuration.as_json(),
            "ns": None if math.isnan(self.ns) else self.ns,
            "timed": self.timed,
            "sure": self.sure,
            "date": self.date,
            "tileprof": self.tileprof,
        }

    @classmethod
    def from_json(cls, held: Any) -> Result:
        """Return the reverse of `as_json`; ValueError or UsageError for anything else."""
        if not isinstance(held, dict):
            raise ValueError("a result is not an object")
        texts = {n: read_as(str, held.get(n), n) for n in ("kernel", "device", "date", "tileprof")}
        ns = held.get("ns")
        return cls(
            texts["kernel"], texts["device"], Shapes.from_json(held.get("shapes")),
            Configuration.from_json(held.get("configuration")),
            math.nan if ns is None else read_as(float, ns, "ns"),
            read_as(int, held.get("timed"), "timed"), read_as(bool, held.get("sure"), "sure"),
            texts["date"], texts["tileprof"],
        )  # fmt: skip


# -- the cache


@dataclass(frozen=True, slots=True)
class Place:
    """Results of one function on one device, in the cache."""

    folder: Path

    @classmethod
    def of(cls, name: str, source: str, machine: Machine) -> Place:
        """Return the place for a function by its source text."""
        parts = (source, *_identity(machine))
        return cls(cache.cache_folder() / f"tuned-{name}-{cache.digest_of(parts)}")

    def read(self) -> list[Result]:
        """Return all results, the newest first; damaged ones and those that others could have
        written are left out."""
        try:
            files = [each for each in self.folder.iterdir() if each.suffix == ".json"]
        except OSError:
            return []
        dated = sorted(((_age(each), each) for each in files), reverse=True)[:MOST_SHAPES]
        return [found for _, each in dated if (found := _result_in(each)) is not None]

    def write(self, result: Result) -> None:
        """Keep a result, in place of an older one for these shapes; OutputError where the cache
        cannot be written."""
        file = self.folder / f"{cache.digest_of([json.dumps(result.shapes.as_json())])}.json"
        held = {"format": _FORMAT, "schema": SCHEMA, **result.as_json()}
        try:
            cache.create_folder()
            self.folder.mkdir(0o700, exist_ok=True)
            replace_bytes(file, json.dumps(held, indent=1).encode())
            file.chmod(0o600)
        except OSError as error:
            raise OutputError(
                f"tuned configurations cannot be kept in {self.folder}: {error.strerror or error}",
                hint="Set TILEPROF_CACHE to a folder that can be written.",
            ) from error


def nearest(results: Iterable[Result], shapes: Shapes, within: float) -> Result | None:
    """Return the result for the nearest shapes, at most a factor `within` away; of equally near
    ones the first."""
    held = [(each.shapes.ratio(shapes), at, each) for at, each in enumerate(results)]
    found = min(held, default=None, key=lambda each: each[:2])
    return found[2] if found is not None and found[0] <= within else None


def _result_in(file: Path) -> Result | None:
    content = cache.read_private(file)
    if content is None:
        return None
    try:
        held = json.loads(content)
        if held.get("format") != _FORMAT or held.get("schema") != SCHEMA:
            return None
        return Result.from_json(held)
    except (ValueError, TypeError, AttributeError, UsageError):
        return None


def _age(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _identity(machine: Machine) -> Iterator[str]:
    """Yield what times depend on, besides kernel and shapes: the device, and what compiles."""
    yield compiler_digest()
    yield machine.name
    if isinstance(machine, Gpu):
        from tileprof.compiler.cuda import nvrtc

        yield f"{machine.target} {machine.sms}"
        try:
            yield nvrtc.identity()
        except MissingDependencyError:
            yield "no NVRTC"
    else:
        from tileprof.compiler.build import find_compiler

        found = find_compiler()
        yield f"{machine.threads} {platform.machine()} {platform.processor()}"
        yield repr(found) if found else "no compiler"


@once
def compiler_digest() -> str:
    """Return a digest of the version of tileprof, and of what compiles kernels in it."""
    folder = Path(tileprof.__file__).parent / "compiler"
    files = sorted(each for each in folder.rglob("*") if each.suffix in (".py", ".cuh", ".h"))
    held = (each.read_bytes().hex() for each in files)
    return cache.digest_of([tileprof.__version__, *held])


# -- tables


def read_table(path: str | Path) -> list[Result]:
    """Return the results in a table; UsageError for a file that is none."""
    try:
        held = json.loads(Path(path).read_text())
        if held["format"] != f"{_FORMAT} table" or held["schema"] > SCHEMA:
            raise ValueError("it has another format or a later version")
        return [Result.from_json(each) for each in held["results"]]
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="Write it with `tileprof tune FILE:KERNEL --table FILE`.",
        ) from None
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise UsageError(
            f"{path} is not a table of tuned configurations: {error}",
            hint="Write it with `tileprof tune FILE:KERNEL --table FILE`.",
        ) from None


def add_to_table(path: str | Path, results: Iterable[Result]) -> None:
    """Add results to a table, in place of older ones for the same kernel, device and shapes; a
    table that is not there is begun."""
    place = Path(path)
    known = read_table(place) if place.exists() else []
    held = {(each.kernel, each.device, each.shapes): each for each in (*known, *results)}
    content = {
        "format": f"{_FORMAT} table",
        "schema": SCHEMA,
        "results": [each.as_json() for each in held.values()],
    }
    try:
        replace_bytes(place, (json.dumps(content, indent=1) + "\n").encode())
    except OSError as error:
        raise OutputError(
            f"the table cannot be written to {place}: {error.strerror or error}",
            hint="Choose a folder that exists and can be written.",
        ) from error
