"""`tileprof inspect`: show the resources and machine code of a kernel with its samples."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileprof.cli import terminal
from tileprof.cli.parsing import Command, Parser, number, one_of
from tileprof.errors import UsageError

from .compile_cuda import CudaCompilation
from .inspect_text import matching, render_details, render_resources
from .kernels import bindings, check_target, find, traced

if TYPE_CHECKING:
    from tileprof.binary import Cubin, Function, Line

USAGE = (
    "FILE.cubin [-i RE] [--json]\n"
    "       tileprof inspect FILE:KERNEL [--target TARGET] [--set NAME=VALUE]… [-i RE] [--json]\n"
    "       tileprof inspect FILE.tprof [-i RE] [-t PERCENT | --emit ttgir|ptx] [--json]"
)
SCHEMA = 1
TARGET = "sm_90a"
OF_KERNELS = {"--target": "target", "--set": "bindings"}
OF_PROFILES = {"-t": "threshold", "--emit": "emit"}
FEW = 8
"""Functions that are rather disassembled one by one than with all others of a large cubin."""


def _parser() -> Parser:
    parser = Parser(
        "inspect",
        USAGE,
        "Show the resources, loops, spilled registers and instruction mix of each kernel, and its "
        "SASS grouped by source line. FILE is a cubin, a Python file whose KERNEL is compiled "
        "first, or a profile. For a profile with instruction samples, show the SASS of the "
        "sampled functions and what stalled instructions wait for, or the code from which Triton "
        "compiled them.",
    )
    add = parser.add_argument
    add(
        "file",
        metavar="FILE",
        help="a .cubin file from any compiler, a Python file and the name of a kernel in it, or a "
        ".tprof file",
    )
    add("--target", metavar="TARGET", help="for FILE:KERNEL: sm_90a (default) or sm_80")
    add(
        "--set",
        dest="bindings",
        action="append",
        metavar="NAME=VALUE",
        help="for FILE:KERNEL: bind a value known at compile time; may be repeated",
    )
    add("-i", dest="include", metavar="RE", help="show only functions whose name matches")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "-t",
        dest="threshold",
        metavar="PERCENT",
        type=number(float),
        help="for a profile: fold instructions below this percentage of their function "
        "(default: 0.5)",
    )
    shape.add_argument(
        "--emit",
        type=one_of("ttgir", "ptx"),
        metavar="WHAT",
        help="for a profile: show ttgir or ptx of Triton kernels instead of SASS, for the "
        "kernel with the most samples, or with -i for matching ones",
    )
    add("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print what was found; resources come first, since they need no disassembler."""
    args = _parser().parse_args(arguments)
    if args.file.endswith(".tprof"):
        _refuse(args, OF_KERNELS, "kernels compiled from Python", "Name FILE:KERNEL.")
        return _profile(args)
    _refuse(args, OF_PROFILES, "profiles", "Name a .tprof file.")
    if _is_kernel(args.file):
        cubin = _compiled(args)
    else:
        _refuse(args, OF_KERNELS, "kernels compiled from Python", "Name FILE:KERNEL.")
        from tileprof import binary

        cubin = binary.read(args.file)
    functions = matching(cubin, args.include)
    if not functions and args.include is not None:
        raise UsageError(f"no function matches `{args.include}`", hint="Without -i all are listed.")
    if args.json:
        _read(cubin, functions)
        terminal.show(json.dumps(_cubin(cubin, functions), indent=1) + "\n")
        return 0
    terminal.show(render_resources(args.file, cubin, functions))
    _read(cubin, functions)
    for function in functions:
        terminal.show(render_details(function))
    return 0


def _read(cubin: Cubin, functions: Sequence[Function]) -> None:
    """Have the code of many functions disassembled together; UsageError where it is too much to
    be shown."""
    from tileprof.binary.limits import MOST_CODE_AT_ONCE

    size = sum(each.resources.code_bytes for each in functions)
    if size > MOST_CODE_AT_ONCE:
        raise UsageError(
            f"these {len(functions):,} functions have {size / 1e6:.0f} MB of code, and "
            f"{MOST_CODE_AT_ONCE / 1e6:.0f} MB are shown at once",
            hint="Choose some with -i RE.",
        )
    if len(functions) > FEW:
        cubin.read_code()


