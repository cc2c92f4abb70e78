"""Compile for GPUs what an example compiled for the host, and compare with what it computed.

`watch()` remembers every kernel that a process makes, and the arguments of its first launch on the
interpreter.  `compiled` lowers each for a target and reads what ptxas says; `emulated` runs it on
the machine of `tileprof/emulator` on the same arguments.  No GPU is needed.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tilelang_running import Item, attempt

from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.errors import InternalError, TileprofError
from tileprof.remarks.products import GemmInstruction

__all__ = ["SECTION", "Compiled", "Made", "attempt_compiled", "compiled", "emulated", "made"]
__all__ += ["launched_names", "made_anew", "section", "tried", "watch"]

SECTION = "## On CUDA targets"
ALIKE = 2
"""Kernels of one name that are looked at in an example: the others differ in sizes."""
STATUSES = ("compiles", "refused", "fails")
EMULATION_S = 12
"""After this no further kernel of an example is run on the emulated machine."""


@dataclass
class Made:
    """A kernel of an example after the common passes; its first launch, where it was launched."""

    kernel: ir.Kernel
    symbols: tuple[int, ...] = ()
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of one kernel for one target."""

    kernel: str
    target: str
    status: str
    """compiles, refused (with an error for the author) or fails."""
    detail: str = ""
    registers: int = 0
    """Of the launch that takes the most."""
    spills: int = 0
    """Bytes stored and loaded."""
    notes: tuple[str, ...] = ()
    """Kinds of notes of ptxas."""
    choices: tuple[str, ...] = ()
    """Instructions of its products."""
    emulated: str = ""
    """What the emulated machine gave, compared with the interpreter; '' where it was not run."""


_variants: list[Any] = []
_kept: list[Any] = []
"""What `made_anew` gave; kept, because launches are known by identities."""
_launched: dict[int, Made] = {}
launched_names: list[str] = []
"""Names of the kernels that were launched, in order; whoever watches may clear it."""


def watch(largest: int | None = None) -> None:
    """Remember from now on; for a process of its own.  Of a launch with more than `largest` bytes
    of arguments, these are not kept."""
    from tileprof.lang.calls import Variant
    from tileprof.runtime.launch import LoadedKernel

    begin, launch = Variant.__init__, LoadedKernel.launch

    def begun(variant: Any, *given: Any) -> None:
        begin(variant, *given)
        _variants.append(variant)

    def launched(loaded: Any, values: Sequence[Any], symbols: Sequence[int]) -> Any:
        launched_names.append(loaded.program.kernel.name)
        if id(loaded.program) in _launched or _is_larger(values, largest):
            return launch(loaded, values, symbols)
        before = tuple(_array(v) for v in values)
        done = launch(loaded, values, symbols)
        after = tuple(_array(v) for v in values)
        _launched[id(loaded.program)] = Made(loaded.program.kernel, tuple(symbols), before, after)
        return done

    Variant.__init__ = begun  # type: ignore[method-assign]
    LoadedKernel.launch = launched  # type: ignore[method-assign]


def made() -> list[Made]:
    """Every kernel so far, those of the same text once, and few of the same name."""
    found: dict[str, Made] = {}
    named: Counter[str] = Counter()
    for variant in _variants:
        program = variant.program()
        held = _launched.get(id(program)) or Made(program.kernel)
        text = ir.print_kernel(program.kernel)
        named[held.kernel.name] += text not in found
        if text in found or named[held.kernel.name] <= ALIKE:
            found[text] = held if held.before else found.get(text, held)
    return list(found.values())


def made_anew() -> list[Made]:
    """Every kernel that was made since the last call."""
    programs = [v.program() for v in _variants]
    _kept.extend(programs)
    _variants.clear()
    return [_launched.get(id(p)) or Made(p.kernel) for p in programs]


def _is_larger(values: Sequence[Any], largest: int | None) -> bool:
    return largest is not None and sum(getattr(v, "nbytes", 0) for v in values) > largest


def tried(held: Made, target: str) -> Compiled:
    """Lower a kernel, and run it on the emulated machine where its first launch is known."""
    row, program = compiled(held.kernel, target)
    if program is None or not held.before:
        return row
    return replace(row, emulated=_emulation(held, program))


def _array(value: Any) -> Any:
    """A copy in NumPy of an array of any framework; anything else as it is."""
    if type(value).__module__ == "torch":
        import ml_dtypes
        import torch

        narrow = {
            torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
            torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
            torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
        }
        held = value.detach().clone()
        if value.dtype in narrow:
            bits, kind = narrow[value.dtype]
            return held.view(bits).numpy().view(kind)
        return held.numpy()
    return value.copy() if isinstance(value, np.ndarray) else value


