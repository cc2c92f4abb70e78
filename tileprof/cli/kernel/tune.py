"""`tileprof tune`: find the fastest tile sizes, stages, threads and controls of a kernel."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tileprof.cli import terminal
from tileprof.cli.parsing import Command, Parser, number
from tileprof.errors import TileprofError, UsageError
from tileprof.progress import working

from .inputs import arguments as read_arguments
from .kernels import add_bindings, bindings, check_target, compiled, find

if TYPE_CHECKING:
    from tileprof.lang.jit_function import JitFunction, Kernel
    from tileprof.tuning import Configuration, KernelSubject, Outcome, Settings
    from tileprof.tuning.autotuned import AutotunedFunction

USAGE = (
    "FILE:KERNEL [--set NAME=VALUE]… [--device D | --target T] [--timed N]\n"
    f"{'':21}[--trials N] [--seconds S] [--input FILE.npz] [--explain] [--json]\n"
    f"{'':21}[--table FILE] [--no-keep]"
)


def _parser() -> Parser:
    parser = Parser(
        "tune",
        USAGE,
        "Find the fastest configuration of a kernel for the shapes that --set binds. Candidates "
        "are "
        "those of `@tileprof.autotune`; otherwise all tile sizes, stages and threads that --set "
        "leaves open, and lowering controls. A model ranks the candidates from trial compiles. The "
        "best few are timed in pairs until the winner is certain. Later calls use the result.",
    )
    add = parser.add_argument
    add("kernel", metavar="FILE:KERNEL", help="Python file and the name of a kernel in it")
    add_bindings(
        parser,
        "fix an extent, an argument of the kernel or a scalar; may be repeated",
    )
    add(
        "--device",
        metavar="D",
        help="where configurations are timed: cpu, cuda or cuda:N (default: cuda where there is a "
        "GPU, else cpu)",
    )
    add(
        "--target",
        metavar="T",
        help="only rank by the model, for sm_90a or sm_80; times nothing and needs no GPU",
    )
    add(
        "--timed",
        type=number(int),
        metavar="N",
        help="time at most N configurations (default: 10)",
    )
    add(
        "--trials",
        type=number(int),
        metavar="N",
        help="compile at most N configurations for the model (default: 256)",
    )
    add(
        "--seconds",
        type=number(float),
        metavar="S",
        help="start no new measurement after this time; the best so far wins (default: no limit)",
    )
    add("--input", metavar="FILE.npz", help="arrays to time with, by name (default: random ones)")
    add(
        "--explain",
        action="store_true",
        help="print the predicted and the measured time of each configuration",
    )
    add("--json", action="store_true", help="print everything as JSON")
    add("--table", metavar="FILE", help="add the result to a table that ships with the kernel")
    add("--no-keep", action="store_true", help="do not store the result in the cache")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print what was found."""
    args = _parser().parse_args(arguments)
    _check(args)
    # What a program prints is no part of the result.
    with contextlib.redirect_stdout(sys.stderr):
        outcome = _tuned(args)
    if args.json:
        from tileprof.tuning.json_form import to_json

        terminal.show(json.dumps(to_json(outcome)) + "\n")
    else:
        from .tune_text import text_of

        terminal.show(text_of(outcome, explained=args.explain))
    return 0


def _check(args: argparse.Namespace) -> None:
    from tileprof.runtime.selection import parse_device

    if args.target is not None:
        check_target(args.target)
        if args.target == "cpu" or args.device is not None:
            raise UsageError(
                "`--target` is for a GPU on which nothing is timed",
                hint="Use `--device` to time configurations, or `--target sm_90a` to rank them.",
            )
        for option, given in (("--table", args.table), ("--timed", args.timed)):
            if given:
                raise UsageError(f"`{option}` needs times", hint="Leave out --target.")
    elif args.device is not None and parse_device(args.device) == "interpreter":
        raise UsageError(
            "the interpreter defines what a kernel means; its time says nothing",
            hint="Use --device cpu or cuda, or rank for a GPU by --target sm_90a.",
        )
    for name in ("timed", "trials", "seconds"):
        if (given := getattr(args, name)) is not None and given <= 0:
            raise UsageError(f"`--{name} {given:g}` tries nothing", hint="Give a number above 0.")


def _tuned(args: argparse.Namespace) -> Outcome:
    from tileprof.tuning import tuned
    from tileprof.tuning.kept import Place, Result, add_to_table
    from tileprof.tuning.shapes import shapes_of

    with terminal.progress(), working("") as task:
        task.tell(f"loading {args.kernel}")
        function, wishes = _function(args.kernel)
        values = bindings(args.bindings)
        device = "" if args.target else _device(args.device)
        subject, extents = _subject(function, wishes, values, device, args)
        task.tell(f"tuning {function.__name__}")
    doubts = _doubts(device)
    outcome = tuned(subject, _settings(args, wishes))
    outcome = replace(outcome, notes=(*outcome.notes, *doubts))
    if outcome.timed:
        kernel = subject.kernel(outcome.winner.configuration)
        tunables = {t.name for t in outcome.space.tunables}
        static = {
            n: v for n, v in values.items()
            if n in function.signature.parameters and n not in tunables
        }  # fmt: skip
        shapes = shapes_of(kernel.traced, static, extents)
        result = Result.of(outcome, shapes)
        if not args.no_keep:
            Place.of(function.__name__, function.source.text, subject.machine).write(result)
        if args.table is not None:
            add_to_table(args.table, [result])
    return outcome