def _refuse(args: argparse.Namespace, options: Mapping[str, str], what: str, hint: str) -> None:
    """Raise `UsageError` where one of the options was given, which are for something else."""
    for name, place in options.items():
        if getattr(args, place) is not None:
            raise UsageError(f"`{name}` is for {what}", hint=hint)


def _is_kernel(name: str) -> bool:
    """Return whether `name` means FILE:KERNEL, or a Python file without its kernel."""
    return name.endswith(".py") or (":" in name and not Path(name).exists())


def _compiled(args: argparse.Namespace) -> Cubin:
    """Return the machine code of FILE:KERNEL, as `tileprof compile` makes it."""
    name = args.target or TARGET
    check_target(name)
    if name == "cpu":
        raise UsageError(
            "only kernels for a GPU have SASS to inspect",
            hint="Use --target sm_90a or sm_80, or `tileprof compile --emit cpp`.",
        )
    from tileprof import binary
    from tileprof.compiler.cuda.controls import Controls
    from tileprof.compiler.cuda.target import find_target

    kernel = traced(find(args.file), bindings(args.bindings or ()))
    work = CudaCompilation(kernel, find_target(name), Controls())
    return binary.read(work.program.cubin.bytes)


def _profile(args: argparse.Namespace) -> int:
    """Print the sampled functions of a profile, or their texts."""
    from tileprof.profile import load
    from tileprof.viewer import ViewOptions, render_texts, render_view, texts_json

    unicode = terminal.has_unicode(sys.stdout)
    if args.emit is not None:
        chosen = load(args.file), args.emit, args.include
        terminal.show(texts_json(*chosen) if args.json else render_texts(*chosen, unicode))
        return 0
    text = render_view(
        load(args.file),
        ViewOptions(include=args.include, threshold=args.threshold),
        "sass-json" if args.json else "blame",
        width=terminal.width(sys.stdout),
        color=terminal.has_color(sys.stdout),
        unicode=unicode,
    )
    terminal.show(text)
    return 0


def _cubin(cubin: Cubin, functions: Sequence[Function]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "architecture": cubin.architecture,
        "sha256": cubin.sha256,
        "functions": [_function(each) for each in functions],
    }


def _function(function: Function) -> dict[str, Any]:
    import dataclasses

    return {
        "name": function.name,
        "kernel": function.is_kernel,
        "resources": dataclasses.asdict(function.resources),
        "opcodes": dict(function.mix),
        "loops": _loops(function),
        "spills": _spills(function),
        "instructions": _instructions(function),
    }


def _loops(function: Function) -> list[dict[str, Any]]:
    from tileprof.binary import opcode_mix

    return [
        {
            "start": loop.start,
            "depth": loop.depth,
            "kind": loop.kind,
            "parent": loop.parent,
            "back_edges": loop.back_edges,
            "lines": _chain(function.chain(loop.start)),
            "opcodes": opcode_mix(function.inside(loop)),
        }
        for loop in function.loops
    ]


def _spills(function: Function) -> list[dict[str, Any]]:
    return [
        {
            "offset": spill.offset,
            "kind": spill.kind,
            "store": spill.is_store,
            "register": spill.register,
            "bytes": spill.bytes,
            "slot": spill.slot,
            "depth": spill.depth,
            "lines": _chain(spill.chain),
            "sources": spill.sources,
        }
        for spill in function.spills()
    ]


def _instructions(function: Function) -> list[dict[str, Any]]:
    return [
        {
            "offset": each.offset,
            "sass": each.text,
            "depth": function.depth(each.offset),
            "lines": _chain(function.chain(each.offset)),
        }
        for each in function.reachable()
    ]


def _chain(chain: Sequence[Line]) -> list[dict[str, Any]]:
    return [{"file": each.file, "line": each.line, "function": each.function} for each in chain]


COMMAND = Command("inspect", "show the resources and machine code of a kernel", main, _parser)
