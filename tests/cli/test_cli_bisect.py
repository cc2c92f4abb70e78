"""`tileprof bisect` on options, trees, commits and what Triton stored; exit codes and JSON."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.repeated import in_one_of_five_runs
from tileprof.native.building import find_compiler

pytestmark = pytest.mark.usefixtures("forked")

KERNEL = """
    import tileprof
    import tileprof.lang as T

    @tileprof.jit
    def scale(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                B[bx * 1024 + i] = A[bx * 1024 + i] * 2.0
        return B

    @tileprof.jit
    def copy(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                B[bx * 1024 + i] = A[bx * 1024 + i]
        return B
    """
COMPILED = ("--target", "cpu", "--compile-only")
SLOW = "T.exp(T.sin(T.exp(T.sin(A[bx * 1024 + i]))))"


def write(path: Path, text: str = KERNEL) -> None:
    """Write a file, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))


@pytest.fixture
def trees(folder: Path) -> Path:
    """Two source trees with a kernel that does more in the new one, and one that is only
    written in another way."""
    write(folder / "kernels.py")
    write(folder / "old" / "kernels.py")
    new = KERNEL.replace("A[bx * 1024 + i] * 2.0", SLOW)
    write(folder / "new" / "kernels.py", new.replace("T.Parallel(1024)", "T.Parallel(2 * 512)"))
    return folder


def report(found: Any) -> Any:
    """Return the JSON of a run."""
    return json.loads(found.out)


def test_kernels_of_two_trees(cli: Any, trees: Path) -> None:
    """The source of one kernel differs with effect, that of the other without."""
    found = cli("bisect", "old", "new", "kernels.py", "--set", "N=65536", *COMPILED)
    assert found.code == 0
    assert "Not timed: --compile-only was given." in found.out
    assert "scale  CHANGED  first level: Python source\n" in found.out
    assert "copy   unchanged\n  differs without effect: Python source" in found.out
    assert "1 of 2 kernels changed in what a GPU runs" in found.out


def test_kernels_that_a_script_or_a_function_launches(cli: Any, trees: Path) -> None:
    """Each set of shapes is a kernel, of a script with its arguments or of a function's calls."""
    main = """
        import sys
        import numpy as np
        from kernels import scale

        def launch(size=2048):
            for length in (size, 2 * size):
                scale(np.ones(length, np.float32))

        if __name__ == "__main__":
            launch(int(sys.argv[1]))
        """
    for folder in (trees, trees / "old", trees / "new"):
        write(folder / "main.py", main)
    for suite in (["main.py", "1024"], ["main.py:launch"]):
        found = report(cli("bisect", "--json", *COMPILED, "old", "new", *suite))
        kernels = {each["kernel"]: each["difference"]["level"] for each in found["kernels"]}
        assert kernels == {"scale": "python", "scale #2": "python"}
        assert [each["verdict"] for each in found["kernels"]] == ["changed", "changed"]


@pytest.mark.sweep
def test_options_of_a_kernel_for_a_gpu(cli: Any, folder: Path) -> None:
    """The option that acts is named among two, with the way back, in JSON of schema 1."""
    pytest.importorskip("cuda.bindings")
    write(folder / "kernels.py")
    given = "vectorize=off,wgmma=off"
    found = report(
        cli("bisect", "default", given, "kernels.py:scale", "--set", "N=65536", "--compile-only",
            "--json")
    )  # fmt: skip
    assert (found["schema"], found["timed"], found["target"]) == (1, False, "sm_90a")
    (kernel,) = found["kernels"]
    assert (kernel["verdict"], kernel["difference"]["level"]) == ("changed", "options")
    assert kernel["difference"]["step"] == "vectorize"
    assert [(each["name"], each["restores"]) for each in kernel["culprits"]] == [
        ("vectorize", True)
    ]
    assert kernel["numbers"][1]["instructions"] > kernel["numbers"][0]["instructions"]


