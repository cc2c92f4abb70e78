"""Options of a session, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from tileprof.errors import OutputError, UsageError
from tileprof.files import other_kind
from tileprof.profiler.counters.requests import Asked, AskedInstructions, parse_metrics
from tileprof.profiler.counters.series_requests import SeriesAsked, parse_pm_sampling
from tileprof.profiler.pcs.options import PcOptions, parse_pc_sampling
from tileprof.profiler.session.instruments import Inside, parse_instrument
from tileprof.runtime.record_options import RecordOptions, parse_record_options

Context = Literal["scopes", "python", "full", "native"]
"""Parts of a call path: scopes only; Python frames too; also framework operations where known; also
functions in C and C++ between them and calls of the driver."""

EXCLUDED = "metrics and pc_sampling exclude each other in one process"
EXCLUDED_SAMPLING = "pm_sampling and pc_sampling exclude each other in one process"
EXCLUDED_COUNTERS = "counters of launches and over time exclude each other in one process"
EXCLUDED_KINDS = "counters of launches and counts of instructions exclude each other in one process"

TIMELINE_EVENTS = 1_000_000
"""Default number of events that a timeline keeps, of devices and of the host each."""
MOST_EVENTS = 50_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a session."""

    context: Context = "full"
    instrument: str = "scopes"
    """Measurement inside kernels: off, scopes, stages, ops, sample or sample=PERIOD."""
    inside: RecordOptions = field(default_factory=RecordOptions)
    """Options of records inside launches on GPUs; may be given as a mapping or a text."""
    backward_ops: bool = False
    """Whether operations inside nodes of a backward pass are recorded too, not the nodes alone."""
    layers: bool = False
    """Whether layers that a loop goes through are told apart: those of PyTorch's containers that
    are made while the session is open."""
    flush_interval: float = 10.0
    """Seconds between two flushes to the file, while there is something new."""
    timeline: int = 0
    """Largest number of single events of devices and of the host that are kept; True: 1,000,000 of
    each. An event takes up to 100 bytes until the end, so that is 200 MB at most; the oldest are
    dropped."""
    clock: Callable[[], int] | None = None
    """Nanoseconds, for exact tests; with it there is no sampling and no flushing in between."""

    pc_sampling: bool | int | str | None = None
    """Sampling of GPUs' program counters: True, or the period in cycles."""
    pc_sampling_exact: bool = False
    """Kernels run one after the other, so that each sample belongs to a launch; much slower."""

    metrics: str | Sequence[str] | None = None
    """Hardware counters of each launch: sets (memory, tensor, occupancy) or metrics of CUPTI's.

    Or counts of instructions: `instructions`, or SASS metrics of CUPTI's.
    """

    pm_sampling: bool | float | str | None = None
    """`metrics` are sampled over time, and kernels run as they do: True, or each how many µs.

    Sets are then memory, tensor, occupancy (all three where `metrics` says nothing) and links.
    """

    memory: bool = False
    """Whether allocations of device memory are recorded that PyTorch's allocator makes. Without it
    what the allocator takes from the driver counts in its place."""

    duty: float | None = None
    """The share of the steps that is recorded, chosen at random."""
    every: int | None = None
    """The first of this many steps is recorded, and so on."""

    warm_up: int = 0
    """The number of steps of PyTorch's optimizers that are set-up, with all that was before them,
    where all steps are recorded; 0: nothing is kept apart."""

    @property
    def chooses_steps(self) -> bool:
        """Whether a part of the program's steps is recorded."""
        return self.duty is not None or self.every is not None

    @property
    def measured(self) -> Inside:
        """Return what `instrument` asks for."""
        return parse_instrument(self.instrument)

    @property
    def sampling(self) -> PcOptions | None:
        """Return what `pc_sampling` asks for, if anything."""
        return parse_pc_sampling(self.pc_sampling, self.pc_sampling_exact)

    @property
    def counted(self) -> Asked | AskedInstructions | None:
        """Return what `metrics` asks for, if anything, unless it is over time."""
        return parse_metrics(self.metrics) if self.over_time is None else None

    @property
    def over_time(self) -> SeriesAsked | None:
        """Return what `pm_sampling` asks for, if anything."""
        return parse_pm_sampling(self.pm_sampling, self.metrics)

    @property
    def operations(self) -> bool:
        """Whether call paths hold operations of frameworks."""
        return self.context in ("full", "native")

    @property
    def native(self) -> bool:
        """Whether call paths hold native frames."""
        return self.context == "native"

    @property
    def frames(self) -> bool:
        """Whether call paths hold Python frames."""
        return self.context != "scopes"


