"""The passes, in order, with the reason for each position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tileprof import ir
from tileprof.errors import UsageError
from tileprof.instrument import Mode, insert

from .cuda.controls import Controls
from .passes import decide, prove_bounds, set_aside, simplify

__all__ = ["FRONTEND", "PASSES", "Mode", "Options", "Pass", "run"]

FRONTEND = "frontend"
"""The name of the kernel as it was traced, before any pass."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options that a kernel is compiled with, besides its own text."""

    instrument: Mode = "off"
    verify: bool = False
    """Check the kernel after every pass."""
    controls: Controls = field(default_factory=Controls)
    """Controls of the lowering for a GPU."""
    strict: bool = False
    """Whether a faster form that is missed is an error."""
    target: str = ""
    """A GPU that it is lowered for at once, wherever it runs."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One step from kernel to kernel; its name is what `--emit ir:NAME` and the goldens say."""

    name: str
    apply: Callable[[ir.Kernel, Options], ir.Kernel]


PASSES: tuple[Pass, ...] = (
    # First: tracing leaves constants and repeated index arithmetic that hide what is affine.
    Pass("simplify", lambda kernel, options: simplify(kernel)),
    # After simplify, which makes indices affine; before bounds, which then have fewer conditions.
    Pass("decide", lambda kernel, options: decide(kernel)),
    # After simplify, which tells constant distances; before bounds, which prove the new copies too.
    Pass("overlaps", lambda kernel, options: set_aside(kernel)),
    # After all of them, on the index expressions that are left; the backend then drops guards.
    Pass("bounds", lambda kernel, options: prove_bounds(kernel)),
    # Last: every pass before it sees the kernel that the user would run without measurement.  The
    # lowering for a GPU takes these records out again and has marks of its own.
    Pass("instrument", lambda kernel, options: insert(kernel, options.instrument)),
)


def run(
    kernel: ir.Kernel,
    options: Options,
    observe: Callable[[str, ir.Kernel], None] | None = None,
) -> ir.Kernel:
    """The kernel after all passes; `observe(name, kernel)` sees it before and after each."""
    _seen(FRONTEND, kernel, options, observe)
    for step in PASSES:
        kernel = step.apply(kernel, options)
        _seen(step.name, kernel, options, observe)
    return kernel


def _seen(
    name: str,
    kernel: ir.Kernel,
    options: Options,
    observe: Callable[[str, ir.Kernel], None] | None,
) -> None:
    if options.verify:
        ir.verify(kernel)
    if observe is not None:
        observe(name, kernel)


def after(kernel: ir.Kernel, options: Options, name: str) -> ir.Kernel:
    """The kernel as it is after the pass called `name` (`frontend`: before any)."""
    seen: dict[str, ir.Kernel] = {}
    run(kernel, options, seen.__setitem__)
    if name not in seen:
        raise UsageError(f"there is no pass `{name}`", hint=f"Passes are: {', '.join(seen)}.")
    return seen[name]
