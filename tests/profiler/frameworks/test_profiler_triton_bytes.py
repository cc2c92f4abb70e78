"""Least bytes and operations of Triton's kernels, by their programs and the tensors of a launch.

The programs are those of `tests/profiler/gpu/programs/triton_kernels.py`, which stores them.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tileprof.profiler.frameworks.triton_accesses import work_of
from tileprof.profiler.frameworks.triton_bytes import Estimate, estimate, stored_bytes
from tileprof.profiler.frameworks.triton_ir import Unknown, parse

TEXTS = Path(__file__).parents[2] / "data" / "triton"
MANY = 1 << 20
"""Columns of a table that no launch reads as a whole."""


class Tensor:
    """Tensor with the attributes that a launch reads; contiguous where no strides are given."""

    at = 0

    def __init__(self, *shape: int, size: int = 4, stride: tuple[int, ...] | None = None) -> None:
        self.shape, self.strides = shape, stride
        self.nbytes = math.prod(shape) * size
        Tensor.at += 4096
        self.address = Tensor.at

    def is_contiguous(self) -> bool:
        return self.strides is None

    def stride(self) -> tuple[int, ...]:
        assert self.strides is not None
        return self.strides

    def data_ptr(self) -> int:
        return self.address


def text(name: str) -> str:
    """The program of a kernel."""
    return Path(TEXTS, f"{name}.ttir").read_text()


def compiled(name: str, program: str = "", **signature: object) -> Any:
    """A compiled kernel; arguments by name and type."""
    source = SimpleNamespace(signature=signature, fn=SimpleNamespace(arg_names=[*signature]))
    return SimpleNamespace(asm={"ttir": program or text(name)}, src=source)


def known(name: str, program: str = "", **signature: str) -> Estimate:
    """Estimate of the flops and bytes of a kernel's launches."""
    found = estimate(compiled(name, program, **signature), 0)
    assert found is not None
    return found


F32, F16, INT, CONSTANT = "*fp32", "*fp16", "i32", "constexpr"
ADD = {"x": F32, "y": F32, "out": F32, "n": INT, "BLOCK": CONSTANT}
MATMUL = {
    "a": F16, "b": F16, "c": F16, "M": INT, "N": INT, "K": INT, "sam": INT, "sak": CONSTANT,
    "sbk": INT, "sbn": CONSTANT, "scm": INT, "scn": CONSTANT,
}  # fmt: skip


def half(*shape: int) -> Tensor:
    """A tensor of 16 bits an element."""
    return Tensor(*shape, size=2)


def test_vector_add() -> None:
    """Two tensors are loaded and one is stored, each once."""
    n = 5000
    given = [Tensor(n), Tensor(n), Tensor(n), n, 1024]
    assert known("add", **ADD).of((5,), given) == (0, 3 * 4 * n)


def test_program_reads_part_of_larger_tensors() -> None:
    """The elements of two programs count where the tensors have a million."""
    given = [Tensor(MANY), Tensor(MANY), Tensor(MANY), 2048, 1024]
    assert known("add", **ADD).of((2,), given) == (0, 3 * 4 * 2048)


def test_tensor_that_is_given_twice_is_loaded_once() -> None:
    """The square of a tensor is one load and one store."""
    x, out = Tensor(4096), Tensor(4096)
    assert known("add", **ADD).of((4,), [x, x, out, 4096, 1024]) == (0, 2 * 4 * 4096)


def test_repeated_dimension_counts_once() -> None:
    """An expanded row is stored once, whatever its shape says."""
    assert stored_bytes(Tensor(100, 64, stride=(0, 1))) == 4 * 64
    assert stored_bytes(Tensor(100, 64, stride=(128, 1))) == 4 * 6400


def test_softmax_over_rows() -> None:
    """Each program loads a row and stores one."""
    found = known("softmax", x=F32, out=F32, stride=INT, columns=INT, BLOCK=CONSTANT)
    x, out = Tensor(128, 1000), Tensor(128, 1000)
    assert found.of((128, 1, 1), [x, out, 1000, 1000, 1024]) == (0, 2 * 4 * 128_000)