def parse_options(**options: Any) -> Options:
    """Return checked options; `UsageError` for an unknown one or a wrong value."""
    known = {field.name for field in fields(Options)}
    for name in options:
        if name not in known:
            raise UsageError(
                f"a profile has no option `{name}`", hint=f"It has: {', '.join(sorted(known))}."
            )
    parsed = Options(**options)
    inside = parse_record_options(parsed.inside)
    parsed = replace(parsed, timeline=_events(parsed.timeline), inside=inside)
    _check(parsed)
    return parsed


def _events(asked: object) -> int:
    if isinstance(asked, bool) or asked is None:
        return TIMELINE_EVENTS if asked else 0
    if not isinstance(asked, int) or not 0 <= asked <= MOST_EVENTS:
        raise UsageError(
            f"timeline is {asked!r}",
            hint=f"Give True, or how many events to keep: at most {MOST_EVENTS:,}.",
        )
    return asked


def _check(options: Options) -> None:
    if options.context not in get_args(Context):
        raise UsageError(
            f"context {options.context!r} is unknown",
            hint=f"Use one of {', '.join(get_args(Context))}.",
        )
    parse_instrument(options.instrument)
    sampling = parse_pc_sampling(options.pc_sampling, options.pc_sampling_exact)
    counted, over_time = options.counted, options.over_time
    if sampling is not None and (counted is not None or over_time is not None):
        excluded = EXCLUDED if over_time is None else EXCLUDED_SAMPLING
        raise UsageError(excluded, hint="Run the program twice, and join the profiles.")
    interval = options.flush_interval
    if not (_is_number(interval, (int, float)) and interval > 0):
        raise UsageError(f"flush_interval is {interval!r}", hint="Give seconds, a number above 0.")
    _check_steps(options)
    _check_warm_up(options)
    if options.clock is not None and options.timeline:
        raise UsageError(
            "a timeline has the machine's clock", hint="Leave `clock` out, or `timeline`."
        )
    if options.clock is not None and not callable(options.clock):
        raise UsageError(
            f"clock is {options.clock!r}", hint="Give a function that returns nanoseconds."
        )


def _check_steps(options: Options) -> None:
    duty, every = options.duty, options.every
    if duty is not None and every is not None:
        raise UsageError(
            "duty and every exclude each other",
            hint="Give a share of the steps (duty), or N to record every N-th step (every).",
        )
    if duty is not None and not (_is_number(duty, (int, float)) and 0 < duty <= 1):
        raise UsageError(
            f"duty cannot be {duty!r}", hint="Give a share of the steps, above 0 up to 1."
        )
    if every is not None and not (_is_number(every, (int,)) and every >= 1):
        raise UsageError(
            f"every cannot be {every!r}", hint="Give a whole number of steps, at least 1."
        )


def _check_warm_up(options: Options) -> None:
    if not (_is_number(options.warm_up, (int,)) and options.warm_up >= 0):
        raise UsageError(
            f"warm_up cannot be {options.warm_up!r}",
            hint="Give the number of steps that are set-up; 0 keeps nothing apart.",
        )


def _is_number(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def destination(path: str | os.PathLike[str]) -> Path:
    """Return where this process writes: `STEM.rankR.tprof` under a launcher, else `path` itself.

    Raises `OutputError` where nothing can be written there.
    """
    target = Path(path).absolute()
    rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", ""))
    return _writable(tagged(target, f"rank{rank}") if rank.isdigit() else target)


def tagged(path: Path, tag: str) -> Path:
    """Return the path with a tag before its suffix: `a.tprof` and `pid7` give `a.pid7.tprof`."""
    return path.with_name(f"{path.stem}.{tag}{path.suffix}")


def _writable(path: Path) -> Path:
    folder = path.parent
    if not folder.is_dir():
        raise OutputError(
            f"{path} cannot be written: there is no folder {folder}",
            hint="Make the folder first, or choose another file.",
        )
    reason = ""
    if path.is_dir():
        reason = "it is a folder"
    elif path.exists() and not path.is_file():
        # A rename onto it would take the place of a device or pipe.
        reason = "it is not a regular file"
    elif not os.access(folder, os.W_OK):
        reason = f"{folder} is not writable"
    else:
        reason = other_kind(path, database=True)
    if reason:
        raise OutputError(f"{path} cannot be written: {reason}", hint="Choose another file.")
    return path
