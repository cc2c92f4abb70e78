"""`tileprof compile`: a kernel as IR after any pass, as C++, or as what was decided about it."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tileprof.errors import UsageError

from . import terminal
from .later import refuse

__all__ = ["add"]

LATER_EMITS = ("cuda", "ptx", "sass")
LATER_TARGETS = ("sm_90a", "sm_80")


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "compile",
        help="compile a kernel and show any stage of it",
        description="Compile KERNEL of FILE. --set binds what is known at compile time: T.const "
        "names, arguments of a prim_func factory, a T.dynamic dimension.",
    )
    add = parser.add_argument
    add("kernel", metavar="FILE:KERNEL", help="a Python file and the name of a kernel in it")
    add("--target", default="cpu", help="cpu (default); sm_90a and sm_80 are not available yet")
    add("--set", dest="bindings", action="append", default=[], metavar="NAME=VALUE")
    add(
        "--instrument",
        choices=("off", "scopes", "stages", "ops"),
        default="off",
        help="what is measured inside the kernel (default: off)",
    )
    add("--emit", metavar="WHAT", help="ir[:PASS] (default), cpp or remarks")
    add("--strict", action="store_true", help="fail where a faster form was missed")
    add("--timing", action="store_true", help="print the compile time by stage")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print what was asked for."""
    if args.target in LATER_TARGETS:
        refuse(f"`--target {args.target}`")
    if args.target != "cpu":
        raise UsageError(
            f"there is no target `{args.target}`", hint="Targets are: cpu, sm_90a, sm_80."
        )
    emit = args.emit or ("" if args.timing else "ir")
    if emit in LATER_EMITS:
        refuse(f"`--emit {emit}`")
    kernel = find(args.kernel)
    values = dict(_binding(text) for text in args.bindings)
    start = time.perf_counter_ns()
    compiled = kernel.compile(**values)
    traced_ns = time.perf_counter_ns() - start
    if emit:
        terminal.show(_emitted(compiled.traced, emit, args.instrument))
    if args.timing:
        _print_timing(compiled.traced, traced_ns, args.instrument)
    return _strict(compiled.traced, args.instrument) if args.strict else 0


def _emitted(traced: Any, what: str, instrument: Any) -> str:
    from tileprof import compiler, ir

    options = compiler.Options(instrument=instrument)
    name, _, step = what.partition(":")
    if name == "ir":
        final = compiler.PASSES[-1].name
        return ir.print_kernel(compiler.after(traced, options, step or final))
    program = compiler.compile_kernel(traced, options)
    if what == "cpp":
        return program.cpp.text
    if what == "remarks":
        return "".join(f"{remark}\n" for remark in program.remarks)
    raise UsageError(
        f"there is nothing called `{what}` to emit",
        hint="It can be: ir, ir:PASS, cpp, remarks (later: cuda, ptx, sass).",
    )


def _strict(traced: Any, instrument: Any) -> int:
    from tileprof import compiler

    program = compiler.compile_kernel(traced, compiler.Options(instrument=instrument))
    missed = [r for r in program.remarks if r.severity == "missed"]
    for remark in missed:
        print(remark, file=sys.stderr)
    return int(bool(missed))


def _print_timing(traced: Any, traced_ns: int, instrument: Any) -> None:
    from tileprof import compiler
    from tileprof.compiler.build import build, find_compiler

    options = compiler.Options(instrument=instrument)
    stages: list[tuple[str, int]] = [("frontend", traced_ns)]

    def timed(name: str, step: Callable[[], Any]) -> Any:
        start = time.perf_counter_ns()
        result = step()
        stages.append((name, time.perf_counter_ns() - start))
        return result

    kernel = traced
    for each in compiler.PASSES:
        kernel = timed(each.name, lambda each=each, kernel=kernel: each.apply(kernel, options))
    program = compiler.Program(traced, kernel, options)
    source = timed("emit", lambda: program.cpp)
    if find_compiler() is not None:
        # An empty cache of its own: the time of a cold compilation is what is asked for.
        with tempfile.TemporaryDirectory() as folder:
            timed("c++", lambda: build(source.text, folder=Path(folder)))
    for name, ns in [*stages, ("total", sum(ns for _, ns in stages))]:
        print(f"{name:<12} {ns / 1e6:9.2f} ms")


def find(place: str) -> Any:
    """The kernel that `FILE:KERNEL` names; UsageError with what is there."""
    path, _, name = place.rpartition(":")
    if not path or not name:
        raise UsageError(f"`{place}` is not FILE:KERNEL", hint="For example matmul.py:matmul.")
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"there is no file {path}")
    module = _load(file)
    kernel = getattr(module, name, None)
    if hasattr(kernel, "compile"):
        return kernel
    known = sorted(n for n, v in vars(module).items() if hasattr(v, "compile") and n[0] != "_")
    shown = ", ".join(known) or "none"
    raise UsageError(f"{path} has no kernel `{name}`", hint=f"Its kernels are: {shown}.")


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # As under `python FILE`: its folder is where its imports are found.
    sys.path.insert(0, str(file.parent.resolve()))
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _binding(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise UsageError(f"`--set {text}` is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
