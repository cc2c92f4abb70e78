"""Output of `tileprof compile` for a GPU; the CUDA side of `compile_command`.

In: a traced kernel, a target, lowering controls and what is measured inside.  Out: texts.  Only
PTX, SASS, timing and what the assembler says need NVRTC; nothing needs a GPU.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tileprof.cli import terminal
from tileprof.errors import MissingDependencyError, UsageError
from tileprof.once import cached_property

if TYPE_CHECKING:
    from tileprof import ir
    from tileprof.compiler import Remark
    from tileprof.compiler.cuda.controls import Controls
    from tileprof.compiler.cuda.pipeline import CudaProgram
    from tileprof.compiler.cuda.target import Target
    from tileprof.compiler.pipeline import Pass
    from tileprof.instrument import Mode

EMITS = ("cuda", "ptx", "sass")


class _Reached(Exception):
    """The pass whose kernel was asked for has run; it carries the kernel."""

    def __init__(self, kernel: ir.Kernel) -> None:
        super().__init__()
        self.kernel = kernel


@dataclass(frozen=True)
class CudaCompilation:
    """A traced kernel on its way to a GPU."""

    traced: ir.Kernel
    target: Target
    controls: Controls
    instrument: Mode = "off"

    @cached_property
    def program(self) -> CudaProgram:
        """The kernel after all passes; its binary is made on demand."""
        return self._lowered(lambda name, kernel: None)

    def _lowered(self, observe: Callable[[str, ir.Kernel], None]) -> CudaProgram:
        from tileprof.compiler import FRONTEND, Options
        from tileprof.compiler.cuda.pipeline import compile_cuda

        kernel = self.traced
        observe(FRONTEND, kernel)
        for each in _common_passes():
            kernel = each.apply(kernel, Options())
            observe(each.name, kernel)
        return compile_cuda(
            kernel, self.target, self.controls, instrument=self.instrument, observe=observe
        )

    def text(self, what: str) -> str:
        """`cuda`, `ptx` or `sass`."""
        from tileprof.compiler.cuda.build import disassemble

        match what:
            case "cuda":
                return self.program.source.text
            case "ptx":
                return self.program.cubin.ptx
            case _:
                return disassemble(self.program.cubin)

    def after(self, step: str) -> ir.Kernel:
        """Return the kernel after a pass, '' for the last; later passes do not run."""
        names: list[str] = []

        def observe(name: str, kernel: ir.Kernel) -> None:
            names.append(name)
            if name == step:
                raise _Reached(kernel)

        try:
            kernel = self._lowered(observe).kernel
        except _Reached as reached:
            return reached.kernel
        if step:
            raise UsageError(f"there is no pass `{step}`", hint=f"Passes are: {', '.join(names)}.")
        return kernel

    def remarks(self) -> tuple[Remark, ...]:
        """Return all remarks; without NVRTC those of the passes, and a complaint."""
        try:
            return self.program.all_remarks
        except MissingDependencyError as error:
            terminal.complain(f"the assembler's messages are missing: {error}")
            return self.program.remarks

    def time(self, stages: Stages) -> None:
        """Add the time of each stage up to the cubin, with an empty cache."""
        from tileprof.compiler import Options
        from tileprof.compiler.cuda import nvrtc
        from tileprof.compiler.cuda.pipeline import compile_cuda

        kernel = self.traced
        for each in _common_passes():
            kernel = stages.timed(each.name, partial(each.apply, kernel, Options()))
        program = compile_cuda(kernel, self.target, self.controls, instrument=self.instrument)
        try:
            # Loading NVRTC is no part of a kernel: once serves all.
            nvrtc.version()
        except MissingDependencyError as error:
            terminal.complain(f"NVRTC's time is missing: {error}")
        else:
            with empty_cache():
                _ = program.cubin
        for name, ns in program.stages.items():
            stages.add(name, ns)


def _common_passes() -> list[Pass]:
    """Return the passes in front of those of the target, which have marks in place of records."""
    from tileprof.compiler import PASSES

    return [each for each in PASSES if each.name != "instrument"]


_Result = TypeVar("_Result")


@dataclass
class Stages:
    """Names and times in ns, in order."""

    held: list[tuple[str, int]] = field(default_factory=list)

    def add(self, name: str, ns: int) -> None:
        """Note a stage that was timed elsewhere."""
        self.held.append((name, ns))

    def timed(self, name: str, step: Callable[[], _Result]) -> _Result:
        """Do a step and note its time."""
        start = time.perf_counter_ns()
        result = step()
        self.add(name, time.perf_counter_ns() - start)
        return result

    def __str__(self) -> str:
        total = ("total", sum(ns for _, ns in self.held))
        return "".join(f"{name:<12}{ns / 1e6:10.2f} ms\n" for name, ns in [*self.held, total])


@contextmanager
def empty_cache() -> Iterator[None]:
    """Compile as on the first day: with a cache that is empty, and gone afterwards."""
    kept = os.environ.get("TILEPROF_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEPROF_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["TILEPROF_CACHE"]
            if kept is not None:
                os.environ["TILEPROF_CACHE"] = kept
