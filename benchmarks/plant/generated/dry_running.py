"""Check Triton kernels and their mutants without a GPU: results at small extents, and cubins.

    python -m plant.generated.dry_running [--only RE] [--clean] [--jobs N] [-o FILE]
        in `benchmarks`

In: names of cases.  Out: for each, what is wrong with it, if anything: its result in Triton's
interpreter is not that of PyTorch in float64; it does not compile for sm_90 at the extents of a
run; its shared memory is more than a block may have. Needs Triton and PyTorch.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[3]))

from .families import FAMILIES, Family
from .mutants import mutants_of

__all__ = ["Case", "cases", "faults", "main"]

MOST_SHARED = 232448
"""Bytes of shared memory that a block may have on sm_90 (CUDA C++ Programming Guide 13.0)."""
LIMIT_S = 120
"""Longest time of one check of a case."""
_TYPES = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv", "int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64",
}  # fmt: skip
"""Triton's names of PyTorch's element types."""


@dataclass(frozen=True)
class Case:
    """A source of a family, and the extents that it runs at."""

    name: str
    family: Family
    text: str
    shape: Mapping[str, int]


@dataclass
class Launch:
    """One call of a kernel, as a launch would have got it."""

    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


def cases(only: str = "", clean: bool = False) -> Iterator[Case]:
    """Yield Triton families as they are, each before its mutants.

    Args:
        only: regular expression over names such as `triton-softmax/load-twice/0`.
        clean: leaves mutants out.
    """
    for family in FAMILIES.values():
        if family.language != "triton":
            continue
        made = [Case(f"{family.name}/clean/0", family, family.text, family.shape)]
        if not clean:
            held = (each for each in mutants_of(family) if not each.fault)
            made += [Case(m.name, family, m.text, m.shape) for m in held]
        yield from (each for each in made if re.search(only, each.name))


def faults(held: Iterable[Case], check: str, folder: Path) -> Iterator[tuple[Case, str]]:
    """Yield each case with what a check finds wrong, an empty text where that is nothing.

    Each case has a process of its own: one that reaches out of its tensors may end it.

    Args:
        held: cases to check.
        check: `compiled`, or `interpreted`, for which `TRITON_INTERPRET` has to be 1 before Triton
            is imported.
        folder: where sources are written to.
    """
    processes = multiprocessing.get_context("fork")
    for number, case in enumerate(held):
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(
            target=_one, args=(case, check, folder / str(number), theirs)
        )  # fmt: skip
        process.start()
        theirs.close()
        answer = None
        if ours.poll(LIMIT_S):
            with suppress(EOFError):
                answer = ours.recv()
        else:
            answer = f"not over after {LIMIT_S} s"
            process.kill()
        process.join()
        yield case, f"ended with status {process.exitcode}" if answer is None else answer


def _one(case: Case, check: str, folder: Path, answers: Any) -> None:
    """Send what a check finds wrong with a case."""
    try:
        fault = _CHECKS[check](case, folder)
    except Exception as error:  # whatever Triton raises is the answer
        said = " ".join(str(error).split()) or "no message"
        fault = f"{type(error).__name__}: {said[-200:]}"
    answers.send(fault)


def interpreted(case: Case, folder: Path) -> str:
    """Compare a case's result at small extents, by Triton's interpreter, with the reference."""
    from . import problems

    family = case.family
    with _missing_types():
        module = problems.imported(family, case.text, folder / f"{family.path.stem}.py")
        inputs = problems.inputs_of(family, problems.small(family), "cpu")
        work = problems.problem(family)
        problems.reset(work, inputs)
        expected = work.reference(*inputs)
        apart = problems.difference(problems.called(family, module, inputs), expected)
    return "" if apart <= work.limit else f"{apart:.2g} from the reference"


@contextmanager
def _missing_types() -> Iterator[None]:
    """Let the interpreter multiply and round bfloat16, and exchange float32.

    NumPy has no bfloat16, so the interpreter keeps its bits as whole numbers, multiplies those, and
    cuts float32 off where a GPU rounds to the nearest; it has no exchange of float32, which is one
    of the same bits.
    """
    import numpy as np
    import triton.language as tl
    from triton._C.libtriton import ir
    from triton.runtime import interpreter
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    convert = interpreter._convert_float

    def rounded(held: Any, one: Any, other: Any, mode: Any) -> Any:
        if (one, other) != (tl.float32, tl.bfloat16):
            return convert(held, one, other, mode)
        bits = held.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    dot, update = InterpreterBuilder.create_dot, InterpreterBuilder.create_atomic_rmw

    def wide(held: Any) -> Any:
        if held.dtype.scalar != tl.bfloat16:
            return held
        return TensorHandle((held.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *more: Any) -> Any:
        return dot(self, wide(a), wide(b), *more)

    def create_atomic_rmw(self: Any, kind: Any, place: Any, value: Any, *more: Any) -> Any:
        if kind != ir.ATOMIC_OP.XCHG or value.dtype.scalar != tl.float32:
            return update(self, kind, place, value, *more)
        bits = TensorHandle(value.data.view(np.int32), tl.int32)
        before = update(self, kind, place, bits, *more)
        return TensorHandle(before.data.view(np.float32), tl.float32)

    interpreter._convert_float = rounded
    InterpreterBuilder.create_dot = create_dot
    InterpreterBuilder.create_atomic_rmw = create_atomic_rmw
    try:
        yield
    finally:
        InterpreterBuilder.create_dot, InterpreterBuilder.create_atomic_rmw = dot, update
        interpreter._convert_float = convert


def compiled(case: Case, folder: Path) -> str:
    """Compile each launch of a case for sm_90, at the extents of a run."""
    import triton
    from triton.backends.compiler import GPUTarget

    from . import problems
    from .running import _hollow, _shapes

    family = case.family
    module = problems.imported(family, case.text, folder / f"{family.path.stem}.py")
    small = problems.inputs_of(family, problems.small(family), "cpu")
    sizes = _shapes(family, dict(case.shape))
    with _noted() as launches:
        problems.called(family, module, [_hollow(t).expand(s) for t, s in zip(small, sizes)])
    for launch in launches:
        options = {
            name: value for name, value in launch.options.items()
            if name in ("num_warps", "num_stages", "maxnreg")
        }  # fmt: skip
        made = triton.compile(_source(launch), GPUTarget("cuda", 90, 32), options)
        if made.metadata.shared > MOST_SHARED:
            return f"{made.metadata.shared} bytes of shared memory"
    return "" if launches else "nothing is launched"


@contextmanager
def _noted() -> Iterator[list[Launch]]:
    """Note what would be launched, and launch nothing."""
    from triton.runtime.jit import JITFunction

    held, noted = JITFunction.run, list[Launch]()

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        noted.append(Launch(self, arguments, options))

    JITFunction.run = run
    try:
        yield noted
    finally:
        JITFunction.run = held


def _source(launch: Launch) -> Any:
    """Return what a launch compiles: types, constants, and which numbers divide by 16."""
    from triton.compiler import ASTSource

    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for at, (parameter, value) in enumerate(zip(launch.function.params, launch.arguments)):
        free = parameter.do_not_specialize
        if parameter.is_constexpr or (type(value) is int and value == 1 and not free):
            types[parameter.name], constants[parameter.name] = "constexpr", value
            continue
        if hasattr(value, "dtype"):
            types[parameter.name] = "*" + _TYPES[str(value.dtype).removeprefix("torch.")]
        else:
            types[parameter.name] = "fp32" if isinstance(value, float) else "i32"
        if hasattr(value, "dtype") or (type(value) is int and value % 16 == 0 and not free):
            attributes[(at,)] = [["tt.divisibility", 16]]
    return ASTSource(launch.function, types, constants, attributes)


_CHECKS: Mapping[str, Callable[[Case, Path], str]] = {
    "compiled": compiled, "interpreted": interpreted
}  # fmt: skip


def _in_processes(check: str, options: Sequence[str], known: Mapping[str, str],
                  jobs: int) -> dict[str, str]:  # fmt: skip
    """Return what one check finds wrong, by case; Triton is told once a process how it runs.

    Args:
        check: `compiled` or `interpreted`.
        options: those that say which cases there are.
        known: cases to leave out.
        jobs: how many processes share the cases.
    """
    environment = {**os.environ, "TRITON_INTERPRET": str(int(check == "interpreted"))}
    wrong: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        left_out = Path(scratch) / "known.json"
        left_out.write_text(json.dumps(known))
        paths = [Path(scratch) / f"{part}.json" for part in range(jobs)]
        command = [sys.executable, "-m", "plant.generated.dry_running", "--check", check]
        command += [*options, "--known", str(left_out)]
        begun = [
            subprocess.Popen(
                [*command, "--part", f"{part}/{jobs}", "-o", str(path)],
                env=environment, cwd=Path(__file__).parents[2],
            )
            for part, path in enumerate(paths)
        ]  # fmt: skip
        for process, path in zip(begun, paths):
            status = process.wait()
            if not path.exists():
                sys.exit(f"the check `{check}` ended with status {status}")
            wrong |= json.loads(path.read_text())
    return wrong


def _checked(check: str, held: Iterable[Case]) -> dict[str, str]:
    """Return what one check finds wrong in this process, and print it."""
    import torch
    import triton  # before any case, as each is a fork

    torch.set_num_threads(1)
    assert triton.knobs.runtime.interpret == (check == "interpreted"), "TRITON_INTERPRET"
    wrong = {}
    with tempfile.TemporaryDirectory() as scratch:
        for case, fault in faults(held, check, Path(scratch)):
            if fault:
                wrong[case.name] = f"{check}: {fault}"
                print(f"{case.name}: {check}: {fault}", flush=True)
    return wrong


def main() -> int:
    """Compile; then interpret what compiles, in another process; print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression over names of cases")
    parser.add_argument("--clean", action="store_true", help="kernels as they are, no mutants")
    parser.add_argument("-o", "--output", type=Path, help="a JSON file of what is wrong, by name")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time")
    parser.add_argument("--part", default="0/1", help=argparse.SUPPRESS)
    parser.add_argument("--check", choices=tuple(_CHECKS), help=argparse.SUPPRESS)
    parser.add_argument("--known", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    held = list(cases(args.only, args.clean))
    wrong: dict[str, str] = {}
    if args.check:
        known = json.loads(args.known.read_text()) if args.known else {}
        part, parts = map(int, args.part.split("/"))
        left = [each for each in held if each.name not in known]
        wrong = _checked(args.check, left[part::parts])
    else:
        options = ["--only", args.only, *(["--clean"] if args.clean else [])]
        for check in _CHECKS:
            wrong |= _in_processes(check, options, wrong, args.jobs)
        print(f"{len(held)} cases, {len(wrong)} wrong")
    if args.output:
        args.output.write_text(json.dumps(wrong, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
