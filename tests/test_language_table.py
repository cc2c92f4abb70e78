"""What the page of the language says of the lowering: every name is there, every reason, and quoted
remarks are what the compiler says."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tileprof
import tileprof.lang as T
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.errors import UnknownOperation
from tileprof.remarks import CODES, Reason, Statement
from tileprof.remarks.statement import FIELD, parts_of

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "language.md").read_text()
SECTION = PAGE.partition("## How each operation is lowered")[2].partition("\n## ")[0]
PASSES = ROOT / "tileprof" / "compiler" / "cuda" / "passes"
kernels: Any = importlib.import_module("tests.lowering_kernels")


# -- names


def names_in_tables() -> list[str]:
    """What stands as `T.name` in the first cells of the tables."""
    cells = re.findall(r"^\| ([^|]+) \|", SECTION, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`T\.(\w+)", cell)]


def test_every_name_of_the_language_is_in_a_table() -> None:
    """No name is left out, and none is made up."""
    found = set(names_in_tables())
    assert set(T.__all__) - found == set()
    assert found - set(T.__all__) == set()


def test_what_is_not_there_is_not_there() -> None:
    """The names of TileLang that the page calls missing are unknown operations."""
    page = " ".join(PAGE.split())
    part = page.partition("one is an `UnknownOperation` error at its line:")[2]
    listed = re.findall(r"`T\.(\w+?)(_\*)?`", part.partition("- **types below a byte**")[0])
    names = [name for name, rest in listed if not rest]
    assert len(names) >= 15
    for name in names:
        with pytest.raises(UnknownOperation):
            getattr(T, name)


def test_every_control_is_in_the_table() -> None:
    """Of the page about GPUs, and no other."""
    page = (ROOT / "docs" / "gpu.md").read_text()
    table = page.partition("| control | what it says |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)=", table)) == {field.name for field in fields(Controls)}


# -- reasons


def reasons(file: str, functions: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a pattern for each reason that functions of a pass build."""
    known = {code.__name__: code for code in CODES.values() if issubclass(code, Reason)}
    tree = ast.parse((PASSES / file).read_text())
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        if functions and function.name not in functions:
            continue
        for node in ast.walk(function):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in known:
                yield sentence(known[called.id])


def sentence(code: type[Statement]) -> str:
    """Return the text of a code as a pattern, with anything for its facts."""
    always = "".join(part.text for part in parts_of(code.text) if not part.asked)
    fixed = FIELD.sub("\0", spaced(always)).split("\0")
    return "[^;,]+?".join(map(re.escape, fixed))


UNHEARD = {"a scan goes through shared memory"}
"""Scans have operands in shared memory before fragments are looked at."""


def spaced(text: str) -> str:
    """Without marks of code, and with single spaces."""
    return re.sub(r"\s+", " ", text.replace("`", ""))


@pytest.mark.parametrize(
    ("file", "functions"),
    [
        ("choice/copies.py", ("_common", "bulk_reason", "_box_reason", "cp_async_width")),
        ("pipeline/roles.py", ("role_reason", "_loop_reason", "ring_reason", "_control_reason",
                      "_address_reason")),
        ("choice/choose.py", ("_store_reason",)),
        ("choice/gemms.py", ("_no_wgmma", "_no_mma", "_types", "_depth", "_operand")),
        ("layout/demote.py", ("block", "_parallel", "_index_reason")),
        ("persist/persist.py", ("_reason",)),
        ("multicast.py", ("_reason", "_extent_reason", "_load_reason")),
    ],
    ids=lambda held: held if isinstance(held, str) else "",
)  # fmt: skip
def test_every_reason_is_said(file: str, functions: tuple[str, ...]) -> None:
    """A reason that a pass may give stands on the page, with examples for names and numbers."""
    found = list(reasons(file, functions))
    assert len(found) >= (2 if file in ("choice/choose.py", "persist/persist.py") else 5)
    said = spaced(SECTION)
    found = [p for p in found if p not in map(re.escape, UNHEARD)]
    assert [p for p in found if not re.search(p, said)] == []


