"""`compile`: every stage of a kernel, what is bound, and files that are wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli_run import KERNEL
from tileprof import ir
from tileprof.compiler import FRONTEND, PASSES
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.common import OtherCandidate, OtherDecision, OtherReason

NAMES = [FRONTEND, *(step.name for step in PASSES)]
BOUND = ("--set", "M=16", "--set", "N=4")

FACTORY = """
import tileprof
import tileprof.lang as T

@tileprof.jit(out_idx=[-1])
def make(M, N, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, 8), threads=32) as b:
            for i, j in T.Parallel(8, N):
                Y[b * 8 + i, j] = X[b * 8 + i, j]
    return main

L = T.dynamic("L")

@T.prim_func
def flat(X: T.Tensor((L,), "float32"), Y: T.Tensor((L,), "float32")):
    with T.Kernel(T.ceildiv(L, 8), threads=32) as b:
        for i in T.Parallel(8):
            Y[b * 8 + i] = X[b * 8 + i]

def no_kernel():
    pass
"""


@pytest.fixture(autouse=True)
def _files(write: Any) -> None:
    write(prog=KERNEL, factory=FACTORY)


@pytest.mark.parametrize("step", [FRONTEND, *(each.name for each in PASSES)])
def test_ir_after_each_pass(cli: Any, step: str) -> None:
    """The text parses back to itself, whichever pass it is asked for."""
    found = cli("compile", "prog.py:row_sums", *BOUND, "--emit", f"ir:{step}")
    assert (found.code, found.err) == (0, "")
    assert ir.print_kernel(ir.parse(found.out)) == found.out


def test_ir_is_the_default(cli: Any, golden: Any) -> None:
    """Without `--emit` it is the program after the last pass; nothing is measured inside."""
    found = cli("compile", "prog.py:row_sums", *BOUND)
    assert (found.code, found.err) == (0, "")
    golden(found.out)
    assert cli("compile", "prog.py:row_sums", *BOUND, "--emit", "ir").out == found.out
    last = f"ir:{PASSES[-1].name}"
    assert cli("compile", "prog.py:row_sums", *BOUND, "--emit", last).out == found.out


def test_instruments_show(cli: Any) -> None:
    """`--instrument` puts records into the program and its source; without it there are none."""
    for emit in ("ir", "cpp"):
        arguments = ("compile", "prog.py:row_sums", *BOUND, "--emit", emit)
        plain = cli(*arguments).out
        texts = {
            mode: cli(*arguments, "--instrument", mode).out for mode in ("scopes", "stages", "ops")
        }
        assert cli(*arguments, "--instrument", "off").out == plain
        assert len({plain, *texts.values()}) == 4
        assert "record" not in plain


def test_cpp_is_what_the_cpu_device_compiles(cli: Any) -> None:
    """The text includes its headers and maps to the kernel's lines."""
    found = cli("compile", "prog.py:row_sums", *BOUND, "--emit", "cpp")
    assert (found.code, found.err) == (0, "")
    assert '#include "' in found.out
    assert re.search(r'^#line \d+ ".*prog\.py"$', found.out, re.M)


def test_remarks(cli: Any, folder: Path) -> None:
    """Each decision has its place and the reasons against the others."""
    found = cli("compile", "prog.py:row_sums", *BOUND, "--emit", "remarks")
    assert (found.code, found.err) == (0, "")
    assert found.out == (
        f"{folder}/prog.py:14:18: loop k: iterations in order\n"
        "  not 2 stages: the cpu has no asynchronous copies to overlap\n"
    )