def test_matmul_by_the_length_of_its_loop() -> None:
    """Operations are those of whole tiles, of the steps that the argument K asks for."""
    m, n, k = 1000, 512, 768
    given = [half(m, k), half(k, n), half(m, n), m, n, k, k, 1, n, 1, n, 1]
    flops, moved = known("matmul", **MATMUL).of((8, 4), given) or (0, 0)
    assert flops == 2 * 1024 * 512 * 768
    assert moved == 2 * (m * k + k * n + m * n)


def test_matmul_of_a_part_of_its_operands() -> None:
    """Half of K: half of each operand is loaded, whichever programs share what they load."""
    m, n, k = 1024, 512, 768
    given = [half(m, k), half(k, n), half(m, n), m, n, k // 2, k, 1, n, 1, n, 1]
    assert known("matmul", **MATMUL).of((8, 4), given) == (
        2 * m * n * k // 2,
        2 * (m * k // 2 + k // 2 * n + m * n),
    )


def test_second_pass_over_a_row_is_not_loaded_again() -> None:
    """A layer norm's rows are read twice, of a tensor with more rows than programs."""
    found = known(
        "layer_norm", x=F16, weight=F16, out=F16, mean=F32, stride=INT, columns=INT, eps="fp32",
        BLOCK=CONSTANT,
    )  # fmt: skip
    rows, columns = 64, 4096
    given = [half(MANY, columns), half(columns), half(rows, columns), Tensor(rows)]
    moved = 2 * (rows * columns + columns + rows * columns) + 4 * rows
    assert found.of((rows,), [*given, columns, columns, 1e-5, 1024]) == (0, moved)


def test_atomics_load_and_store() -> None:
    """The counters of a histogram count twice."""
    found = known("histogram", x="*i32", counts="*i32", n=INT, BLOCK=CONSTANT)
    assert found.of((4,), [Tensor(1000), Tensor(64), 1000, 256]) == (0, 4 * 1000 + 2 * 4 * 64)


def test_an_exchange_without_a_result_stores() -> None:
    """What was there before is not part of the work, unless somebody takes it."""
    held = text("histogram")
    changed = re.sub(r"tt\.atomic_rmw add", "tt.atomic_rmw exch", held)
    assert changed != held
    given = [Tensor(1000), Tensor(64), 1000, 256]
    arguments = {"x": "*i32", "counts": "*i32", "n": INT, "BLOCK": CONSTANT}
    assert known("histogram", changed, **arguments).of((4,), given) == (0, 4 * 1000 + 4 * 64)
    (result,) = re.findall(r"(%\w+) = tt\.atomic_rmw exch", changed)
    read = re.sub(
        r"(\n *)tt\.return",
        rf"\1%taken = arith.addi {result}, {result} : tensor<256xi32>\1tt.return",
        changed,
    )  # fmt: skip
    assert known("histogram", read, **arguments).of((4,), given) == (0, 4 * 1000 + 2 * 4 * 64)


def test_rows_of_a_table() -> None:
    """A gather reads as many elements as it returns, not the table."""
    found = known("gather", table=F16, index="*i64", out=F16, width=INT, BLOCK=CONSTANT)
    given = [half(MANY, 256), Tensor(32, size=8), half(32, 256), 256, 256]
    assert found.of((32,), given) == (0, 2 * 32 * 256 + 8 * 32 + 2 * 32 * 256)


def test_functions_that_are_called() -> None:
    """A pointer is followed into a function, and out of one that returns it."""
    found = known("helped", x=F32, out=F32, n=INT, BLOCK=CONSTANT)
    # Of `x` one element a program; of `out` all, and an atomic operation on one of each program.
    given = [Tensor(MANY), Tensor(1024), 1024, 256]
    assert found.of((4,), given) == (0, 4 * 4 + 4 * 4 + 4 * 1024)


@pytest.mark.parametrize("name", ["described", "host_described"])
def test_descriptors(name: str) -> None:
    """A description of a tensor, made in the kernel or before, leads to its tensor."""
    x, out = Tensor(256, 256), Tensor(256, 256)
    if name == "described":
        found = known(name, x=F32, out=F32, rows=INT, columns=INT, BM=CONSTANT, BN=CONSTANT)
        given = [x, out, 256, 256, 64, 64]
    else:
        kind = "tensordesc<fp32[64, 64]>"
        found = known(name, x=kind, out=kind, BM=CONSTANT, BN=CONSTANT)
        given = [SimpleNamespace(base=x), SimpleNamespace(base=out), 64, 64]
    assert found.of((4, 4), given) == (0, 2 * 4 * 256 * 256)
    assert found.of((2, 4), given) == (0, 2 * 4 * 128 * 256)


def test_block_pointers() -> None:
    """Blocks of 64 rows and all columns."""
    found = known(
        "block_pointers", x=F32, out=F32, rows=INT, columns=INT, stride=INT, BM=CONSTANT,
        BN=CONSTANT,
    )  # fmt: skip
    given = [Tensor(MANY, 512), Tensor(128, 512), 128, 512, 512, 64, 64]
    assert found.of((2,), given) == (0, 2 * 4 * 128 * 512)


def test_branch_by_an_argument() -> None:
    """Branches not taken load nothing; a program that may return early is taken to go on."""
    found = known("biased", x=F32, bias=F32, out=F32, n=INT, with_bias=INT, BLOCK=CONSTANT)
    given = [Tensor(1024), Tensor(1024), Tensor(1024), 1024]
    assert found.of((4,), [*given, 0, 256]) == (0, 2 * 4 * 1024)
    assert found.of((4,), [*given, 3, 256]) == (0, 3 * 4 * 1024)


def test_trips_that_differ_between_programs() -> None:
    """Causal attention: each block of queries meets the keys before it."""
    found = known("attention", q=F16, k=F16, v=F16, out=F16, n=INT, BM=CONSTANT, BN=CONSTANT,
                  D=CONSTANT)  # fmt: skip
    heads, n, d = 12, 1024, 64
    given = [half(heads, n, d) for _ in range(4)]
    blocks = n // 64
    flops = heads * blocks * (blocks + 1) // 2 * 2 * (2 * 64 * 64 * d)
    assert found.of((blocks, heads), [*given, n, 64, 64, 64]) == (flops, 4 * 2 * heads * n * d)


def test_persistent_programs() -> None:
    """132 programs share 192 tiles: some have one, some have two."""
    found = known("persistent", a=F16, b=F16, c=F16, M=INT, N=INT, K=INT, P=CONSTANT)
    m, n, k = 2048, 1536, 640
    flops, moved = found.of((132,), [half(m, k), half(k, n), half(m, n), m, n, k]) or (0, 0)
    assert flops == 2 * m * n * k
    assert moved == 2 * (m * k + k * n + m * n)


def test_programs_in_groups_that_share_a_sum() -> None:
    """Two programs sum up halves of K for each tile of the result, by atomic operations."""
    found = known("grouped", a=F16, b=F16, c=F32, M=INT, N=INT, K=INT)
    m, n, k = 2048, 1536, 640
    given = [half(m, 2 * k), half(2 * k, n), Tensor(m, n), m, n, k]
    flops, moved = found.of((16 * 12, 2), given) or (0, 0)
    assert flops == 2 * m * n * 2 * k
    assert moved == 2 * (m * 2 * k + 2 * k * n) + 2 * 4 * m * n


def test_products_with_scales() -> None:
    """Operands of 8 bits with a scale for each 32 of them."""
    found = known("scaled", a="*fp8e5", b="*fp8e5", sa="*u8", sb="*u8", c=F32, K=INT)
    m, n, k = 128, 128, 512
    tensors = [Tensor(m, k, size=1), Tensor(k, n, size=1)]
    scales = [Tensor(m, k // 32, size=1), Tensor(n, k // 32, size=1)]
    moved = (m * k + k * n) * 33 // 32 + 4 * m * n
    assert found.of((1,), [*tensors, *scales, Tensor(m, n), k]) == (2 * m * n * k, moved)
    packed = text("scaled").replace(
        "tensor<128x128xf8E5M2>, tensor<128x4xi8> *", "tensor<128x128xi8>, tensor<128x4xi8> *"
    )
    assert packed != text("scaled")
    found = known("scaled", packed, a="*fp8e5", b="*fp8e5", sa="*u8", sb="*u8", c=F32, K=INT)
    assert found.of((1,), [*tensors, *scales, Tensor(m, n), k]) is None


def test_too_many_programs_to_count_are_not_known() -> None:
    """Each program of a causal attention has its own trips; a million are not gone through."""
    found = known("attention", q=F16, k=F16, v=F16, out=F16, n=INT)
    given = [half(MANY, 64) for _ in range(4)]
    assert found.of((MANY // 64, 1), [*given, MANY]) is not None
    assert found.of((MANY, 1), [*given, 64 * MANY]) is None


def test_numbers_that_are_made_in_too_many_steps() -> None:
    """A trip count by thousands of sums is not known, and raises nothing."""
    sums = "".join(f"    %s{at + 1} = arith.addi %s{at}, %K : i32\n" for at in range(3000))
    changed = text("matmul").replace(
        "    %c63_i32 =", f"    %s0 = arith.constant 0 : i32\n{sums}    %c63_i32 =", 1
    )
    changed = changed.replace("%0 = arith.addi %K, %c63_i32", "%0 = arith.addi %s3000, %c63_i32")
    given = [half(8, 8), half(8, 8), half(8, 8), 8, 8, 8, 8, 1, 8, 1, 8, 1]
    assert known("matmul", changed, **MATMUL).of((1, 1, 1), given) is None


def test_empty_grid_does_nothing() -> None:
    """Neither bytes nor operations."""
    given = [half(8, 8), half(8, 8), half(8, 8), 8, 8, 8, 8, 1, 8, 1, 8, 1]
    assert known("matmul", **MATMUL).of((0, 1, 1), given) == (0, 0)


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("chosen", {"x": F32, "y": F32, "out": F32, "n": INT, "which": INT}),
        ("pointers", {"table": "*i64", "out": F32, "n": INT}),
    ],
)
def test_pointers_of_unknown_origin(name: str, signature: dict[str, str]) -> None:
    """One of two tensors, or an address that was in memory: nothing is said of such a kernel."""
    with pytest.raises(Unknown):
        work_of(parse(text(name)))
    assert estimate(compiled(name, **signature), 0) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tt.addptr %2,", "tt.new_thing %2,"),
        ("tt.splat %x", "tt.splat %absent"),
        ("    tt.return", "    a line that is none"),
        ("tensor<1024x!tt.ptr<f32>>", "memory<f32>"),
        ("arith.addf %4, %7", "foreign.read %4, %7"),
    ],
)
def test_text_that_is_not_understood(old: str, new: str) -> None:
    """Another form of a text, or an operation that is not known, is no reason to guess."""
    changed = text("add").replace(old, new)
    assert changed != text("add")
    assert estimate(compiled("add", changed, **ADD), 0) is None


def test_text_that_is_cut_off() -> None:
    """A function without an end."""
    assert estimate(compiled("add", text("add")[:1500], **ADD), 0) is None


def test_signature_that_does_not_fit() -> None:
    """An argument more than the program has, a number in place of a tensor, or a tuple."""
    for other in ({**ADD, "more": F32}, {**ADD, "x": INT}, {**ADD, "n": ("i32", "i32")}):
        assert estimate(compiled("add", **other), 0) is None


def test_constants_and_strings_are_not_operands() -> None:
    """Assembly may have anything in it."""
    line = "    %8 = arith.addf %4, %7 : tensor<1024xf32>"
    assembly = '    %8 = tt.elementwise_inline_asm "{ add $0, $1; // %nothing )" {a = 1} %4, %7 : '
    changed = text("add").replace(line, assembly + "tensor<1024xf32> -> tensor<1024xf32>")
    assert changed != text("add")
    given = [Tensor(1024), Tensor(1024), Tensor(1024), 1024]
    assert known("add", changed, **ADD).of((1,), given) == (0, 3 * 4 * 1024)
