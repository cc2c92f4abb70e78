"""The functions of CUPTI that need no device: which metrics a kind of device has, in how many
passes they are read, and what an image of counters says.

In: the path of a library, the kind of device (`GH100`), names of metrics.  Out: plans and numbers.
Structures and their places are those of CUPTI 13; each says its own size.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from tileprof.errors import MissingDependencyError, TileprofError
from tileprof.profiler.cupti.cupti_library import other_copy

_Size, _Pointer = C.c_size_t, C.c_void_p

_NEEDED = (
    "cuptiGetResultString", "cuptiProfilerInitialize", "cuptiDeviceGetChipName",
    "cuptiProfilerHostInitialize", "cuptiProfilerHostDeinitialize",
    "cuptiProfilerHostConfigAddMetrics", "cuptiProfilerHostGetConfigImageSize",
    "cuptiProfilerHostGetConfigImage", "cuptiProfilerHostGetNumOfPasses",
    "cuptiProfilerHostGetBaseMetrics", "cuptiProfilerHostEvaluateToGpuValues",
    "cuptiRangeProfilerGetCounterDataInfo", "cuptiRangeProfilerCounterDataGetRangeInfo",
)  # fmt: skip
"""Functions of CUPTI that planning and reading of counters call."""

Kind = Literal["launches", "time"]
"""Whether counters are of launches, by the range profiler, or over time, by PM sampling; in the
order of CUPTI's numbers. The metrics of the two are not the same."""


class CuptiFailure(TileprofError):
    """A function of CUPTI's that did not do its work."""

    def __init__(self, function: str, code: int, text: str) -> None:
        super().__init__(f"{function} failed: {text} ({code})")
        self.function = function
        self.code = code


def structure(**fields: Any) -> type[Any]:
    """Return the structure of parameters with these fields behind those that all have."""
    names = [("size", _Size), ("own", _Pointer), *fields.items()]
    return type("Parameters", (C.Structure,), {"_fields_": names})


_INITIALIZE = structure(kind=C.c_int, chip=C.c_char_p, availability=_Pointer, host=_Pointer)
_HOST = structure(host=_Pointer)
_ADD = structure(host=_Pointer, names=C.POINTER(C.c_char_p), count=_Size)
_PLAN_SIZE = structure(host=_Pointer, bytes=_Size)
_PLAN = structure(host=_Pointer, bytes=_Size, plan=_Pointer)
_PASSES = structure(bytes=_Size, plan=_Pointer, passes=_Size)
_BASE = structure(host=_Pointer, kind=C.c_int, names=C.POINTER(C.c_char_p), count=_Size)
_COUNT = structure(image=_Pointer, bytes=_Size, ranges=_Size)
_RANGE = structure(image=_Pointer, bytes=_Size, index=_Size, delimiter=C.c_char_p, name=C.c_char_p)
_EVALUATE = structure(
    host=_Pointer, image=_Pointer, bytes=_Size, index=_Size, names=C.POINTER(C.c_char_p),
    count=_Size, values=C.POINTER(C.c_double),
)  # fmt: skip


def open_library(path: Path | str) -> Any:
    """Load a copy of CUPTI; MissingDependencyError where it lacks these functions."""
    hint = f"Counters need CUPTI of CUDA 12.6 or later: {other_copy()}."
    try:
        library = C.CDLL(str(path))
    except OSError as error:
        raise MissingDependencyError(f"{path} cannot be loaded: {error}", hint=hint) from None
    for function in _NEEDED:
        if not hasattr(library, function):
            raise MissingDependencyError(f"{path} has no function {function}", hint=hint)
    return library


def text_of(library: Any, code: int) -> str:
    """CUPTI's name of a result."""
    text = C.c_char_p()
    if library.cuptiGetResultString(code, C.byref(text)) or not text.value:
        return "an unknown error"
    return text.value.decode()