def compiled(kernel: ir.Kernel, target: str) -> tuple[Compiled, CudaProgram | None]:
    """Lower a kernel and assemble it."""
    try:
        program = compile_cuda(kernel, find_target(target), Controls())
        cubin = program.cubin
    except BaseException as error:
        return Compiled(kernel.name, target, *_blame(error)), None
    used = cubin.resources.values()
    return Compiled(
        kernel.name,
        target,
        "compiles",
        "",
        max((r.registers for r in used), default=0),
        sum(r.spill_stores + r.spill_loads for r in used),
        tuple(sorted({f"{n.kind}{': ' + n.reason if n.kind == 'serialized' else ''}"
                      for n in cubin.notes if n.kind not in ("spill", "local")})),
        tuple(sorted({
            r.decision.instruction
            for r in program.remarks
            if isinstance(r.decision, GemmInstruction)
        })),
    ), program  # fmt: skip


def _blame(error: BaseException) -> tuple[str, str]:
    at = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(at.filename).name}:{at.lineno}"
    if isinstance(error, TileprofError):
        place = f" (line {error.location.line})" if error.location is not None else ""
        text = error.message.strip().splitlines()[0].replace("|", "\\|")
        clear = not isinstance(error, InternalError) and type(error).__name__ == "KernelError"
        return ("refused" if clear else "fails"), f"{text}{place}"
    text = (str(error).strip().splitlines() or [""])[0][:120].replace("|", "\\|")
    return "fails", f"{type(error).__name__}: {text} ({where})"


def emulated(held: Made, program: CudaProgram, seed: int = 0) -> str:
    """Empty where the emulated machine gives what the interpreter gave; `program` is the kernel's
    first variant, and the one that these rows allow is run."""
    from tileprof.emulator import emulate
    from tileprof.runtime.cuda.tensor_maps import fitting

    def variant(some: frozenset[int]) -> CudaProgram:
        if not some:
            return program
        return compile_cuda(held.kernel, program.target, program.controls, some)

    arrays = [v.copy() if isinstance(v, np.ndarray) else v for v in held.before]
    symbols = dict(zip(held.kernel.symbols, held.symbols, strict=True))
    _, fits = fitting(variant, lambda each: each.source.launches, symbols)
    emulate(fits.source, held.kernel, arrays, symbols, seed=seed)
    for param, got, want in zip(held.kernel.params, arrays, held.after, strict=True):
        if isinstance(got, np.ndarray) and (wrong := _difference(got, want)):
            return f"{param.name}: {wrong}"
    return ""


def _difference(got: Any, want: Any) -> str:
    if got.dtype.kind in "biu":
        count = int((got != want).sum())
        return f"{count} of {got.size} elements differ" if count else ""
    got, want = (x.astype(np.float64) for x in (got, want))
    scale = np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)), initial=1e-6)
    close = np.isclose(got, want, rtol=2e-2, atol=1e-2 * scale, equal_nan=True)
    if close.all():
        return ""
    worst = np.nanmax(np.abs(np.where(close, 0, got - want)), initial=0)
    return (
        f"{int((~close).sum())} of {got.size} elements are off by up to {worst:.3g} of {scale:.3g}"
    )


def attempt_compiled(item: Item, targets: Sequence[str]) -> list[Compiled]:
    """Run an example, then compile what it compiled; for a process of its own."""
    watch()
    attempt(item)
    end = time.monotonic() + EMULATION_S
    rows = []
    for held in made():
        for target in targets:
            row, program = compiled(held.kernel, target)
            if program is not None and held.before and time.monotonic() < end:
                row = replace(row, emulated=_emulation(held, program))
            rows.append(row)
    return rows


def _emulation(held: Made, program: CudaProgram) -> str:
    try:
        return emulated(held, program) or "agrees"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}".replace("\n", " ").replace("|", "\\|")


def section(rows: Sequence[tuple[str, Compiled]]) -> str:
    """The part of the page about GPUs; kernels of one name and example with equal results share a
    row."""
    count = Counter((each.target, each.status) for _, each in rows)
    totals = []
    for target in sorted({t for t, _ in count}, reverse=True):
        parts = [f"{count[target, s]} {s}" for s in STATUSES if count[target, s]]
        run = [each for _, each in rows if each.target == target and each.emulated]
        agree = sum(each.emulated == "agrees" for each in run)
        totals.append(f"- `{target}`: {', '.join(parts)}; {agree} of {len(run)} that were run on "
                      "the emulated machine agree with the interpreter")  # fmt: skip
    lines = dict.fromkeys(_row(name, each) for name, each in rows)
    return "\n".join([
        SECTION,
        "",
        "The kernels of the examples and fences, compiled without a GPU and, where they were"
        " launched at a small size and it takes seconds, run on the emulated machine of the tests."
        " Made by",
        "",
        "```text",
        "python benchmarks/tilelang_examples.py CHECKOUT --compile sm_90a,sm_80",
        "```",
        "",
        *totals,
        "",
        "| what | kernel | target | | registers | spilled bytes | products | emulated | notes |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *lines,
        "",
    ])  # fmt: skip


def _row(name: str, each: Compiled) -> str:
    numbers = [str(each.registers), str(each.spills)] if each.status == "compiles" else ["", ""]
    notes = "; ".join([*([each.detail] if each.detail else []), *each.notes])
    cells = [f"`{name}`", f"`{each.kernel}`", each.target, each.status, *numbers]
    return f"| {' | '.join([*cells, ', '.join(each.choices), each.emulated, notes])} |"
