"""`pdb`, `breakpoint()` and the command line: a kernel is debugged as the text it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """\
import numpy as np
import tileprof
import tileprof.lang as T

@T.macro
def twice(x):
    y = x + x
    return y

@tileprof.jit{options}
def scale(A, B):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 2)) as bx:
        tile = T.alloc_shared((2,), T.float32)
        total = T.alloc_var("float32", 0.0)
        T.copy(A[bx * 2], tile)
        for i in T.serial(2):
            total = total + tile[i]
{stop}
        for i in T.Parallel(2):
            B[bx * 2 + i] = twice(tile[i])

a = np.arange(4, dtype=np.float32)
b = np.empty_like(a)
scale(a, b)
print("result", b)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The program, with the debug execution asked for in the decorator."""
    path = tmp_path / "program.py"
    path.write_text(SCRIPT.format(options="(debug=True)", stop="        pass"))
    return path


def run(
    *command: str, commands: str = "", cwd: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python on a program with `pdb`'s commands on stdin."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TILEPROF_")}
    environment |= {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb", **variables}
    return subprocess.run(
        [sys.executable, *command],
        input=commands,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env=environment,
    )


def said(text: str, script: Path) -> list[str]:
    """The lines of a session without prompts, the program's folder and the starting place."""
    lines = text.replace(f"{script.parent}{os.sep}", "").replace("(Pdb) ", "").splitlines()
    return [line for line in lines if line][2:]


def test_stop_at_a_line_and_look(script: Path) -> None:
    """A breakpoint at a line stops there in each block; names show values."""
    commands = "b 21\nc\np bx, total\np tile\np A[0:3]\nc\np bx, total\ncl 1\nc\nq\n"
    done = run("-m", "pdb", str(script), commands=commands, cwd=script.parent)
    assert said(done.stdout, script)[:13] == [
        "Breakpoint 1 at program.py:21",
        "> program.py(21)scale()",
        "-> pass",
        "(0, float32(1.0))",
        "tile: shared<2, float32>",
        "[0., 1.]",
        "A[0:3]: float32",
        "[0., 1., 2.]",
        "> program.py(21)scale()",
        "-> pass",
        "(1, float32(5.0))",
        "Deleted breakpoint 1 at program.py:21",
        "result [0. 2. 4. 6.]",
    ]


def test_step_through_lines_and_into_macros(script: Path) -> None:
    """`next` and `step` see the author's lines only, `step` those of macros too."""
    commands = "b 18\nc\nn\nn\nn\nn\ns\ns\ns\ns\ns\np x, y\ns\ns\ncl 1\nc\nq\n"
    done = run("-m", "pdb", str(script), commands=commands, cwd=script.parent)
    places = [line for line in said(done.stdout, script) if line.startswith(("> ", "-> ", "("))]
    assert places[: places.index("-> import numpy as np") - 1] == [
        *("> program.py(18)scale()", "-> T.copy(A[bx * 2], tile)"),
        *("> program.py(19)scale()", "-> for i in T.serial(2):"),
        *("> program.py(20)scale()", "-> total = total + tile[i]"),
        *("> program.py(19)scale()", "-> for i in T.serial(2):"),
        *("> program.py(20)scale()", "-> total = total + tile[i]"),
        *("> program.py(19)scale()", "-> for i in T.serial(2):"),
        *("> program.py(21)scale()", "-> pass"),
        *("> program.py(22)scale()", "-> for i in T.Parallel(2):"),
        *("> program.py(23)scale()", "-> B[bx * 2 + i] = twice(tile[i])"),
        *("> program.py(6)twice()", "-> def twice(x):"),
        *("> program.py(7)twice()", "-> y = x + x"),
        *("> program.py(8)twice()", "-> return y"),
    ]


def test_breakpoint_in_a_kernel(script: Path) -> None:
    """`breakpoint()` stops in the kernel; `step` from there stays in the author's text."""
    script.write_text(SCRIPT.format(options="", stop="        breakpoint()"))
    commands = "n\np total, tile\ns\nc\np total\nc\n"
    done = run(str(script), commands=commands, cwd=script.parent, TILEPROF_DEBUG="1")
    lines = said(done.stdout, script)
    assert "result [0. 2. 4. 6.]" in lines
    values = [line for line in lines if "float32(" in line]
    assert values == ["(float32(1.0), tile: shared<2, float32>", "float32(5.0)"]
    assert not [line for line in lines if line.startswith("> ") and "program.py" not in line]


def test_after_an_error(script: Path) -> None:
    """After an error the debugger stands in the frame that went wrong."""
    text = SCRIPT.format(options="(debug=True)", stop="        pass").replace("x + x", "x + A")
    script.write_text(text.replace("def twice(x)", "def twice(x, A=[1][0:0])"))
    done = run(
        "-m", "pdb", "-c", "c", str(script), commands="p x\nu\np tile\nq\n", cwd=script.parent
    )
    lines = done.stdout.replace(f"{script.parent}{os.sep}", "").splitlines()
    assert "(Pdb) float32(0.0)" in lines
    assert lines[lines.index("(Pdb) float32(0.0)") - 2].endswith("> program.py(7)twice()")


@pytest.mark.spread("variable")
@pytest.mark.parametrize("how", ["option", "variable"])
def test_switched_on_from_outside(how: str, tmp_path: Path) -> None:
    """`tileprof run --debug` and `TILEPROF_DEBUG=1` make `print` in a kernel print."""
    path = tmp_path / "program.py"
    path.write_text(SCRIPT.format(options="", stop="        print('block', bx, tile.numpy())"))
    command = ["-m", "tileprof", "run", "--debug", "--quiet"] if how == "option" else []
    variables = {} if how == "option" else {"TILEPROF_DEBUG": "1"}
    done = run(*command, str(path), cwd=tmp_path, **variables)
    assert done.stderr == ""
    assert done.stdout == "block 0 [0. 1.]\nblock 1 [2. 3.]\nresult [0. 2. 4. 6.]\n"
