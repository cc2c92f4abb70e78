"""`tileprof compile`: a kernel as IR after any pass, as C++, or as what was decided about it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tileprof.errors import UsageError

from . import terminal
from .kernels import bindings, find, traced
from .later import refuse
from .parsing import Command, Parser, one_of

if TYPE_CHECKING:
    from tileprof import ir
    from tileprof.compiler import Options

__all__ = ["COMMAND"]

LATER_EMITS = ("cuda", "ptx", "sass")
LATER_TARGETS = ("sm_90a", "sm_80")
USAGE = (
    "FILE:KERNEL [--target TARGET] [--set NAME=VALUE]… [--instrument MODE]\n"
    "                        [--emit ir[:PASS]|cpp|remarks] [--strict] [--timing]"
)
_Result = TypeVar("_Result")


def _parser() -> Parser:
    parser = Parser(
        "compile",
        USAGE,
        "Compile KERNEL of FILE and show any stage of it. --set binds what is known at compile "
        "time: T.const names, arguments of a prim_func factory, a T.dynamic dimension.",
    )
    add = parser.add_argument
    add("kernel", metavar="FILE:KERNEL", help="a Python file and the name of a kernel in it")
    add(
        "--target",
        default="cpu",
        metavar="TARGET",
        help="cpu (default); sm_90a and sm_80 are not available yet",
    )
    add(
        "--set",
        dest="bindings",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="bind a name; repeat for several",
    )
    add(
        "--instrument",
        type=one_of("off", "scopes", "stages", "ops"),
        default="off",
        metavar="MODE",
        help="what is measured inside: off (default), scopes, stages or ops",
    )
    add("--emit", metavar="WHAT", help="ir[:PASS] (default), cpp or remarks")
    add("--strict", action="store_true", help="exit with 1 where a faster form was missed")
    add("--timing", action="store_true", help="print the compile time by stage")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print what was asked for."""
    args = _parser().parse_args(arguments)
    emit = args.emit or ("" if args.timing or args.strict else "ir")
    _check(args.target, emit)
    # Also imports what a compilation needs, which is no part of its time.
    from tileprof import compiler

    named, values = find(args.kernel), bindings(args.bindings)
    options = compiler.Options(instrument=args.instrument)
    start = time.perf_counter_ns()
    kernel = traced(named, values)
    frontend_ns = time.perf_counter_ns() - start
    if emit:
        terminal.show(_emitted(kernel, options, emit))
    if args.timing:
        terminal.show(_timing(kernel, options, frontend_ns))
    return _strict(kernel, options) if args.strict else 0


def _check(target: str, emit: str) -> None:
    if target in LATER_TARGETS:
        refuse(f"`--target {target}`")
    if target != "cpu":
        raise UsageError(f"there is no target `{target}`", hint="Targets are: cpu, sm_90a, sm_80.")
    if emit in LATER_EMITS:
        refuse(f"`--emit {emit}`")
    if emit not in ("", "ir", "cpp", "remarks") and not emit.startswith("ir:"):
        raise UsageError(
            f"there is nothing called `{emit}` to emit",
            hint="It can be: ir, ir:PASS, cpp, remarks (later: cuda, ptx, sass).",
        )


def _emitted(kernel: ir.Kernel, options: Options, what: str) -> str:
    from tileprof import compiler, ir

    name, _, step = what.partition(":")
    if name == "ir":
        return ir.print_kernel(compiler.after(kernel, options, step or compiler.PASSES[-1].name))
    program = compiler.compile_kernel(kernel, options)
    if name == "cpp":
        return program.cpp.text
    return "".join(f"{remark}\n" for remark in program.remarks)


def _strict(kernel: ir.Kernel, options: Options) -> int:
    from tileprof import compiler

    remarks = compiler.compile_kernel(kernel, options).remarks
    missed = [remark for remark in remarks if remark.severity == "missed"]
    for remark in missed:
        terminal.complain(str(remark))
    return int(bool(missed))


def _timing(kernel: ir.Kernel, options: Options, frontend_ns: int) -> str:
    """The time of each stage from the Python function to the loaded library, with empty caches."""
    from tileprof import compiler
    from tileprof.compiler import codegen

    stages: list[tuple[str, int]] = [("frontend", frontend_ns)]

    def timed(name: str, step: Callable[[], _Result]) -> _Result:
        start = time.perf_counter_ns()
        result = step()
        stages.append((name, time.perf_counter_ns() - start))
        return result

    for each in compiler.PASSES:
        kernel = timed(each.name, partial(each.apply, kernel, options))
    source = timed("emit", lambda: codegen.emit(kernel))
    _time_build(timed, kernel, source)
    total = ("total", sum(ns for _, ns in stages))
    return "".join(f"{name:<12}{ns / 1e6:10.2f} ms\n" for name, ns in [*stages, total])


def _time_build(timed: Callable[[str, Callable[[], Any]], Any], kernel: Any, source: Any) -> None:
    from tileprof.compiler.build import build, find_compiler
    from tileprof.runtime import cpu, cpu_pool

    found = find_compiler()
    if found is None:
        terminal.complain("no C++ compiler found; its time is left out")
        return
    # The pool is no part of a kernel: one serves all, and it is built once on a machine.
    cpu_pool.load_pool()
    kept = os.environ.get("TILEPROF_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEPROF_CACHE"] = folder
        try:
            timed("c++", lambda: build(source.text, source.headers, found, name=source.name))
            timed("load", lambda: cpu.CpuExecutable(kernel, source))
        finally:
            del os.environ["TILEPROF_CACHE"]
            if kept is not None:
                os.environ["TILEPROF_CACHE"] = kept


COMMAND = Command("compile", "compile a kernel and show any stage of it", main)