def test_strict(cli: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that was missed fails the command and is named; without one nothing is said."""
    found = cli("compile", "prog.py:row_sums", *BOUND, "--strict")
    assert (found.code, found.out, found.err) == (0, "", "")
    from tileprof.compiler import program

    missed = Remark(
        OtherDecision("plain loops"),
        "gemm",
        "",
        None,
        (Rejection(OtherCandidate("a fast form"), OtherReason("no reason")),),
        "missed",
    )
    monkeypatch.setattr(program, "collect", lambda kernel: (missed,))
    found = cli("compile", "prog.py:row_sums", *BOUND, "--strict")
    assert (found.code, found.out) == (1, "")
    assert found.err == (
        "tileprof: a faster form is missed, which `strict` does not allow\n"
        "gemm: plain loops\n  not a fast form: no reason\n"
        "Remove the reasons, or compile without `strict`.\n"
    )


def test_timing(cli: Any) -> None:
    """The stages in their order with their milliseconds, which sum up."""
    cache = os.environ.get("TILEPROF_CACHE")
    found = cli("compile", "prog.py:row_sums", *BOUND, "--timing")
    assert (found.code, found.err) == (0, "")
    rows = [re.fullmatch(r"(\S+) +(\d+\.\d\d) ms", line) for line in found.out.splitlines()]
    names = [row[1] if row else None for row in rows]
    passes = [each.name for each in PASSES]
    assert names == ["frontend", *passes, "emit", "c++", "load", "total"]
    *stages, total = (float(row[2]) for row in rows if row)
    assert sum(stages) == pytest.approx(total, abs=0.01 * len(stages))
    assert min(stages) >= 0
    assert os.environ.get("TILEPROF_CACHE") == cache


def test_timing_and_text_go_together(cli: Any) -> None:
    """With both, the text comes first."""
    found = cli("compile", "prog.py:row_sums", *BOUND, "--emit", "ir", "--timing")
    assert found.out.startswith("kernel @row_sums(")
    assert found.out.splitlines()[-1].startswith("total")


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (
            "factory.py:make --set M=8 --set N=4",
            "kernel @make(%X: global<8, 4, float32>, %Y: out global<8, 4, float32>)",
        ),
        (
            "factory.py:make --set M=8 --set N=4 --set dtype=float16",
            "kernel @make(%X: global<8, 4, float16>, %Y: out global<8, 4, float16>)",
        ),
        ("factory.py:flat", "kernel @flat(%X: global<L, float32>, %Y: global<L, float32>)"),
        ("factory.py:flat --set L=32", "kernel @flat(%X: global<32, float32>, %Y: global<32, "),
        ("prog.py:row_sums --set M=9 --set N=2", "kernel @row_sums(%X: global<9, 2, float32>, "),
    ],
)
def test_what_set_binds(cli: Any, arguments: str, start: str) -> None:
    """Extents, arguments of a factory (any text too), a dynamic dimension."""
    found = cli("compile", *arguments.split())
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith(start)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("prog", "`prog` is not FILE:KERNEL\nFor example matmul.py:matmul.\n"),
        (
            "factory.py",
            "`factory.py` is not FILE:KERNEL\nChoose factory.py:flat, factory.py:make.\n",
        ),
        ("gone.py:k", "gone.py does not exist\nFILE is a Python file that defines the kernel.\n"),
        (".:k", ". is a folder\n"),
        ("text.txt:k", "text.txt is not a Python file\n"),
        (
            "factory.py:mak",
            "factory.py has no kernel `mak`\nDid you mean `make`? Its kernels are: flat, make.\n",
        ),
        ("factory.py:no_kernel", "factory.py has no kernel `no_kernel`\nIts kernels are: flat, "),
        ("empty.py:k", "empty.py has no kernel `k`\nIt has no kernels.\n"),
        ("prog.py:row_sums --set M", "`--set M` is not NAME=VALUE\nFor example --set M=1024.\n"),
        ("prog.py:row_sums --set M=two", "`--set M=two` is not a valid extent\n"),
        ("prog.py:row_sums --set M=-1", "`--set M=-1` is not a valid extent\n"),
        ("prog.py:row_sums --set M=True", "`--set M=True` is not a valid extent\n"),
        (
            "prog.py:row_sums --target tpu",
            "there is no target `tpu`\nDid you mean `cpu`? Targets are: ",
        ),
        ("prog.py:row_sums --emit llvm", "unknown stage `llvm`\nIt can be: ir, "),
        (
            "prog.py:row_sums --set M=1 --set N=1 --emit ir:fold",
            f"there is no pass `fold`\nPasses are: {', '.join(NAMES)}.\n",
        ),
    ],
)
def test_wrong_use(cli: Any, folder: Path, arguments: str, message: str) -> None:
    """Nothing is printed, the sentence says what there is, exit code 2."""
    (folder / "text.txt").write_text("")
    (folder / "empty.py").write_text("")
    found = cli("compile", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {message}")


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ("prog.py:row_sums", "--set M=…"),
        ("prog.py:row_sums --set M=4", "--set N=…"),
        ("factory.py:make", "--set M=… --set N=…"),
        ("factory.py:make --set N=4", "--set M=…"),
    ],
)
def test_what_is_not_bound_is_named(cli: Any, folder: Path, arguments: str, missing: str) -> None:
    """The message stands at the kernel and ends with the options that are missing."""
    found = cli("compile", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {folder}/{arguments.split(':')[0]}:")
    assert found.err.rstrip("`.\n").endswith(missing)
    assert "compile(" not in found.err


def test_names_that_the_kernel_does_not_have(cli: Any) -> None:
    """What could be bound is listed."""
    found = cli("compile", "prog.py:row_sums", *BOUND, "--set", "K=4")
    assert (found.code, found.out) == (2, "")
    assert "`row_sums` has no argument and no extent `K`\n" in found.err
    assert found.err.endswith("It has: X, M, N.\n")


def test_a_file_with_a_syntax_error(cli: Any, folder: Path, write: Any) -> None:
    """Python's sentence at the place, with a caret; the kernel is wrong, not the command."""
    write(bad="x = 1\nif x\n    y = 2")
    found = cli("compile", "bad.py:k")
    assert (found.code, found.out) == (1, "")
    assert found.err == (
        f"tileprof: {folder}/bad.py:2:5: Python cannot read it: expected ':'\n    if x\n        ^\n"
    )


@pytest.mark.parametrize("text", ["x = " + "(" * 5_000, "x = " + "-" * 20_000 + "1"])
def test_a_file_that_nests_too_deeply(cli: Any, write: Any, text: str) -> None:
    """A sentence, whatever Python says of it; no traceback."""
    write(bad=text)
    found = cli("compile", "bad.py:k")
    assert (found.code, found.out) == (1, "")
    assert "cannot be imported" in found.err or "Python cannot read it" in found.err
    assert "Traceback" not in found.err


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("def f():\n    return {}['key']\nf()", ":2: the file cannot be imported: KeyError: 'key'"),
        ("import sys\nsys.exit(3)", ":2: the file cannot be imported: SystemExit: 3"),
        ("raise ValueError", ":1: the file cannot be imported: ValueError"),
        (
            "import nothing_like_this",
            ":1: the file cannot be imported: ModuleNotFoundError: No module named "
            "'nothing_like_this'",
        ),
    ],
)
def test_a_file_that_raises(cli: Any, folder: Path, write: Any, text: str, what: str) -> None:
    """One message with the innermost line of the file, and how a script avoids it."""
    write(bad=text)
    found = cli("compile", "bad.py:k")
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith(f"tileprof: {folder}/bad.py{what}\n")
    missing = "Install the module in this environment, or add its folder to PYTHONPATH.\n"
    script = 'belongs under `if __name__ == "__main__":`.\n'
    assert found.err.endswith(missing if "ModuleNotFoundError" in what else script)


def test_what_a_file_prints_is_not_in_the_way(cli: Any, write: Any) -> None:
    """`compile … > kernel.cpp` holds the text alone."""
    write(loud="print('hello')\n" + KERNEL)
    found = cli("compile", "loud.py:row_sums", *BOUND, "--emit", "cpp")
    assert found.err == "hello\n"
    assert "hello" not in found.out


def test_a_kernel_that_is_wrong(cli: Any, folder: Path, write: Any) -> None:
    """The compiler's own message, exit code 1; an error of the author's Python has its line."""
    write(bad=KERNEL.replace("dim=1", "dim=7"), python=KERNEL.replace("(8, N)", "(8, N / None)"))
    found = cli("compile", "bad.py:row_sums", *BOUND)
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith(f"tileprof: {folder}/bad.py:17:13: ")
    assert "^^^" in found.err
    found = cli("compile", "python.py:row_sums", *BOUND)
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith(f"tileprof: {folder}/python.py:11: the kernel cannot be traced: ")
    assert "Traceback" not in found.err