def _doubts(device: str) -> tuple[str, ...]:
    """Return why times may be wrong, as sentences: another program is running."""
    from tileprof.bench import read_gpus
    from tileprof.bench.doubts import known_before, load_average
    from tileprof.runtime.cuda.driver import load_driver
    from tileprof.runtime.roofs.keeping import uuid_of
    from tileprof.runtime.selection import gpu_number

    if not device:
        return ()
    gpu = None
    if device.startswith("cuda"):
        uuid = uuid_of(load_driver(), gpu_number(device))
        gpu = read_gpus().get(uuid)
    held = known_before(gpu, load_average(), os.cpu_count() or 1)
    return tuple(f"doubtful: {each}" for each in held)


def _function(place: str) -> tuple[JitFunction, AutotunedFunction | None]:
    """Return the function that FILE:KERNEL names, and its author's wishes where it has any."""
    from tileprof.lang.jit_function import JitFunction
    from tileprof.tuning import AutotunedFunction

    found = find(place)
    if isinstance(found, AutotunedFunction):
        return found.untuned, found
    if not isinstance(found, JitFunction):
        raise UsageError(
            f"`{place.rpartition(':')[2]}` has no arguments that could be tuned",
            hint="Name a `@tileprof.jit` function whose tile sizes are arguments.",
        )
    return found, None


def _subject(
    function: JitFunction,
    wishes: AutotunedFunction | None,
    values: Mapping[str, Any],
    device: str,
    args: argparse.Namespace,
) -> tuple[KernelSubject, dict[str, int]]:
    from tileprof.tuning import KernelSubject, machine_of
    from tileprof.tuning.space import listed_space

    listed = _listed(wishes, values)
    first = listed_space(listed, function.signature).default.named if listed else {}
    # Says what is missing, with the `--set` that gives it.
    whole = compiled(function, {**first, **values})
    extents = _at_launch(function, {**first, **values})
    fixed = {n: v for n, v in values.items() if n not in extents and _is_bound(function, whole, n)}
    arguments = _arguments(whole, values, device, args.input)
    subject = KernelSubject(
        function, fixed, arguments, device, machine_of(device, args.target or ""), listed,
        None if wishes is None else wishes.wishes.checks, extents,
    )  # fmt: skip
    return subject, extents


def _listed(
    wishes: AutotunedFunction | None, values: Mapping[str, Any]
) -> tuple[Configuration, ...]:
    """Return the author's configurations that agree with the values of `--set`."""
    listed = () if wishes is None else wishes.listed(values)
    kept = tuple(
        each for each in listed
        if all(each.named[n] == v for n, v in values.items() if n in each.named)
    )  # fmt: skip
    if listed and not kept:
        raise UsageError(
            "no configuration of the kernel has the values of --set",
            hint=f"The first one is `{listed[0]}`.",
        )
    return kept


def _is_bound(function: JitFunction, kernel: Kernel, name: str) -> bool:
    """Return whether a value of `--set` is known at compile time: scalars of a launch are not."""
    if name not in kernel.arguments:
        return True
    return function.lazy and name in function.signature.parameters


def _at_launch(function: JitFunction, values: Mapping[str, Any]) -> dict[str, int]:
    """Return the extents of `--set` that a kernel need not know before its launch."""
    found = {}
    for name in values.keys() - function.signature.parameters.keys():
        rest = {n: v for n, v in values.items() if n != name}
        with contextlib.suppress(TileprofError):
            if name in function.compile(**rest).traced.symbols:
                found[name] = values[name]
    return found


def _arguments(
    whole: Kernel, values: Mapping[str, Any], device: str, path: str | None
) -> Callable[[Kernel], Sequence[Any]]:
    """Return what gives a kernel's arguments, the same for all configurations."""
    from .bench_calls import arguments_of

    def made(kernel: Kernel) -> Sequence[Any]:
        if path is None:
            return arguments_of(whole, values, device)
        held = read_arguments(whole, path)
        return [_on_device(held[name], device) for name in kernel.arguments]

    return made


def _on_device(value: Any, device: str) -> Any:
    if not device.startswith("cuda") or not hasattr(value, "shape"):
        return value
    from tileprof.bench.arrays import moved_array

    return moved_array(value, device)


def _device(asked: str | None) -> str:
    from .bench import device_of_kernels

    return device_of_kernels(asked)


def _settings(args: argparse.Namespace, wishes: AutotunedFunction | None) -> Settings:
    from tileprof.tuning import Settings as Chosen

    made = Chosen() if wishes is None else wishes.wishes.settings
    if args.target is not None:
        made = replace(made, timed=0)
    if args.timed is not None:
        made = replace(made, timed=args.timed)
    if args.trials is not None:
        # Machine code is made of a part of them.
        made = replace(made, trials=args.trials, compiled=min(made.compiled, args.trials // 4))
    return replace(made, seconds=math.inf if args.seconds is None else args.seconds)


COMMAND = Command("tune", "find a kernel's fastest tile sizes and controls", main, _parser)
