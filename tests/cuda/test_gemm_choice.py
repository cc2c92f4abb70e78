"""Which instruction does a product, what is said about it, and the layouts that it prescribes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda.gemm_kernels import Product
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.layouts import RegisterLayout
from tileprof.compiler.cuda.layouts.matrix import (
    accumulator_layout,
    operand_layout,
    shared_layout,
    step_layout,
)
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.choice.operands import emit_product
from tileprof.compiler.cuda.target import find_target
from tileprof.ir.instructions import pieces, product_instruction

Place = Callable[[int, int, int], tuple[int, int]]
"""Row and column by warp, lane and register."""


def _rows(*, high: bool) -> int:
    return 8 if high else 0


# The tables of the PTX ISA, with its names: groupID = lane / 4, threadID_in_group = lane % 4.


def _accumulator(warp: int, lane: int, i: int) -> tuple[int, int]:
    """C and D of mma.m16n8k*, D of wgmma m64nN: figure 147 and the like."""
    row = 16 * warp + lane // 4 + _rows(high=i % 4 >= 2)
    return row, lane % 4 * 2 + (i & 1) + i // 4 * 8


def _a16(warp: int, lane: int, i: int) -> tuple[int, int]:
    low = 0 <= i < 2 or 4 <= i < 6
    return 16 * warp + lane // 4 + _rows(high=not low), lane % 4 * 2 + (i & 1) + _rows(high=i >= 4)


def _a32(warp: int, lane: int, i: int) -> tuple[int, int]:
    return 16 * warp + lane // 4 + _rows(high=i in (1, 3)), lane % 4 + (4 if i >= 2 else 0)


def _a8(warp: int, lane: int, i: int) -> tuple[int, int]:
    low = 0 <= i < 4 or 8 <= i < 12
    column = lane % 4 * 4 + (i & 3) + (16 if i >= 8 else 0)
    return 16 * warp + lane // 4 + _rows(high=not low), column


def _b16(warp: int, lane: int, i: int) -> tuple[int, int]:
    return lane % 4 * 2 + (i & 1) + _rows(high=i >= 2), lane // 4


def _b32(warp: int, lane: int, i: int) -> tuple[int, int]:
    return lane % 4 + (4 if i == 1 else 0), lane // 4


def _b8(warp: int, lane: int, i: int) -> tuple[int, int]:
    return lane % 4 * 4 + (i & 3) + (16 if i >= 4 else 0), lane // 4


def _table(place: Place, warps: int, registers: int) -> np.ndarray[Any, Any]:
    return np.array(
        [
            [place(warp, lane, i) for i in range(registers)]
            for warp in range(warps)
            for lane in range(32)
        ]
    )


KINDS = {"bfloat16": (16, _a16, _b16), "float32": (8, _a32, _b32), "int8": (32, _a8, _b8)}


@pytest.mark.parametrize("dtype", KINDS)
def test_registers_of_one_mma_are_those_of_the_manual(dtype: str) -> None:
    """Accumulators and both operands of one `mma`, by type."""
    k, a, b = KINDS[dtype]
    sums = "int32" if dtype == "int8" else "float32"
    product = Product(16, 8, k, dtype, c=sums, threads=32, fragments="ab", target="sm_80")
    assert product.lowering == f"mma m16n8k{k} warps=1x1"
    np.testing.assert_array_equal(product.layout("c").table(), _table(_accumulator, 1, 4))
    np.testing.assert_array_equal(product.layout("a").table(), _table(a, 1, k // 2))
    np.testing.assert_array_equal(product.layout("b").table(), _table(b, 1, k // 4))


@pytest.mark.parametrize("dtype", KINDS)
def test_registers_of_one_wgmma_are_those_of_the_manual(dtype: str) -> None:
    """Accumulators, and operand A in registers, by type."""
    k, a, _ = KINDS[dtype]
    sums = "int32" if dtype == "int8" else "float32"
    product = Product(64, 48, k, dtype, c=sums, transpose_b=True, fragments="a")
    assert product.lowering == f"wgmma m64n48k{k} rs groups=1x1"
    np.testing.assert_array_equal(product.layout("c").table(), _table(_accumulator, 4, 24))
    np.testing.assert_array_equal(product.layout("a").table(), _table(a, 4, k // 2))


def test_transposed_operands_are_the_same_with_coordinates_exchanged() -> None:
    """A thread holds the same elements of the product however an operand is written."""
    plain = Product(32, 16, 32, fragments="ab", target="sm_80")
    turned = Product(32, 16, 32, transpose_a=True, transpose_b=True, fragments="ab", target="sm_80")
    for name in "ab":
        exchanged = turned.layout(name).table()[..., ::-1]
        np.testing.assert_array_equal(plain.layout(name).table(), exchanged)


@pytest.mark.parametrize("m", [64, 128, 256])
@pytest.mark.parametrize("n", [64, 176])
def test_an_accumulator_is_the_next_operand(m: int, n: int) -> None:
    """Two products in a row need no exchange between threads."""
    scores = Product(m, n, 64, threads=128 * min(m // 64, 2), transpose_b=True)
    values = Product(m, 64, n, threads=128 * min(m // 64, 2), fragments="a")
    assert scores.layout("c") == values.layout("a")


def _counts(layout: RegisterLayout) -> np.ndarray[Any, Any]:
    """How many registers of the block hold each element."""
    places = layout.table().reshape(-1, 2)
    inside = (places < layout.shape).all(1)
    counts = np.zeros(layout.shape, np.int64)
    np.add.at(counts, tuple(places[inside].T), 1)
    return counts


@pytest.mark.parametrize(
    ("m", "n", "threads", "target", "copies"),
    [
        (128, 256, 256, "sm_90a", 1),
        (192, 96, 384, "sm_90a", 1),
        (64, 128, 256, "sm_90a", 1),
        (64, 72, 256, "sm_80", 2),
        (48, 40, 96, "sm_80", 1),
        (16, 8, 128, "sm_80", 4),
        (80, 8, 96, "sm_80", 3),
    ],
)
def test_every_sum_is_held_equally_often(
    m: int, n: int, threads: int, target: str, copies: int
) -> None:
    """Threads that do not divide the tile hold copies, which a remark says."""
    product = Product(m, n, 64, threads=threads, target=target)
    assert (_counts(product.layout("c")) == copies).all()
    assert ("more threads" in product.remark) == (copies > 1)


@pytest.mark.parametrize(
    ("m", "n", "threads"), [(64, 64, 128), (5, 7, 64), (1, 128, 96), (100, 3, 256), (33, 20, 128)]
)
def test_scalar_code_holds_every_sum(m: int, n: int, threads: int) -> None:
    """Any shape over any number of warps."""
    product = Product(m, n, 3, "float64", c="float64", threads=threads)
    layout = product.layout("c")
    assert product.lowering.startswith("fma")
    assert (_counts(layout) >= 1).all()
    # No thread has more than its share, rounded up to powers of two in both directions.
    assert layout.registers_per_thread <= max(4 * m * n // threads, 8)


@pytest.mark.parametrize(
    ("policy", "lowering"),
    [
        ("square", "wgmma m64n256k16 ss groups=2x1"),
        ("full_row", "wgmma m64n256k16 ss groups=2x1"),
        ("full_col", "wgmma m64n128k16 ss groups=1x2"),
    ],
)
def test_warp_groups_divide_rows_unless_asked(policy: Any, lowering: str) -> None:
    """The policy decides along which side warp groups divide a tile."""
    assert Product(128, 256, 64, threads=256, policy=policy).lowering == lowering


@pytest.mark.parametrize(
    ("policy", "lowering"),
    [
        ("square", "mma m16n8k16 warps=2x4"),
        ("full_row", "mma m16n8k16 warps=8x1"),
        ("full_col", "mma m16n8k16 warps=1x8"),
    ],
)
def test_warps_divide_tiles_as_asked(policy: Any, lowering: str) -> None:
    """The policy decides along which side warps divide a tile."""
    product = Product(128, 256, 64, threads=256, policy=policy, target="sm_80")
    assert product.lowering == lowering


@pytest.mark.parametrize(("fragments", "warps"), [("a", "8x1"), ("b", "1x8"), ("ab", "8x1")])
def test_operands_in_registers_are_held_once(fragments: str, warps: str) -> None:
    """Warps divide the side of an operand that lies in a fragment, so that none holds a copy."""
    product = Product(128, 128, 64, threads=256, target="sm_80", fragments=fragments)
    assert str(product.lowering) == f"mma m16n8k16 warps={warps}"


def test_pieces_are_wide_and_even() -> None:
    """No width is cut into many small instructions."""
    assert {n: pieces(n) for n in (8, 96, 112, 160, 176, 256)} == {
        n: (n,) for n in (8, 96, 112, 160, 176, 256)
    }
    assert pieces(320) == (160, 160)
    assert pieces(264) == (136, 128)
    assert pieces(12) is None
    for n in range(8, 1024, 8):
        for integers in (False, True):
            widths = pieces(n, integers=integers)
            assert widths is not None
            assert sum(widths) == n
            assert all(8 <= w <= 256 and w % 8 == 0 for w in widths)
            if integers:
                assert all(w <= 24 or w % 16 == 0 for w in widths)
            else:
                assert max(widths) - min(widths) <= 8


CHOICES: dict[str, tuple[Product, str, tuple[str, ...], str]] = {
    "the usual": (Product(128, 256, 64, threads=256), "wgmma m64n256k16 ss", (), "info"),
    "few rows": (
        Product(32, 128, 64),
        "mma m16n8k16",
        ("not wgmma: M=32 is not a multiple of 64",),
        "missed",
    ),
    "odd threads": (
        Product(96, 128, 64, threads=96),
        "mma m16n8k16",
        ("threads=96 is not a multiple of 128", "M=96 is not a multiple of 64"),
        "missed",
    ),
    "B in registers": (
        Product(64, 128, 64, fragments="b"),
        "mma m16n8k16",
        ("B lies in a fragment",),
        "missed",
    ),
    "K": (
        Product(64, 128, 40),
        "fma",
        ("not wgmma: K=40 is not a multiple of 16", "not mma: K=40 is not a multiple of 16"),
        "missed",
    ),
    "tf32": (
        Product(64, 128, 64, "float32", transpose_b=True),
        "wgmma m64n128k8 ss groups=1x1, operands cut to tf32",
        ("not float32 operands", "`tf32=False`"),
        "info",
    ),
    "float32": (
        Product(64, 128, 64, "float32", transpose_b=True, controls=Controls(tf32=False)),
        "fma",
        ("A is float32 and tf32 is off",),
        "info",
    ),
    "float32 with N side by side": (
        Product(64, 128, 64, "float32"),
        "mma m16n8k8",
        ("float32 B lies with N side by side, only 16-bit types may; use transpose_b=True",),
        "missed",
    ),
    "float8 with M side by side": (
        Product(64, 128, 64, "float8_e4m3", transpose_a=True, transpose_b=True),
        "mma m16n8k32",
        ("float8_e4m3 A lies with M side by side, only 16-bit types may; use transpose_a=False",),
        "missed",
    ),
    "float8": (
        Product(64, 128, 64, "float8_e4m3", "float8_e5m2", transpose_b=True),
        "wgmma m64n128k32",
        (),
        "info",
    ),
    "float8 on sm_80": (
        Product(64, 128, 64, "float8_e4m3", transpose_b=True, target="sm_80"),
        "fma",
        ("not mma: sm_80 multiplies no float8_e4m3",),
        "info",
    ),
    "sm_80": (
        Product(64, 128, 64, target="sm_80"),
        "mma m16n8k16",
        ("not wgmma: sm_80 has none",),
        "info",
    ),
    "no wgmma": (
        Product(64, 128, 64, controls=Controls(wgmma=False)),
        "mma m16n8k16",
        ("not wgmma: it is turned off",),
        "info",
    ),
    "no tensor cores": (
        Product(64, 128, 64, controls=Controls(tensor_cores=False)),
        "fma",
        ("not wgmma: it is turned off", "not mma: it is turned off"),
        "info",
    ),
    "no swizzle": (
        Product(64, 128, 64, controls=Controls(swizzle=False)),
        "mma m16n8k16",
        ("swizzled shared memory, which is turned off",),
        "info",
    ),
    "narrow rows": (
        Product(64, 72, 64),
        "mma m16n8k16",
        ("rows of B do not divide into panels of 32 B",),
        "missed",
    ),
    "wide": (
        Product(64, 320, 64),
        "wgmma m64n160k16 ss groups=1x1, 320 columns as 160 + 160",
        (),
        "info",
    ),
    "types": (
        Product(64, 64, 64, "float64", c="float64"),
        "mma m16n8k4",
        ("it multiplies no float64",),
        "info",
    ),
    "a part that starts anywhere": (
        Product(64, 64, 64, transpose_b=True, start=(1, 4, 0)),
        "mma m16n8k16",
        ("does not start at a multiple of 8 rows and of a panel",),
        "missed",
    ),
    "a slot": (
        Product(64, 64, 64, transpose_b=True, start=(2, 8, 32)),
        "wgmma m64n64k16",
        (),
        "info",
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_are_told_with_reasons(name: str) -> None:
    """The chosen instruction, why no faster one, and whether the author could help."""
    product, chosen, reasons, severity = CHOICES[name]
    said = product.remark
    assert said.startswith(f"{severity}: gemm: {chosen}"), said
    for reason in reasons:
        assert reason in said
    if not reasons:
        assert "not " not in said
    assert str(product_instruction(product.lowering)) == product.lowering


def test_shared_layouts_have_panels_that_instructions_read_whole() -> None:
    """The swizzle of an operand depends on how it lies and where instructions start."""
    # 96 columns: panels of 32 elements; with K side by side rows of 64 are one panel of 128 bytes.
    product = Product(64, 96, 64)
    assert [shared_layout(product.op, which) for which in ("a", "b")] == [
        "swizzle=128",
        "swizzle=64",
    ]
    assert shared_layout(Product(64, 96, 64, transpose_b=True).op, "b") == "swizzle=128"
    assert shared_layout(Product(64, 96, 16, transpose_b=True).op, "b") == "swizzle=32"
    # Two groups of 96 columns: the second starts within a panel of 64.
    assert shared_layout(Product(64, 192, 64, threads=256).op, "b") == "swizzle=64"
    assert shared_layout(Product(64, 72, 64).op, "b") == "rows"


def test_one_step_of_an_operand_is_its_beginning() -> None:
    """The words for one step of K come first in the registers of a fragment."""
    product = Product(64, 32, 64, threads=128, fragments="a")
    step = step_layout(product.op, 128, "a").table()
    np.testing.assert_array_equal(operand_layout(product.op, 128, "a").table()[:, :8], step)


# -- operands elsewhere


def _staged(c: ir.Value, a: str = "shared", dtype: str = "float16", clear: bool = False) -> str:
    left = ir.Alloc(a, (64, 32), ir.dtype(dtype), hint="A").result  # type: ignore[arg-type]
    right = ir.Alloc("shared", (32, 64), ir.dtype(dtype), hint="B").result
    block = ir.Block()
    lowering = Lowering(find_target("sm_80"), Controls())
    emit_product(ir.Gemm(left, right, c, clear=clear), 128, lowering, ir.Builder(block))
    (product,) = (op for op in block.ops if isinstance(op, ir.Gemm))
    accumulator_layout(product, 128)
    return " ".join(
        f"copy:{op.source.name}>{op.target.name}" if isinstance(op, ir.Copy) else op.mnemonic
        for op in block.ops
    )


def test_sums_of_narrow_types_are_kept_in_float32() -> None:
    """They are rounded once, after the product."""
    c = ir.Alloc("fragment", (64, 64), ir.dtype("float16"), hint="C").result
    assert _staged(c) == "alloc copy:C>C_sum gemm copy:C_sum>C"
    assert _staged(c, clear=True) == "alloc gemm copy:C_sum>C"


def test_sums_lie_in_fragments() -> None:
    """A result in shared memory goes through a fragment."""
    c = ir.Alloc("shared", (64, 64), ir.dtype("float32"), hint="C").result
    assert _staged(c) == "alloc copy:C>C_sum gemm copy:C_sum>C"


def test_scalar_code_reads_shared_memory() -> None:
    """Operands in fragments are stored first, but not for tensor cores."""
    c = ir.Alloc("fragment", (64, 64), ir.dtype("int32"), hint="C").result
    assert _staged(c, "fragment", "int32") == "alloc copy:A>A_shared gemm"
    single = ir.Alloc("fragment", (64, 64), ir.dtype("float32"), hint="C").result
    assert _staged(single, "fragment") == "gemm"


def test_products_in_a_row_divide_rows_alone() -> None:
    """What one product gives is then the next one's operand without an exchange."""
    for chained, warps in ((False, "2x2"), (True, "4x1")):
        a, b = (ir.Alloc("shared", (64, 64), ir.dtype("float16")).result for _ in "ab")
        c = ir.Alloc("fragment", (64, 64), ir.dtype("float32")).result
        builder, lowering = ir.Builder(ir.Block()), Lowering(find_target("sm_80"), Controls())
        emit_product(ir.Gemm(a, b, c), 128, lowering, builder, chained=chained)
        (product,) = builder.block.ops
        assert isinstance(product, ir.Gemm)
        assert str(product.lowering) == f"mma m16n8k16 warps={warps}"