# -- remarks


Maker = Callable[[], Any]


@cache
def remarks(name: str, target: str) -> str:
    """Everything that is said about a kernel."""
    kernel = tileprof.compile(KERNELS[name]())
    if target == "cpu":
        return "\n".join(without_place(str(r)) for r in kernel.remarks)
    controls = Controls(tensor_cores=name != "no tensor cores")
    if name == "clusters":
        controls = Controls(cluster=2)
    found = compile_cuda(kernel.program.kernel, find_target(target), controls).remarks
    return "\n".join(without_place(str(r)) for r in found)


def without_place(remark: str) -> str:
    """Without file and line."""
    return re.sub(r"^\S+\.py:[\d:]+: ", "", remark)


KERNELS: dict[str, Maker] = {
    "product": kernels.product,
    "many tiles": lambda: kernels.product(m=4096, n=4096),
    "small product": lambda: kernels.product(threads=128, tile_n=128),
    "float32": lambda: kernels.product("float32", tile_n=64),
    "no stages": lambda: kernels.product(stages=0),
    "odd rows": lambda: kernels.product(n=1001, tile_n=128),
    "64 threads": lambda: kernels.product(threads=64, tile_n=128),
    "left early": lambda: kernels.left_early,
    "clusters": lambda: kernels.product(m=4096, n=4096),
    "no tensor cores": lambda: kernels.product(tile_n=128),
    "float8": lambda: kernels.product("float8_e4m3", transposed=True),
    "converting": lambda: kernels.converting,
    "read and written": lambda: kernels.read_and_written,
    "transpose": lambda: kernels.transpose,
    "fragments": lambda: kernels.fragments,
    "reshaped": lambda: kernels.reshaped,
    "wishes": lambda: kernels.wishes,
}
QUOTED = [
    ("product", "sm_90a", "copy A → A_shared: tma, issued by the producer warp group"),
    ("product", "sm_90a", "launch: a producer warp group loads for 2 consumer warp groups"),
    ("product", "sm_90a", "copy C_local → C: through shared memory and tma"),
    ("product", "sm_90a", "gemm: wgmma m64n256k16 ss groups=2x1"),
    ("product", "sm_90a", "launch: blocks in groups of 8 rows: operands are shared in L2"),
    ("product", "sm_90a", "launch: a block for each tile\n  not persistent: "),
    ("many tiles", "sm_90a",
     "launch: persistent: loads of the next tile overlap the end of this one"),
    ("product", "cpu", "not 3 stages: the cpu has no asynchronous copies to overlap"),
    ("product", "sm_80", "copy A → A_shared: cp.async, 16 bytes per thread\n"
                         "  not tma: sm_80 has none"),
    ("product", "sm_80", "loop k: cp.async, 3 stages"),
    ("product", "sm_80", "copy C_local → C: stores from registers\n"
                         "  not tma through shared memory: sm_80 has none"),
    ("small product", "sm_80", "gemm: mma m16n8k16 warps=2x2"),
    ("float32", "sm_90a",
     "float32 B lies with N side by side, only 16-bit types may; use transpose_b=True"),
    ("float32", "sm_90a",
     "not float32 operands: tensor cores keep 10 of the 23 bits after the point; "),
    ("float32", "sm_90a", "the loop has no wgmma to overlap with"),
    ("no stages", "sm_90a", "there is no pipelined loop of one stage or more"),
    ("no stages", "sm_90a",
     "nothing overlaps with it outside of a pipelined loop of two stages or more"),
    ("odd rows", "sm_90a", "row stride 2002 B is not a multiple of 16 B, TMA needs it"),
    ("64 threads", "sm_90a", "threads=64 is not a multiple of 128"),
    ("no tensor cores", "sm_90a", "gemm: fma 4x8 warps=4x2 vector=4"),
    ("float8", "sm_80", "sm_80 multiplies no float8_e4m3"),
    ("converting", "sm_90a", "it converts float32 and bfloat16"),
    ("read and written", "sm_90a", "the kernel also reads C"),
    ("transpose", "sm_90a", "buffer tile: pad=2, 1 wavefronts for each that its bytes need\n"
                            "  not rows: 5.67 wavefronts for each that its bytes need"),
    ("fragments", "sm_90a", "buffer f: in shared memory"),
    ("fragments", "sm_90a", "index 0 is not a variable of the loop as it is"),
    ("fragments", "sm_80", "index 1 is the same as another"),
    ("fragments", "sm_90a", "registers have no atomics"),
    ("reshaped", "sm_80", "buffer tile: rows\n"
                          "  not a swizzle: it is also used under another shape"),
    ("left early", "sm_80", "copy A → A_shared: cp.async, waited for immediately\n"
                            "  not 3 stages: the loop may be left early"),
    ("clusters", "sm_90a", "launch: clusters of 2 blocks along by"),
    ("clusters", "sm_90a", "copy B → B_shared: multicast: each of 2 blocks loads 32 of 64 rows"),
    ("clusters", "sm_90a", "copy A → A_shared: each block loads its own\n"
                           "  not multicast: its address depends on by"),
    ("wishes", "sm_90a", "launch: blocks in groups of 4 rows: as asked"),
    ("wishes", "sm_90a", "not fragment<custom>, as asked"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "target", "quoted"), QUOTED)
