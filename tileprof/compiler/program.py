"""A kernel on its way from traced text to something that runs; each step adds to the one before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tileprof import ir
from tileprof.once import cached_property
from tileprof.remarks import Remark

from . import pipeline
from .pipeline import Options
from .remarks import collect, refuse_missed
from .work import WorkModel, estimate

if TYPE_CHECKING:
    from .codegen import CppSource
    from .cuda.pipeline import CudaProgram


@dataclass(frozen=True)
class Program:
    """A kernel after all passes.  Emitted source, remarks and the work model are made on demand."""

    traced: ir.Kernel
    """The kernel as the frontend gave it."""
    kernel: ir.Kernel
    """The kernel after all passes: what every device runs."""
    options: Options = field(default_factory=Options)

    @cached_property
    def cpp(self) -> CppSource:
        """The C++ text for the `cpu` device."""
        # Only the `cpu` device needs the code generator; the interpreter starts without it.
        from .codegen import emit

        return emit(self.on_cpu)

    @cached_property
    def on_cpu(self) -> ir.Kernel:
        """The kernel as the `cpu` device runs it: with marks where it is to be sampled."""
        from .codegen import marked

        return marked(self.kernel) if self.options.instrument == "sample" else self.kernel

    def lowered(self, target: str) -> CudaProgram:
        """The kernel for a GPU, under the options' controls; UsageError for no target, KernelError
        where it cannot run there, or where `strict` does not allow what it became."""
        from .cuda.pipeline import compile_cuda
        from .cuda.target import find_target

        made = compile_cuda(
            self.kernel,
            find_target(target),
            self.options.controls,
            instrument=self.options.instrument,
        )
        if self.options.strict:
            refuse_missed(made.all_remarks)
        return made

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """Return what the compiler decided about each op, and why."""
        return collect(self.kernel)

    @cached_property
    def work(self) -> WorkModel:
        """Flops and bytes as a function of the launch; records do no work, so any variant
        serves."""
        return estimate(self.kernel)


def compile_kernel(traced: ir.Kernel, options: Options | None = None) -> Program:
    """Run the passes over a traced kernel."""
    options = options or Options()
    return Program(traced, pipeline.run(traced, options), options)
