"""`tileprof compile`: a kernel as IR after any pass, as C++, CUDA, PTX or SASS, or what was decided
about it.  `compile_cuda` has the side of it that is for GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tileprof.cli import terminal
from tileprof.cli.parsing import Command, Parser, one_of
from tileprof.errors import UsageError, suggestion
from tileprof.once import cached_property

from . import compile_cuda
from .compile_cuda import Stages, empty_cache
from .kernels import add_bindings, bindings, check_target, find, traced

if TYPE_CHECKING:
    from tileprof import ir
    from tileprof.compiler import Options, Program, Remark

USAGE = (
    "FILE:KERNEL [--target TARGET] [--set NAME=VALUE]… [--instrument MODE]\n"
    "                        [--emit ir[:PASS]|cpp|cuda|ptx|sass|remarks] [--control NAME=VALUE]…\n"
    "                        [--strict] [--timing]"
)


def _parser() -> Parser:
    parser = Parser(
        "compile",
        USAGE,
        "Compile KERNEL of FILE and print any stage of the compilation. --set binds values "
        "that are known at compile time: T.const names, arguments of a prim_func factory, "
        "T.dynamic dimensions.",
    )
    add = parser.add_argument
    add("kernel", metavar="FILE:KERNEL", help="Python file and the name of a kernel in it")
    add("--target", default="cpu", metavar="TARGET", help="cpu (default), sm_90a or sm_80")
    add_bindings(parser, "bind a name to a value; may be repeated")
    add(
        "--instrument",
        type=one_of("off", "scopes", "stages", "ops", "sample"),
        default="off",
        metavar="MODE",
        help="what to measure inside the kernel: off (default), scopes, stages, ops or, on a GPU, "
        "sample",
    )
    add(
        "--emit",
        metavar="WHAT",
        help="ir[:PASS] (default) or remarks; cpp for the cpu; cuda, ptx or sass for a GPU",
    )
    add(
        "--control",
        dest="controls",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="force or forbid a decision of the GPU compiler, for example --control tma=off",
    )
    add(
        "--strict",
        action="store_true",
        help="exit with status 1 if an operation was not compiled to its fastest form",
    )
    add("--timing", action="store_true", help="print the compile time of each stage")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print what was asked for."""
    args = _parser().parse_args(arguments)
    emit = args.emit or ("" if args.timing or args.strict else "ir")
    _check(args, emit)
    # Also imports what a compilation needs, which is no part of its time.
    from tileprof import compiler

    named, values = find(args.kernel), bindings(args.bindings)
    stages = Stages()
    kernel = stages.timed("frontend", lambda: traced(named, values))
    work = _Cpu(kernel, compiler.Options(instrument=args.instrument))
    return _show(work if args.target == "cpu" else _cuda(kernel, args), emit, args, stages)


def _check(args: Any, emit: str) -> None:
    on_cpu = args.target == "cpu"
    check_target(args.target)
    if emit in compile_cuda.EMITS and on_cpu:
        raise UsageError(f"`--emit {emit}` is for a GPU", hint="Add --target sm_90a or sm_80.")
    if emit == "cpp" and not on_cpu:
        raise UsageError(
            f"`--emit cpp` is for the cpu, not for {args.target}", hint="Use --emit cuda."
        )
    known = ("", "ir", "cpp", "remarks", *compile_cuda.EMITS)
    if emit not in known and not emit.startswith("ir:"):
        raise UsageError(
            f"unknown stage `{emit}`",
            hint=f"{suggestion(emit, known)}It can be: ir, ir:PASS, remarks; cpp (for the cpu); "
            "cuda, ptx, sass (for a GPU).",
        )
    if args.controls and on_cpu:
        raise UsageError("`--control` is for a GPU", hint="Add --target sm_90a or sm_80.")


def _cuda(kernel: ir.Kernel, args: Any) -> compile_cuda.CudaCompilation:
    from tileprof.compiler.cuda.controls import parse_controls
    from tileprof.compiler.cuda.target import find_target

    return compile_cuda.CudaCompilation(
        kernel, find_target(args.target), parse_controls(args.controls), args.instrument
    )


def _show(work: _Cpu | compile_cuda.CudaCompilation, emit: str, args: Any, stages: Stages) -> int:
    if emit:
        terminal.show(_emitted(work, emit))
    if args.timing:
        work.time(stages)
        terminal.show(str(stages))
    if args.strict:
        from tileprof.compiler.remarks import refuse_missed

        refuse_missed(work.remarks())
    return 0


def _emitted(work: _Cpu | compile_cuda.CudaCompilation, what: str) -> str:
    from tileprof import ir

    name, _, step = what.partition(":")
    if name == "ir":
        return ir.print_kernel(work.after(step))
    if name == "remarks":
        return "".join(f"{remark}\n" for remark in work.remarks())
    return work.text(name)


@dataclass(frozen=True)
class _Cpu:
    """A traced kernel on its way to the `cpu` device."""

    traced: ir.Kernel
    options: Options

    @cached_property
    def program(self) -> Program:
        """The kernel after all passes."""
        from tileprof import compiler

        return compiler.compile_kernel(self.traced, self.options)

    def text(self, what: str) -> str:
        """Return the C++."""
        return self.program.cpp.text

    def after(self, step: str) -> ir.Kernel:
        """Return the kernel after a pass, '' for the last."""
        from tileprof import compiler

        return compiler.after(self.traced, self.options, step or compiler.PASSES[-1].name)

    def remarks(self) -> tuple[Remark, ...]:
        """Return the compiler's decisions."""
        return self.program.remarks

    def time(self, stages: Stages) -> None:
        """Add the time of each stage up to the loaded library, with an empty cache."""
        from tileprof import compiler

        kernel = self.traced
        for each in compiler.PASSES:
            kernel = stages.timed(each.name, partial(each.apply, kernel, self.options))
        source = stages.timed("emit", lambda: compiler.Program(kernel, kernel, self.options).cpp)
        _time_build(stages, kernel, source)


def _time_build(stages: Stages, kernel: Any, source: Any) -> None:
    from tileprof.compiler.build import build, find_compiler
    from tileprof.runtime.cpu import executable as cpu
    from tileprof.runtime.cpu import pool as cpu_pool

    found = find_compiler()
    if found is None:
        terminal.complain("no C++ compiler found; its time is not shown")
        return
    # The pool is no part of a kernel: one serves all, and it is built once on a machine.
    cpu_pool.load_pool()
    with empty_cache():
        stages.timed("c++", lambda: build(source.text, source.headers, found, name=source.name))
        stages.timed("load", lambda: cpu.CpuExecutable(kernel, source))


COMMAND = Command("compile", "compile a kernel and print any stage of it", main, _parser)