class Host:
    """CUPTI's knowledge of one kind of device; to be closed."""

    def __init__(self, library: Any, chip: str, kind: Kind = "launches") -> None:
        self._library = library
        self.chip = chip
        made = _INITIALIZE()
        made.kind = get_args(Kind).index(kind)
        made.chip = chip.encode()
        call(self._library, "cuptiProfilerHostInitialize", made)
        self._host = made.host

    def close(self) -> None:
        """Give back what CUPTI holds for it."""
        if self._host:
            call(self._library, "cuptiProfilerHostDeinitialize", _HOST(host=self._host))
            self._host = None

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def plan(self, metrics: Sequence[str]) -> bytes:
        """Return the plan for reading these metrics, made once per `Host`; CuptiFailure for an
        unknown metric."""
        added = _ADD(host=self._host, names=_names(metrics), count=len(metrics))
        call(self._library, "cuptiProfilerHostConfigAddMetrics", added)
        size = _PLAN_SIZE(host=self._host)
        call(self._library, "cuptiProfilerHostGetConfigImageSize", size)
        plan = C.create_string_buffer(size.bytes)
        made = _PLAN(host=self._host, bytes=size.bytes, plan=C.addressof(plan))
        call(self._library, "cuptiProfilerHostGetConfigImage", made)
        return plan.raw

    def passes(self, plan: bytes) -> int:
        """Return how many times a launch runs for a plan."""
        held = C.create_string_buffer(plan, len(plan))
        asked = _PASSES(bytes=len(plan), plan=C.addressof(held))
        call(self._library, "cuptiProfilerHostGetNumOfPasses", asked)
        return int(asked.passes)

    def ranges(self, image: bytes) -> list[str]:
        """Names of the ranges that an image of counters holds, by index."""
        counted = _COUNT(image=_address(image), bytes=len(image))
        call(self._library, "cuptiRangeProfilerGetCounterDataInfo", counted)
        return [self._name(image, index) for index in range(counted.ranges)]

    def _name(self, image: bytes, index: int) -> str:
        asked = _RANGE(image=_address(image), bytes=len(image), index=index, delimiter=b"/")
        call(self._library, "cuptiRangeProfilerCounterDataGetRangeInfo", asked)
        return (asked.name or b"").decode(errors="replace")

    def values(self, image: bytes, index: int, metrics: Sequence[str]) -> list[float]:
        """Return the values of metrics for one range."""
        values = (C.c_double * len(metrics))()
        asked = _EVALUATE(
            host=self._host, image=_address(image), bytes=len(image), index=index,
            names=_names(metrics), count=len(metrics), values=values,
        )  # fmt: skip
        call(self._library, "cuptiProfilerHostEvaluateToGpuValues", asked)
        return list(values)

    def base_metrics(self, kind: int) -> list[str]:
        """Metrics of the device without what follows their first point; of counters, ratios,
        throughputs (0, 1, 2)."""
        asked = _BASE(host=self._host, kind=kind)
        call(self._library, "cuptiProfilerHostGetBaseMetrics", asked)
        return [asked.names[at].decode() for at in range(asked.count)]


def call(library: Any, function: str, parameters: Any) -> None:
    """Call a function of CUPTI by its name; CuptiFailure where it does not succeed."""
    parameters.size = _end(type(parameters))
    code = getattr(library, function)(C.byref(parameters))
    if code:
        raise CuptiFailure(function, code, text_of(library, code))


def base_metrics(host: Host) -> list[str]:
    """Return all of them."""
    return [name for kind in range(3) for name in host.base_metrics(kind)]


def _end(kind: type[Any]) -> int:
    """Bytes up to where the last field ends, which is what CUPTI calls the size."""
    field = getattr(kind, kind._fields_[-1][0])
    return int(field.offset + field.size)


def _names(metrics: Sequence[str]) -> Any:
    return (C.c_char_p * len(metrics))(*[name.encode() for name in metrics])


def _address(image: bytes) -> int:
    """Return the address of the bytes in Python's memory; CUPTI only reads them."""
    return C.cast(C.c_char_p(image), C.c_void_p).value or 0