@pytest.mark.skipif(find_compiler() is None, reason="kernels run on the processor need a compiler")
@in_one_of_five_runs
def test_times_on_the_processor_and_the_gate(cli: Any, trees: Path) -> None:
    """A kernel that does far more is slower beyond noise, and the gate fails."""
    words = ("bisect", "old", "new", "kernels.py:scale", "--set", "N=8192", "--target", "cpu")
    found = cli(*words, "--no-walk", "--json", "--fail-if", "time > +100%")
    assert found.code == 1
    assert "the gate failed for scale: time > +100%" in found.err
    (kernel,) = report(found)["kernels"]
    assert (kernel["verdict"], kernel["difference"]["level"]) == ("slower", "python")
    assert kernel["time"]["low"] > 2
    assert len(kernel["time"]["pairs"]) >= 3


def test_commits_between_two(cli: Any, folder: Path) -> None:
    """The commit that changed the kernel is found among eight; one of them cannot be imported."""
    texts = [KERNEL] * 4 + ["import missing_module"] + [KERNEL.replace("2.0", "3.0")] * 3
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number, text in enumerate(texts):
        write(folder / "kernels.py", text)
        (folder / "number.txt").write_text(str(number))
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", f"Number {number}"], check=True)
    found = cli("bisect", "HEAD~7", "HEAD", "kernels.py:scale", "--set", "N=4096", *COMPILED)
    assert found.code == 0
    assert "Number 5\n    or the commit before it, which does not compile" in found.out
    assert "    scale: Python source\n    files: kernels.py, number.txt\n" in found.out


def test_what_triton_stored(cli: Any, folder: Path) -> None:
    """Two folders of Triton's cache: the stage that differs first, and options of the metadata."""
    for side, layout, warps in (("a", "blocked", 4), ("b", "blocked2", 4), ("c", "blocked", 8)):
        place = folder / side / "K3Y"
        place.mkdir(parents=True)
        (place / "add.ttir").write_text('#loc = loc("k.py":1:0)\n%0 = tt.load %x loc(#loc)\n')
        (place / "add.ttgir").write_text(f"%0 = tt.load %x {{layout = {layout}, {warps}}}\n")
        (place / "add.ptx").write_text(f".version 8.7\nld.global {layout}, {warps};\n")
        metadata = {"num_warps": warps, "shared": 0, "hash": side, "triton_version": "3.9.0"}
        (place / "add.json").write_text(json.dumps(metadata))
    found = cli("bisect", "a", "b")
    assert "add  CHANGED  first level: code made of the IR, TTGIR\n" in found.out
    assert "    - %0 = tt.load %x {layout = blocked, 4}" in found.out
    options = report(cli("bisect", "a", "c", "--json"))["kernels"][0]["difference"]
    assert (options["level"], options["text"]) == ("options", "num_warps 4 → 8")
    same = cli("bisect", "a", "a")
    assert "0 of 1 kernel changed" in same.out


@pytest.mark.spread(without=["words9-has no kernel or function `scal`"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["default", "x=", "kernels.py"], "`x=` is not NAME=VALUE"),
        (["default", "stages=2"], "no suite given"),
        (["default", "stages=2", "none.py"], "none.py does not exist"),
        (["default", "gone", "kernels.py"], "`gone` names no side"),
        (["default", "stages=2", "kernels.py", "--target", "sm_10"], "there is no target `sm_10`"),
        (["--compile-only", "default", "stages=2", "kernels.py", "--fail-if", "time > +5%"],
         "`--compile-only` measures no time"),
        (["default", "stages=2", "kernels.py", "--fail-if", "count > 5"],
         "`count` is not compared here"),
        (["default", "stages=2", "kernels.py", "--floor", "-1"], "`--floor` is a percentage"),
        (["--compile-only", "default", "swirl=off", "kernels.py:scale", "--set", "N=64"],
         "has no control `swirl`"),
        (["--compile-only", "default", "stages=2", "kernels.py:scal", "--set", "N=64"],
         "has no kernel or function `scal`"),
    ],
)  # fmt: skip
def test_wrong_use_says_the_way_out(cli: Any, folder: Path, words: list[str], message: str) -> None:
    """One message, and no output."""
    write(folder / "kernels.py")
    found = cli("bisect", *words)
    assert found.code in (1, 2)
    assert message in found.err
    assert found.out == ""
