"""Tuned kernels as one file: `function.save(path)` and `tileprof.tuning.load_tuned(path)`.

A file is a zip archive: `tuned.json`, the results in it, and for each of them the kernel with that
configuration, as `kernel.save` writes it.  It runs without the source, without a compiler and
without a search.  Like a saved kernel a file is code, and is refused where others could have
written it; each kernel in it is checked as one that stands alone (`lang/saved.py`).
"""

from __future__ import annotations

import io
import json
import math
import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprof import ir
from tileprof.errors import ArgumentError, OutputError, UsageError
from tileprof.files import replace_file
from tileprof.lang.compiled import Kernel
from tileprof.lang.saved import MOST_BYTES, MOST_MEMBERS, MOST_TEXT_BYTES, load_kernel, read_trusted
from tileprof.runtime.arguments import describe

from .kept import SCHEMA, Result

_JSON = "tuned.json"
_FORMAT = "tileprof tuned kernels"
_ADVICE = "Write it anew with `function.save(path)`."


def save_tuned(
    path: str | Path, kernels: Sequence[tuple[Result, Kernel]], targets: Sequence[str] = ()
) -> None:
    """Compile kernels for each of `targets` and write them with their results to one file.

    Without targets: for the GPU of this machine, or sm_90a where there is none. UsageError without
    a kernel, or with too many; OutputError where the file cannot be written.
    """
    if not 0 < len(kernels) < MOST_MEMBERS:
        raise UsageError(
            f"{len(kernels)} tuned kernels cannot be saved",
            hint=f"Tune for 1 to {MOST_MEMBERS - 1} shapes first: `function.tune(…)`.",
        )
    held = {
        "format": _FORMAT,
        "schema": SCHEMA,
        "results": [result.as_json() for result, _ in kernels],
    }
    place = Path(path)
    try:
        with tempfile.TemporaryDirectory() as folder, replace_file(place) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            # Nobody else may write what is run later, whatever the umask is.
            os.chmod(file.fileno() if os.chmod in os.supports_fd else file.name, mode & ~0o022)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(_JSON, json.dumps(held, indent=1))
                for at, (_, kernel) in enumerate(kernels):
                    own = Path(folder) / f"{at}.tpk"
                    kernel.save(own, targets)
                    archive.write(own, own.name)
    except OSError as error:
        raise OutputError(
            f"tuned kernels cannot be written to {place}: {error.strerror or error}",
            hint="Choose a folder that exists and can be written.",
        ) from error


@dataclass(frozen=True, slots=True)
class TunedKernels:
    """Kernels of a file: a call runs the one for its shapes.

    Extents that are compiled in have to be the same; of kernels that differ in extents known at
    launch, the one for the nearest is taken.
    """

    results: tuple[Result, ...]
    kernels: tuple[Kernel, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel for these arguments; ArgumentError where there is none."""
        return self.kernels[self._nearest(args, kwargs)](*args, **kwargs)

    def _nearest(self, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
        ratios = [
            self._ratio(result, kernel, dict(zip(kernel.arguments, args)) | kwargs)
            for result, kernel in zip(self.results, self.kernels)
        ]
        best = min(range(len(ratios)), key=lambda at: ratios[at])
        if math.isinf(ratios[best]):
            shown = ", ".join(str(describe(a).shape) for a in args if describe(a) is not None)  # type: ignore[union-attr]
            raise ArgumentError(
                f"no kernel in the file is for arguments of shapes {shown}",
                hint="Tune for these shapes, and save again.",
            )
        return best

    def _ratio(self, result: Result, kernel: Kernel, named: dict[str, Any]) -> float:
        """Return the largest factor between extents of a call and those of a result; inf where the
        kernel cannot take the arguments."""
        tuned, worst = dict(result.shapes.extents), 1.0
        for param in kernel.traced.params:
            kind = param.type
            if not isinstance(kind, ir.BufferType) or param.role != "in":
                continue
            spec = describe(named.get(param.name))
            if spec is None or spec.dtype != kind.dtype or len(spec.shape) != kind.rank:
                return math.inf
            for expected, found in zip(kind.shape, spec.shape):
                if isinstance(expected, int):
                    if expected != found:
                        return math.inf
                elif found and (known := tuned.get(expected)):
                    worst = max(worst, found / known, known / found)
        return worst


def load_tuned(path: str | Path, *, trust: bool = False) -> TunedKernels:
    """Return the kernels in a file that `function.save(path)` wrote.

    The file is code: it is refused where others could have written it, unless `trust` says that
    these are trusted. UsageError for a file that is refused, is none, or is damaged.
    """
    place = Path(path)
    try:
        content = read_trusted(place, trust)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = {each.filename: each for each in archive.infolist()}
            if len(infos) > MOST_MEMBERS or sum(i.file_size for i in infos.values()) > MOST_BYTES:
                raise ValueError("it holds too much")
            held = json.loads(_member(archive, _JSON, MOST_TEXT_BYTES))
            if held["format"] != _FORMAT or held["schema"] > SCHEMA:
                raise ValueError("it has another format or a later version")
            results = tuple(Result.from_json(each) for each in held["results"])
            kernels = tuple(_kernel(archive, f"{at}.tpk") for at in range(len(results)))
    except FileNotFoundError:
        raise UsageError(f"there is no file {place}", hint="Check the path.") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{place} cannot be read: {why}", hint="Check the path.") from None
    except (
        ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error, EOFError,
        NotImplementedError, RuntimeError,
    ) as error:  # fmt: skip
        raise UsageError(f"{place} holds no tuned kernels: {error!s:.300}", hint=_ADVICE) from None
    if not kernels:
        raise UsageError(f"{place} holds no tuned kernels", hint=_ADVICE)
    return TunedKernels(results, kernels)


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with archive.open(name) as member:
        # What the archive says of sizes is not believed.
        found = member.read(most + 1)
    if len(found) > most:
        raise ValueError(f"`{name}` is larger than {most:,} bytes")
    return found


def _kernel(archive: zipfile.ZipFile, name: str) -> Kernel:
    """Return one kernel, checked as a file of this user's own."""
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / name
        own.write_bytes(_member(archive, name, MOST_BYTES))
        own.chmod(0o600)
        return load_kernel(own)