def test_a_quoted_remark_is_what_is_said(name: str, target: str, quoted: str) -> None:
    """The compiler says it of a kernel for which the page says so, and the page quotes it."""
    said = remarks(name, target).replace("`", "")
    assert all(line in said for line in quoted.splitlines()), said
    page = re.sub(r"\s+", " ", SECTION.replace("`", ""))
    assert [line for line in quoted.splitlines() if line.strip() not in page] == []


# -- what no remark says


def text(kernel: Any, target: str) -> str:
    """The emitted text of a kernel."""
    return program(kernel, target).source.text


def program(kernel: Any, target: str) -> CudaProgram:
    """A kernel lowered for a target."""
    return compile_cuda(tileprof.compile(kernel).program.kernel, find_target(target))


def test_matrices_move_by_instructions_of_their_own() -> None:
    """`ldmatrix` on both targets, `stmatrix` on one."""
    assert "tp_ldmatrix" in text(kernels.matrices, "sm_90a")
    assert "tp_stmatrix" in text(kernels.matrices, "sm_90a")
    assert "tp_ldmatrix" in text(kernels.matrices, "sm_80")
    assert "tp_stmatrix" not in text(kernels.matrices, "sm_80")


def test_scans_go_by_threads_or_by_warps() -> None:
    """Short lines have a thread each, long ones a warp, a single one all warps."""
    made = text(kernels.lines, "sm_80")
    assert "= tp_thread; line < 64; line += 128" in made
    assert "= tp_warp; line < 4; line += 4" in made
    assert "= 0; line < 1; ++line" in made


@pytest.mark.parametrize(("target", "swaps"), [("sm_90a", False), ("sm_80", True)])
def test_sums_of_bfloat16(target: str, swaps: bool) -> None:
    """One target has them in hardware, the other compares and swaps."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC of 'cuda'")
    ptx = program(kernels.atomics, target).cubin.ptx
    assert (".cas." in ptx) == swaps
    assert ("add.noftz.bf16" in ptx) != swaps


def test_a_buffer_that_is_seen_otherwise_is_read_by_mma() -> None:
    """The remark of the product names wgmma, whose tiles the warps keep."""
    made = text(kernels.reshaped, "sm_90a")
    assert "gemm: wgmma" in remarks("reshaped", "sm_90a")
    assert "tp_mma_m16n8k16" in made
    assert "tp_wgmma_m64" not in made
