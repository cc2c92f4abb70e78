# mypy: ignore-errors
# ruff: noqa: ANN201, ANN202
"""Changes between two programs of one kernel: compiled, compared op by op, and told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import tileprof.lang as T
from tests.analyzer.compiled import compiled
from tests.analyzer.made import Made, program
from tileprof.analyzer.changes import explain
from tileprof.analyzer.tiles.program_changes import program_changes
from tileprof.ir.plain import plain_kernel
from tileprof.kernel_ir import TileKernel
from tileprof.profile import Profile, diff, merge
from tileprof.profile.transform.join import side_by_side
from tileprof.viewer import diff_json


def product(columns: int = 128, stages: int = 2, scale: float = 0.5, extra: bool = False) -> Any:
    """A · B in tiles of 128 rows."""

    @T.prim_func
    def kernel(
        A: T.Tensor((256, 256), T.float16),
        B: T.Tensor((256, 256), T.float16),
        C: T.Tensor((256, 256), T.float32),
    ):
        with T.Kernel(256 // columns, 2, threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), T.float16)
            b = T.alloc_shared((64, columns), T.float16)
            c = T.alloc_fragment((128, columns), T.float32)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * columns], b)
                T.gemm(a, b, c)
            if extra:
                T.clear(c)
            for i, j in T.Parallel(128, columns):
                c[i, j] = c[i, j] * scale
            T.copy(c, C[by * 128, bx * columns])

    return kernel


_FIRST = product.__code__.co_firstlineno


@T.prim_func
def renamed(
    Left: T.Tensor((256, 256), T.float16),
    Right: T.Tensor((256, 256), T.float16),
    Out: T.Tensor((256, 256), T.float32),
):
    """`product()` with other names, in other lines."""
    with T.Kernel(2, 2, threads=128) as (column, row):
        left = T.alloc_shared((128, 64), T.float16)
        right = T.alloc_shared((64, 128), T.float16)

        total = T.alloc_fragment((128, 128), T.float32)
        T.clear(total)
        for step in T.Pipelined(4, num_stages=2):
            T.copy(Left[row * 128, step * 64], left)
            T.copy(Right[step * 64, column * 128], right)
            T.gemm(left, right, total)
        for y, x in T.Parallel(128, 128):
            total[y, x] = total[y, x] * 0.5
        T.copy(total, Out[row * 128, column * 128])


def plain(kernel: Any) -> TileKernel:
    """The records of a kernel as its author wrote it."""
    return plain_kernel(kernel.compile().program.kernel)


def told(**new: Any) -> list[str]:
    """Return the changes from `product()` to one with other arguments, lines counted from it."""
    found = program_changes(plain(product()), plain(product(**new)))
    return [str(replace(each, line=each.line - _FIRST)) for each in found]


def gpu_profile(kernel: Any, time: float, text: str = "text") -> Profile:
    """A recording of a kernel, with its program after the passes for a GPU."""
    made = program(Made(time=time))
    (info,) = made.tables.kernels
    records = plain_kernel(compiled(kernel).kernel)
    info = replace(info, program=records, ir=text)
    return replace(made, tables=replace(made.tables, kernels=(info,)))


def test_names_and_lines_are_no_change() -> None:
    """Other names of values, parameters and indices in other lines are the same program."""
    assert plain(renamed).identity == plain(product()).identity
    assert not program_changes(plain(product()), plain(renamed))


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({"stages": 3}, ["for in line 14: num_stages 2 → 3"]),
        ({"scale": 2.0}, ["mul `%6` in line 21: operand 2 0.5 → 2.0"]),
        ({"extra": True}, ["fill in line 19: added"]),
        (
            {"columns": 256},
            [
                "launch in line 9: index 1 2 → 1",
                "alloc `%b` in line 11: shape 64×128 → 64×256",
                "alloc `%c` in line 12: shape 128×128 → 128×256",
                "mul `%3` in line 16: operand 2 128 → 256",
                "view `%B_tile` in line 16: sizes 64×128 → 64×256, shape 64×128 → 64×256",
                "parallel in line 20: index 2 128 → 256",
                "mul `%8` in line 22: operand 2 128 → 256",
                "view `%C_tile` in line 22: sizes 128×128 → 128×256, shape 128×128 → 128×256",
            ],
        ),
    ],
)
def test_a_change_names_op_line_and_field(new: dict[str, Any], expected: list[str]) -> None:
    """Lines are counted from that of `product`."""
    assert told(**new) == expected


def test_the_way_back_says_what_was_removed() -> None:
    """An op that only the old program has."""
    (found,) = program_changes(plain(product(extra=True)), plain(product()))
    assert (found.op, found.what, found.line) == ("fill", "removed", _FIRST + 19)


def test_recordings_of_two_pipelines() -> None:
    """Two recordings differ by the ops that the passes made, as `tileprof diff` prints them."""
    (found,) = explain(gpu_profile(product(), 1e6), gpu_profile(product(stages=3), 2e6))
    assert found.level == "the program (IR)"
    assert f"ring `%ring` in line {_FIRST + 15}: stages 2 → 3" in found.text
    assert f"alloc `%a` in line {_FIRST + 10}: shape 2×128×64 → 3×128×64" in found.text
    assert found.text == "; ".join(map(str, found.ops[:6])) + (
        f"; changes of other ops: {len(found.ops) - 6}" if len(found.ops) > 6 else ""
    )


def test_changed_ops_are_data_in_json() -> None:
    """A change goes into JSON op by op and field by field, for programs that read it."""
    old, new = gpu_profile(product(), 1e6), gpu_profile(product(stages=3), 2e6)
    (held,) = json.loads(diff_json(diff(old, new), explain(old, new)))["kernels"]
    (ring,) = (each for each in held["ops"] if each["op"] == "ring")
    place = ("ring", "%ring", _FIRST + 15, "changed")
    assert tuple(ring[name] for name in ("op", "value", "line", "what")) == place
    assert ring["fields"][0] == {"name": "stages", "old": "2", "new": "3"}


def test_joined_profiles_have_one_kernel_by_its_program() -> None:
    """Other emitted code of one program is no second kernel; another program is one."""
    one = gpu_profile(product(), 1e6)
    (info,) = one.tables.kernels
    others = [replace(info, code="other();"), replace(info, program=plain(product(stages=3)))]
    same, another = (
        merge([one, replace(one, tables=replace(one.tables, kernels=(each,)))]) for each in others
    )
    assert (len(same.tables.kernels), len(another.tables.kernels)) == (1, 2)


def test_reformatted_text_is_no_change() -> None:
    """Records are the same, the text is another version's."""
    old, new = gpu_profile(product(), 1e6), gpu_profile(product(), 2e6, text="other  text")
    assert explain(old, new)[0].level == "nothing"
    assert len(side_by_side([old, new]).tables.kernels) == 1


def test_other_programs_are_other_kernels_where_profiles_join() -> None:
    """Programs with other records stay two kernels, even if their texts are the same."""
    old, new = gpu_profile(product(), 1e6), gpu_profile(product(stages=3), 1e6)
    assert len(side_by_side([old, new]).tables.kernels) == 2


def test_text_is_compared_where_there_are_no_records() -> None:
    """A profile without records, as of an IR that cannot be read, has only its text."""
    old, new = gpu_profile(product(), 1e6, text="a"), gpu_profile(product(), 2e6, text="b")
    (info,) = new.tables.kernels
    bare = replace(new, tables=replace(new.tables, kernels=(replace(info, program=None),)))
    assert explain(old, bare)[0].text == "line 1: `a` became `b`"
