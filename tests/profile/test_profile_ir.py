"""The program of a kernel in a profile: records and the text of older files, damaged ones too."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.rotated import kernel_of
from tests.profile_samples import full_profile
from tests.repeated import for_each
from tileprof import ir
from tileprof.errors import ProfileFileError
from tileprof.kernel_ir import Parameter, TileKernel, Type
from tileprof.profile import load, save
from tileprof.profile.storage import limits
from tileprof.profile.storage.ir_bytes import VERSION, programs, rows
from tileprof.profile.storage.ir_text import read

TEXT = """kernel @k(%X: global<m, 64, bfloat16> safe(1.0), \
%Y: out global<8, float32, strides = [2]>, %n: int32) symbols(%m) {
  %c8 = constant 8 : index
  launch [%c8, %m] {threads = [128], hints = [[swizzle, 4], [order, row]]} body(%bx: index, \
%by: index) {
    %tile = view %X, [%bx, %by] {sizes = [1, 64], in_bounds = true} : global<1, 64, bfloat16>
    %top = constant -1.5e+30 : float32
    %0 = if %c : index then {
      scope "a {strange} %name" body {
        reduce max %tile, %Y {dim = 1, clear = false}
      }
    } otherwise {
      wait wgmma [%a, %b], [] {reason = "reduce uses \\"Y\\", %tile"}
      yield [%c8]
    }
  }
}
"""


def test_what_a_line_says() -> None:
    """Parameters, results, words, operands, lists, attributes, types."""
    kernel = read(TEXT)
    assert kernel.parameters == {
        "%X": Parameter(Type("bfloat16", "global", ("m", 64)), out=False),
        "%Y": Parameter(Type("float32", "global", (8,)), out=True),
        "%n": Parameter(Type("int32"), out=False),
    }
    assert dict(kernel.extents) == {"%Y": (8,)}
    launch, view, top, _, _, reduced, wait, _ = (op for op, _ in kernel.nested[1:])
    assert (launch.listed, launch.arguments) == (("%c8", "%m"), ("%bx", "%by"))
    assert (launch.numbers("threads"), launch.numbers("hints")) == ((128,), ())
    assert (view.result, view.source, view.listed) == ("%tile", "%X", ("%bx", "%by"))
    assert (view.numbers("sizes"), view.says("in_bounds"), view.type.bits) == ((1, 64), True, 16)
    assert (top.word, top.type) == (-1.5e30, Type("float32"))
    assert (reduced.word, reduced.number("dim"), reduced.says("clear")) == ("max", 1, False)
    assert wait.lists == (("%a", "%b"), ())
    assert wait.attributes == {"reason": 'reduce uses "Y", %tile'}


def test_blocks() -> None:
    """An `if` has two; what is inside knows what is around."""
    found = {op.name: (op, around) for op, around in read(TEXT).nested}
    branch, _ = found["if"]
    assert [each.name for each in branch.blocks] == ["then", "otherwise"]
    assert [each.name for each in found["reduce"][1]] == ["launch", "if", "scope"]
    assert [each.name for each in found["yield"][1]] == ["launch", "if"]


@for_each(end=range(0, len(TEXT), 7))
def test_text_that_is_cut_off(end: int) -> None:
    """It has the ops that are there, and is no error."""
    whole = [op.name for op, _ in read(TEXT).nested]
    found = [op.name for op, _ in read(TEXT[:end]).nested]
    assert found[:-1] == whole[: max(len(found) - 1, 0)]


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("name", ["attention", "rotated"])
def test_text_and_records_agree(name: str, passes: bool) -> None:
    """A program read from its text is the one that is stored, but for lines, in all its parts."""
    kernel = kernel_of(name, passes, causal=True)
    records = plain(ir.plain_kernel(kernel))
    assert any(op[1] for op in records["ops"])
    for op in records["ops"]:
        op[1] = 0
    assert plain(read(ir.print_kernel(kernel))) == records


def test_records_come_back(tmp_path: Path) -> None:
    """A file gives back the records that were saved."""
    kernel = ir.plain_kernel(kernel_of("rotated", True))
    assert plain(from_bytes(content_of(kernel))) == plain(kernel)
    (saved, _), path = full_profile().tables.kernels, tmp_path / "p.tprof"
    save(full_profile(), path)
    found, other = load(path).tables.kernels
    assert other.program is None
    assert plain(found.program) == plain(saved.program)


def test_an_older_file_is_read_by_its_text(tmp_path: Path) -> None:
    """Without the table, the program is that of the text."""
    path = tmp_path / "p.tprof"
    save(full_profile(), path)
    expected = plain(load(path).tables.kernels[0].program)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE kernel_ir")
        database.commit()
    assert plain(load(path).tables.kernels[0].program) == expected
    recorded = load(Path(__file__).parents[1] / "data" / "h200-gemm.tprof").tables.kernels[0]
    assert {op[2] for op in plain(recorded.program)["ops"]} > {"launch", "gemm"}


def test_a_program_of_a_later_version_is_not_read(tmp_path: Path) -> None:
    """The rest of its file is."""
    path = tmp_path / "p.tprof"
    save(full_profile(), path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE kernel_ir SET version = 2")
        database.commit()
    assert load(path).tables.kernels[0].program is None


@pytest.mark.parametrize("text", ["for {\n" * 299 + "%ö = a", "%é = a", "for {\n" * 400])
def test_odd_text_makes_no_file_that_is_refused(text: str, tmp_path: Path) -> None:
    """Records made from the text of an older file are kept only if they can be read again."""
    path = tmp_path / "p.tprof"
    save(full_profile(), path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE kernel_ir")
        database.execute("UPDATE kernels SET ir = ?", [text])
        database.commit()
    save(load(path), path)
    assert load(path).tables.kernels[0].ir == text


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "a table is missing": lambda held: held.pop("ops"),
    "a table is not a list": lambda held: held.update(ops={}),
    "an op is short": lambda held: held["ops"][0].pop(),
    "an op is in no block": lambda held: held["ops"][0].__setitem__(0, 9),
    "an op is in a block below": lambda held: held["ops"][0].__setitem__(0, 1),
    "an op is in a block from the end": lambda held: held["ops"][0].__setitem__(0, -1),
    "a block is in no op": lambda held: held["blocks"][1].__setitem__(0, 99),
    "two blocks are the kernel's": lambda held: held["blocks"][1].__setitem__(0, -1),
    "a line is below 0": lambda held: held["ops"][0].__setitem__(1, -1),
    "a line is a truth value": lambda held: held["ops"][0].__setitem__(1, True),
    "a name is a number": lambda held: held["ops"][0].__setitem__(2, 1),
    "a value has a name of its own": lambda held: held["ops"][0].__setitem__(7, ["%\x1b"]),
    "a result has no type": lambda held: held["ops"][0].__setitem__(8, []),
    "a type is empty": lambda held: held["ops"][0].__setitem__(8, [[]]),
    "an extent is below 0": lambda held: held["parameters"][0].__setitem__(
        2, ["int8", "global", [-1]]
    ),
    "a number is too large": lambda held: held["ops"][0].__setitem__(3, [1 << 63]),
    "an attribute is an object": lambda held: held["ops"][0].__setitem__(3, [{}]),
    "lists are too deep": lambda held: held["ops"][0].__setitem__(
        3, [json.loads("[" * 40 + "]" * 40)]
    ),
    "attributes are a list": lambda held: held["ops"][0].__setitem__(6, []),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_records_are_refused(damage: Callable[[dict[str, Any]], object]) -> None:
    """With a sentence that names the column."""
    held = plain(full_profile().tables.kernels[0].program)
    damage(held)
    with pytest.raises(ProfileFileError, match=r"`kernel_ir\.content` is not of the declared form"):
        from_bytes(zlib.compress(json.dumps(held).encode()))


@pytest.mark.sweep
def test_records_stay_within_limits() -> None:
    """Too many bytes, ops and blocks within each other are refused, and what is not JSON."""
    op = [0, 0, "a", [], [], [], {}, [], []]
    deep = [[number, *op[1:]] for number in range(limits.NESTING + 1)]
    blocks = [[number, "", []] for number in range(-1, limits.NESTING)]
    whole = {"parameters": [], "blocks": blocks[:1]}
    large = {
        "takes more than": b" " * (limits.IR_BYTES + 1),
        "more than 200,000 ops": json.dumps({**whole, "ops": [op] * (limits.IR_OPS + 1)}).encode(),
        "declared form": json.dumps({**whole, "blocks": blocks, "ops": deep}).encode(),
        "not JSON": b"[" * 100_000,
    }
    for said, content in large.items():
        with pytest.raises(ProfileFileError, match=said):
            from_bytes(zlib.compress(content))


def test_control_characters_of_texts_are_escaped() -> None:
    """Texts of a program are cleaned like the other texts of a file."""
    held = plain(full_profile().tables.kernels[0].program)
    held["ops"][0][3] = ["\x1b[2J"]
    found = from_bytes(zlib.compress(json.dumps(held).encode()))
    assert found.body.ops[0].words == (r"\x1b[2J",)


def content_of(kernel: TileKernel) -> bytes:
    """Return what a file holds of a program."""
    ((_, _, content),) = rows([kernel])
    return content


def from_bytes(content: bytes) -> TileKernel:
    """Return the program of a file that holds this content."""
    (found,) = programs([""], {0: (VERSION, content)})
    assert found is not None
    return found


def plain(kernel: TileKernel | None) -> dict[str, Any]:
    """Return the JSON of a program."""
    assert kernel is not None
    made: dict[str, Any] = json.loads(zlib.decompress(content_of(kernel)))
    return made
