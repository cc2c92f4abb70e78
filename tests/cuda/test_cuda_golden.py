"""Small kernels as they become CUDA: what each pass changes, and the text at the end.

A golden of passes holds the kernel before them, then of each pass the lines that it takes away and
adds; numbers of values, which move with every new one, are not looked at to tell lines apart.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cuda.compiled_kernels import kernel, lowered
from tileprof import ir
from tileprof.compiler.cuda.pipeline import PASSES, compile_cuda
from tileprof.compiler.cuda.target import find_target

ROOT = Path(__file__).parents[2]
PASSED = [
    ("matmul", "sm_90a"),
    ("matmul", "sm_80"),
    ("softmax", "sm_90a"),
    ("transpose", "sm_90a"),
]
_NUMBERED = re.compile(r"%(\d+|c\d+(_\d+)?|([A-Za-z_]+)_\d+)\b")


def _changes(before: str, after: str) -> Iterator[str]:
    """The lines of a text that are others than before, under the line that they follow."""
    old, new = before.splitlines(), after.splitlines()
    same = difflib.SequenceMatcher(None, _unnumbered(old), _unnumbered(new), autojunk=False)
    for tag, i1, i2, j1, j2 in same.get_opcodes():
        if tag != "equal":
            yield f"  {new[j1 - 1].strip()[:60]}" if j1 else "  start"
            yield from (f"- {line}" for line in old[i1:i2])
            yield from (f"+ {line}" for line in new[j1:j2])


def _unnumbered(lines: list[str]) -> list[str]:
    return [_NUMBERED.sub("%", line) for line in lines]


@pytest.mark.parametrize(("name", "target"), PASSED)
def test_passes(name: str, target: str, golden: Callable[[str], None]) -> None:
    """The kernel after each pass is legal; what a pass left alone is not repeated."""
    given = kernel(f"small {name}")
    text = ir.print_kernel(given)
    parts, seen = [text], []

    def observe(step: str, made: ir.Kernel) -> None:
        nonlocal text
        ir.verify(made)
        seen.append(step)
        after = ir.print_kernel(made)
        if changed := "\n".join(_changes(text, after)):
            parts.append(f"==== {step}\n{changed}\n")
        text = after

    compile_cuda(given, find_target(target), observe=observe)
    assert seen == [step.name for step in PASSES]
    golden("\n".join(parts))


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("name", ["matmul", "softmax", "transpose"])
def test_text(name: str, target: str, golden: Callable[[str], None]) -> None:
    """The CUDA C++ text; files of lines are named from the project's folder."""
    golden(lowered(kernel(f"small {name}"), target).source.text.replace(f"{ROOT}/", ""))


PRINTED = """
from tests.cuda.compiled_kernels import kernel, lowered
from tileprof import ir
for name, target in {cases}:
    program = lowered(kernel("small " + name), target)
    print(ir.print_kernel(program.kernel), program.source.text, *program.remarks, sep="\\n")
"""


@pytest.mark.sweep
def test_another_process_gives_the_same() -> None:
    """The order of a set of names is another one there: goldens, remarks and the keys of cached
    cubins do not hang on it."""
    made = [lowered(kernel(f"small {name}"), target) for name, target in PASSED]
    own = [line for p in made for line in (ir.print_kernel(p.kernel), p.source.text, *p.remarks)]
    done = subprocess.run(
        [sys.executable, "-c", PRINTED.format(cases=PASSED)],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == "".join(f"{line}\n" for line in own)
