"""Matrix products and copies of matrices: what the emulator computes from the text, and what NVRTC
and ptxas make of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

import pytest

from tests.cuda.gemm_kernels import MatrixCopy, Product, Text, check_together, together
from tileprof import binary, ir
from tileprof.compiler.cuda.build import Cubin, compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.gemm.common import emit_async_gemm, emit_gemm
from tileprof.compiler.cuda.layouts import RegisterLayout, blocked, parse_layout, parse_shared
from tileprof.compiler.cuda.layouts.matrix import accumulator_layout, shared_layout
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.choice.gemms import choose_gemm
from tileprof.compiler.cuda.target import find_target

BOTH = ((False, False), (False, True), (True, False), (True, True))
TURNS = ("AB", "ABᵀ", "AᵀB", "AᵀBᵀ")
EXACT = Controls(tf32=False)

TYPES = {
    # name: (a, b, c, K, controls, instruction on sm_90a for K-major operands)
    "bfloat16": ("bfloat16", "bfloat16", "float32", 32, Controls(), "wgmma"),
    "float16": ("float16", "float16", "float32", 32, Controls(), "wgmma"),
    "tf32": ("float32", "float32", "float32", 16, Controls(), "wgmma"),
    "float32": ("float32", "float32", "float32", 8, EXACT, "fma"),
    "float8": ("float8_e4m3", "float8_e5m2", "float32", 64, Controls(), "wgmma"),
    "int8": ("int8", "int8", "int32", 64, Controls(), "wgmma"),
    "mixed signs": ("uint8", "int8", "int32", 32, Controls(), "wgmma"),
    "float64": ("float64", "float64", "float64", 8, Controls(), "mma"),
    "float64 of odd depth": ("float64", "float64", "float64", 6, Controls(), "fma"),
    "int32": ("int32", "int32", "int32", 5, Controls(), "fma"),
}


def _product(
    name: str, turned: tuple[bool, bool], target: str, m: int = 64, n: int = 32
) -> Product:
    a, b, c, k, controls, _ = TYPES[name]
    return Product(
        m, n, k, a, b, c, *turned, controls=controls, target=target, clear=turned[0]
    )  # fmt: skip


@pytest.mark.parametrize("turned", BOTH, ids=TURNS)
def test_products_are_right(turned: tuple[bool, bool]) -> None:
    """Every type, both ways of each operand, by the instruction that is chosen on sm_90a."""
    products = {name: _product(name, turned, "sm_90a") for name in TYPES}
    for name, product in products.items():
        if turned == (False, True) or name in ("bfloat16", "float16"):
            assert product.lowering.startswith(TYPES[name][-1])
    check_together(products)


SHAPES = {
    "two groups": Product(128, 96, 64, threads=256),
    "two groups side by side": Product(64, 192, 32, threads=256),
    "atoms below each other": Product(128, 48, 32, "float16", transpose_a=True),
    "two instructions wide": Product(64, 320, 16, transpose_b=True),
    "widths that differ": Product(64, 264, 16, transpose_b=True),
    "integers of an odd width": Product(64, 40, 32, "int8", c="int32", transpose_b=True),
    "three panels along K": Product(64, 64, 192, transpose_b=True),
    "panels of 64 bytes": Product(64, 32, 96, transpose_b=True),
    "panels of 32 bytes": Product(64, 16, 48),
    "A in registers": Product(128, 64, 64, fragments="a", threads=256),
    "A in registers, transposed": Product(
        64, 24, 32, transpose_a=True, transpose_b=True, fragments="a"
    ),
    "float8 in registers": Product(64, 32, 64, "float8_e4m3", transpose_b=True, fragments="a"),
    "tf32 in registers": Product(64, 32, 32, "float32", transpose_b=True, fragments="a"),
    "a slot of a ring": Product(64, 64, 64, transpose_b=True, start=(2, 0, 0)),
    "a part along K": Product(64, 64, 32, transpose_b=True, start=(1, 8, 32)),
    "a part of panels": Product(64, 64, 32, start=(1, 16, 64)),
    "copies": Product(64, 72, 16, threads=256, transpose_b=True),
    "warps on sm_80": Product(64, 64, 48, threads=256, target="sm_80"),
    "three warps": Product(48, 40, 32, "float16", threads=96, transpose_b=True),
    "operands in registers": Product(32, 40, 32, "float16", fragments="ab", target="sm_80"),
    "doubles in registers": Product(32, 24, 16, "float64", c="float64", fragments="ab"),
    "doubles of a part": Product(
        32, 16, 8, "float64", c="float64", start=(1, 3, 5), transpose_b=True, threads=64
    ),
    "operands in registers, transposed": Product(
        32, 24, 32, "int8", c="int32", transpose_a=True, transpose_b=True, fragments="ab"
    ),
    "warps that copy": Product(16, 8, 16, threads=128),
    "matrices that start anywhere": Product(32, 32, 32, transpose_b=True, start=(1, 3, 5)),
    "scalar code at the edges": Product(13, 27, 7, "float16", threads=64),
    "scalar vectors": Product(24, 40, 12, "float32", transpose_b=True, controls=EXACT),
    "scalar code of parts": Product(16, 16, 8, "float64", c="float64", start=(1, 1, 2)),
    "more threads than sums": Product(3, 5, 4, "int32", c="int32", threads=128),
}  # fmt: skip


def test_shapes_are_right() -> None:
    """Tiles divided in every way, operands in every place."""
    check_together(SHAPES)


def test_shared_memory_as_another_op_wants_it() -> None:
    """A narrower swizzle is read by wgmma; without one the warps read, with the same result."""
    products = {}
    for text in ("rows", "pad=8", "swizzle=32", "swizzle=64"):
        for turn, both in zip(TURNS, BOTH):
            given = {"a": text, "b": text}
            product = Product(64, 64, 64, "float16", "", "float32", *both, layouts=given)
            assert product.lowering.startswith("wgmma")
            assert ("tp_wgmma_m64" in product.source().text) == text.startswith("swizzle")
            products[f"{turn} {text}"] = product
    check_together(products)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_depends_on_when_instructions_finish(seed: int) -> None:
    """Products that land late are waited for."""
    Product(128, 64, 64, threads=256, fragments="a").check(seed)


def test_buffers_may_have_the_names_that_the_text_uses() -> None:
    """A fragment called `k` is not hidden by the loop over K."""
    for product in (Product(64, 32, 32), Product(64, 32, 32, target="sm_80")):
        text = Text(product.target, 128)
        for name in ("a", "b"):
            value = product.held[name]
            layout = shared_layout(product.op, "a" if name == "a" else "b")
            text.tile(name, value, parse_shared(layout, value.buffer.static_shape, value.dtype))
        text.fragment("c", product.held["c"], product.layout("c"))
        for name in ("a", "b", "k", "m", "n", "i"):
            assert text.ctx.names.fresh(name) == name
        emit_gemm(text.ctx, product.op)
        lines = "\n".join(line.text for line in text.ctx.writer.lines)
        assert not re.search(r"\b(int|uint64_t|uint32_t) [abkmni]\b", lines)


# -- machine code


@cache
def _compiled(target: str) -> Cubin:
    """All kernels of a target: the disassembler takes hardly longer than for one."""
    kernels = {_function(target, key): make() for key, make in KERNELS[target].items()}
    return compile_cubin(together(kernels), find_target(target), Controls())


def _sass(target: str, key: str) -> str:
    """The instructions of a kernel; no time is lost, and no register is in memory."""
    cubin = _compiled(target)
    assert not cubin.notes, cubin.notes
    name = _function(target, key)
    held = cubin.resources[name]
    assert (held.stack, held.spill_stores) == (0, 0)
    return binary.listing(binary.read(cubin.bytes).functions[name])


def _function(target: str, key: str) -> str:
    return f"kernel_{list(KERNELS[target]).index(key)}"


INSTRUCTIONS = {
    "bfloat16": (r"HGMMA\.64x32x16\.F32\.BF16", r"HMMA\.16816\.F32\.BF16"),
    "float16": (r"HGMMA\.64x32x16\.F32 ", r"HMMA\.16816\.F32 "),
    "tf32": (r"HGMMA\.64x32x8\.F32\.TF32", r"HMMA\.1688\.F32\.TF32"),
    "float32": ("FFMA", "FFMA"),
    "float8": (r"QGMMA\.64x32x32\.F32\.E4M3\.E5M2", "FFMA"),
    "int8": (r"IGMMA\.64x32x32\.S8\.S8", r"IMMA\.16832\.S8\.S8"),
    "mixed signs": (r"IGMMA\.64x32x32\.U8\.S8", r"IMMA\.16832\.U8\.S8"),
    "float64": (r"DMMA\.16x?8x?4", r"DMMA\.8x?8x?4"),
    "float64 of odd depth": ("DFMA", "DFMA"),
    "int32": ("IMAD", "IMAD"),
}


@pytest.mark.spread
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("name", TYPES)
def test_machine_code_has_the_instruction(name: str, target: str) -> None:
    """Every type on both targets, K side by side."""
    sass = _sass(target, f"{name} ABᵀ")
    assert re.search(INSTRUCTIONS[name][target == "sm_80"], sass)


TURNED_TYPES = [*(("bfloat16", turned) for turned in ("AB", "AᵀB", "AᵀBᵀ")), ("tf32", "AᵀB"),
                ("float8", "AᵀB"), ("int8", "AᵀB")]  # fmt: skip


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize(("name", "turned"), TURNED_TYPES)
def test_transposed_operands_compile(name: str, turned: str, target: str) -> None:
    """M or N side by side: descriptors and ldmatrix for 16 bits, warps and elements for others."""
    sass = _sass(target, f"{name} {turned}")
    if name == "bfloat16":
        assert ("HGMMA" in sass) == (target == "sm_90a")
        assert target == "sm_90a" or ".MT88.4" in sass


def _loop(m: int, n: int, k: int, threads: int) -> Text:
    """A ring of four slots, each product started before the one before it is waited for."""
    index, dtype = ir.dtype("index"), ir.dtype("bfloat16")
    slot, zero = ir.Value(index, "slot"), ir.Constant(0, index).result
    held = {
        "a": ir.Alloc("shared", (4, m, k), dtype).result,
        "b": ir.Alloc("shared", (4, k, n), dtype).result,
    }
    tiles = {
        name: ir.View(value, [slot, zero, zero], (1, *value.buffer.static_shape[1:])).result
        for name, value in held.items()
    }
    c = ir.Alloc("fragment", (m, n), ir.dtype("float32")).result
    lowering = Lowering(find_target("sm_90a"), Controls())
    op = choose_gemm(ir.Gemm(tiles["a"], tiles["b"], c), threads, lowering)
    text = Text("sm_90a", threads)
    text.pointers = {"C": c.dtype}
    for name, value in held.items():
        layout = shared_layout(op, "a" if name == "a" else "b")
        text.tile(name, value, parse_shared(layout, value.buffer.static_shape, dtype))
    text.fragment("c", c, accumulator_layout(op, threads))
    text.registers("c", accumulator_layout(op, threads), "C", store=False)
    text.ctx.values[slot] = "slot"
    text.line("uint64_t *const bars = (uint64_t *)(tp_shared + 200000);")
    text.line("for (int ko = 0; ko < 64; ++ko) {")
    text.line("  const int slot = ko % 4;")
    text.line("  tp_mbarrier_wait(bars + slot, ko / 4 & 1);")
    started = ir.AsyncGemm(op.a, op.b, op.c, op.transpose_a, op.transpose_b, lowering=op.lowering)
    emit_async_gemm(text.ctx, started)
    text.line("  tp_wgmma_wait<1>();")
    text.line("  if (tp_lane == 0) tp_mbarrier_arrive(bars + 4 + slot);")
    text.line("}")
    text.line("tp_wgmma_wait<0>();")
    text.line("tp_wgmma_hold(c_f);")
    text.registers("c", accumulator_layout(op, threads), "C", store=True)
    return text


def test_a_loop_of_products_overlaps() -> None:
    """No product waits for the one before it, and descriptors are kept once for a warp."""
    sass = _sass("sm_90a", "loop")
    assert "HGMMA.64x256x16.F32.BF16" in sass
    loop = sass[sass.index("HGMMA") : sass.rindex("HGMMA")]
    assert not re.search(r"\b(LDL|STL|R2UR)\b", loop)


# -- copies of matrices

SUMS = "regs (0,1) (8,0) {n}x(0,8) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0) {more}"


def _sums(m: int, n: int, more: str = "") -> RegisterLayout:
    """Accumulators of warps below each other."""
    parsed = parse_layout(SUMS.format(n=n // 8, more=more), (m, n))
    return RegisterLayout.make((m, n), parsed.registers, parsed.lanes, parsed.warps)


TURNED = "regs (1,0) (8,0) 2x(16,0) | lanes (2,0) (4,0) (0,1) (0,2) (0,4) | warps (0,8) (0,16)"
BYTES = "regs (0,1) (0,2) (8,0) (0,16) | lanes (0,4) (0,8) (1,0) (2,0) (4,0) | warps (16,0)"
WORDS = "regs (8,0) (0,4) 3x(0,8) | lanes (0,1) (0,2) (1,0) (2,0) (4,0) | warps (0,0) (16,0)"
COPIES = {
    # name: (copy, the instruction it must use, '' for none)
    "sums rounded": (
        MatrixCopy(_sums(32, 64), "float32", "bfloat16", "swizzle=128"), "stmatrix_x4"),
    "sums in half": (
        MatrixCopy(_sums(32, 32), "float32", "float16", "swizzle=64", slot=2), "stmatrix_x4"),
    "into padded rows": (
        MatrixCopy(_sums(32, 48), "float32", "bfloat16", "pad=8"), "stmatrix_x4"),
    "an odd number of columns of matrices": (
        MatrixCopy(_sums(32, 88), "float32", "bfloat16", "pad=8"), "stmatrix_x2"),
    "16-bit elements": (
        MatrixCopy(_sums(32, 64), "int16", "int16", "swizzle=128"), "stmatrix_x4"),
    "held twice": (
        MatrixCopy(_sums(32, 32, "(0,0)"), "float32", "bfloat16", "swizzle=64"), "stmatrix_x4"),
    "transposed": (
        MatrixCopy(parse_layout(TURNED, (32, 32)), "float16", "float16", "swizzle=64"),
        "stmatrix_trans_x4"),
    "kept in float32": (
        MatrixCopy(_sums(32, 32), "float32", "float32", "swizzle=128"), ""),
    "sums rounded to float8": (
        MatrixCopy(_sums(32, 32), "float32", "float8_e4m3", "swizzle=32"), ""),
    "rows of matrices that are not aligned": (
        MatrixCopy(_sums(32, 24), "float32", "bfloat16", "pad=3"), ""),
    "sums on sm_80": (
        MatrixCopy(_sums(32, 32), "float32", "bfloat16", "swizzle=64", target="sm_80"), ""),
    "another layout": (
        MatrixCopy(blocked((32, 32), 64, 4), "float32", "bfloat16", "swizzle=64"), ""),
    "an operand": (
        MatrixCopy(_sums(32, 64), "bfloat16", "bfloat16", "swizzle=128", load=True),
        "ldmatrix_x4"),
    "an operand on sm_80": (
        MatrixCopy(_sums(32, 24), "float16", "float16", "pad=8", load=True, target="sm_80"),
        "ldmatrix_x2"),
    "a transposed operand": (
        MatrixCopy(parse_layout(TURNED, (32, 32)), "bfloat16", "bfloat16", "swizzle=64", load=True),
        "ldmatrix_trans_x4"),
    "an operand of bytes": (
        MatrixCopy(parse_layout(BYTES, (32, 32)), "int8", "int8", "swizzle=32", load=True, slot=1),
        "ldmatrix_x4"),
    "an operand of words": (
        MatrixCopy(parse_layout(WORDS, (32, 24)), "float32", "float32", "swizzle=32", load=True),
        "ldmatrix_x4"),
    "an operand that is converted": (
        MatrixCopy(_sums(32, 32), "float32", "bfloat16", "swizzle=64", load=True), ""),
}  # fmt: skip


def test_copies_of_matrices() -> None:
    """Elements arrive, by the instruction that fits the layouts."""
    for name, (copy, instruction) in COPIES.items():
        text = copy.source().text
        assert instruction in text, name
        assert instruction or "matrix_x" not in text, name
    check_together({name: copy for name, (copy, _) in COPIES.items()})


@pytest.mark.parametrize("name", [n for n, (_, instruction) in COPIES.items() if instruction])
def test_copies_of_matrices_compile(name: str) -> None:
    """NVRTC takes them, and registers stay registers."""
    copy, instruction = COPIES[name]
    sass = _sass(copy.target, f"copy {name}")
    assert ("LDSM" if instruction.startswith("ld") else "STSM") in sass


def _kernels(target: str) -> dict[str, Callable[[], Text]]:
    """What the tests of machine code look at, by the keys under which they ask for it."""
    turned = {f"{name} {turn}": (name, BOTH[TURNS.index(turn)]) for name, turn in TURNED_TYPES}
    products = turned | {f"{name} ABᵀ": (name, BOTH[1]) for name in TYPES}
    found: dict[str, Callable[[], Text]] = {
        key: partial(lambda name, both: _product(name, both, target).kernel(), *given)
        for key, given in products.items()
    }
    copies = {f"copy {name}": copy for name, (copy, instruction) in COPIES.items() if instruction}
    found |= {key: copy.kernel for key, copy in copies.items() if copy.target == target}
    if target == "sm_90a":
        found["loop"] = partial(_loop, 128, 256, 64, 256)
    return found


KERNELS = {target: _kernels(target) for target in ("sm_90a", "sm_80")}
