"""Clusters on the emulated GPU: which tiles are loaded once, and that the blocks keep in step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cuda.compiled_kernels import checked, function
from tests.cuda.multicast_kernels import product, triangle
from tileprof import ir
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import EmulationError, emulate
from tileprof.errors import KernelError
from tileprof.remarks.launches import Clusters

Array = np.ndarray[Any, Any]
SHAPE = (256, 128, 192)
Make = Callable[[], ir.Kernel]
"""Traces a kernel: in the test, as every worker imports this file to collect its tests."""


def operands(shape: tuple[int, int, int], order: str) -> tuple[Array, Array, Array]:
    """A and B as they lie in memory, and the product; sums are exact."""
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in ((m, k), (k, n)))
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    turned = [x.T.copy() if letter == "T" else x for x, letter in zip((a, b), order)]
    return turned[0], turned[1], want


def check(program: CudaProgram, kernel: ir.Kernel, shape: tuple[int, int, int], order: str) -> None:
    """For several orders of threads and of late data."""
    a, b, want = operands(shape, order)
    for seed in range(2):
        c = np.zeros(want.shape, ml_dtypes.bfloat16)
        emulate(program.source, program.kernel, [a, b, c], seed=seed)
        np.testing.assert_array_equal(c, want)


def about(program: CudaProgram, op: str) -> str:
    """All remarks about an op."""
    return "\n".join(f"{r.decision} {r.against}" for r in program.remarks if r.subject == op)


@pytest.mark.spread("2-NT-False", "4-TN-False")
@pytest.mark.parametrize(
    ("cluster", "order", "persistent"),
    # Every operand layout, and every two of the other two in each of their values.
    [(2, "NT", False), (4, "NT", True), (2, "NN", True), (4, "TN", False)],
)
def test_products(cluster: int, order: str, persistent: bool) -> None:
    """Each operand layout; rows of B in slices, whose bytes arrive in every block."""
    kernel = product(SHAPE, order)
    program = checked(kernel, cluster=cluster, persistent=persistent)
    (launch,) = program.source.launches
    assert (launch.cluster, bool(launch.persistent)) == (cluster, persistent)
    copies = [o for o in program.kernel.ops() if isinstance(o, ir.AsyncCopy) and o.ring]
    assert sorted(o.multicast for o in copies) == [1, cluster]
    assert any(64 // cluster in o.source.buffer.shape for o in copies if o.multicast > 1)
    check(program, kernel, SHAPE, order)


@pytest.mark.parametrize(
    ("make", "shape", "order", "persistent"),
    [
        (partial(product, (500, 200, 136)), (500, 200, 136), "NT", True),
        (partial(product, (256, 256, 128), block=(64, 128, 64)), (256, 256, 128), "NT", False),
        (
            partial(product, (256, 256, 128), "NN", block=(128, 128, 64), threads=256),
            (256, 256, 128),
            "NN",
            True,
        ),
        (partial(product, (256, 256, 128), block=(128, 64, 64)), (256, 256, 128), "NT", True),
        (partial(product, (256, 256, 128), axis="columns"), (256, 256, 128), "NT", False),
        (partial(product, (128, 128, 384), stages=4), (128, 128, 384), "NT", True),
    ],
    ids=["edges", "wide tiles", "panels", "tall tiles", "other grid", "stages"],
)
def test_tiles(make: Make, shape: tuple[int, int, int], order: str, persistent: bool) -> None:
    """Tiles over the edge, several panels, two warp groups, either axis of the grid."""
    kernel = make()
    program = checked(kernel, cluster=2, persistent=persistent)
    assert program.source.launches[0].cluster == 2
    check(program, kernel, shape, order)


@pytest.mark.spread("True")
@pytest.mark.parametrize("raster", [False, True])
def test_order_of_tiles(raster: bool) -> None:
    """Six clusters in rows of eight blocks: the last group of rows is short."""
    shape = (64 * 12, 128, 64)
    kernel = product(shape)
    check(checked(kernel, cluster=2, persistent=raster, rasterize=raster), kernel, shape, "NT")


def test_a_slot_that_is_freed_at_once() -> None:
    """The other tests free slots one iteration late."""
    kernel = product(SHAPE)
    check(checked(kernel, cluster=2, delayed_release=False), kernel, SHAPE, "NT")


def test_the_larger_operand_is_shared() -> None:
    """Along the axis in which less is loaded; along the last where both save the same."""
    wide = checked(product((256, 256, 64), block=(64, 128, 64)), cluster=2)
    tall = checked(product((256, 256, 64), block=(128, 64, 64)), cluster=2)
    square = checked(product((256, 256, 64)), cluster=2)
    assert about(wide, "launch").startswith("clusters of 2 blocks along `second`")
    assert about(tall, "launch").startswith("clusters of 2 blocks along `first`")
    assert about(square, "launch").startswith("clusters of 2 blocks along `second`")
    assert "multicast: each of 2 blocks loads 64 of 128 rows" in about(wide, "copy B → b")
    assert "its address depends on `second`" in about(wide, "copy A → a")


@pytest.mark.parametrize(
    ("make", "controls", "reason"),
    [
        (partial(product, (192, 192, 64)), {}, "the 3 blocks of `second` are no multiple of 2"),
        (partial(product, SHAPE, check=True), {}, "prints and asserts name their block"),
        (partial(product, SHAPE), {"warp_specialization": False}, "no producer warp group"),
        (partial(product, SHAPE), {"tma": False}, "no producer warp group"),
        (partial(triangle, 4, causal=True), {}, "`K`: a loop or branch around it depends on `i`"),
        (partial(triangle, 4, causal=True), {}, "`Q`: its address depends on `i`"),
        (partial(product, (256, 72, 64), block=(64, 24, 64)), {}, "`B`: it has 24 rows"),
    ],
    ids=["odd", "reports", "no roles", "no tma", "loop", "address", "rows"],
)
def test_why_not(make: Make, controls: dict[str, Any], reason: str) -> None:
    """The launch says what is in the way, and is launched without clusters."""
    program = checked(make(), cluster=2, **controls)
    assert program.source.launches[0].cluster == 1
    assert "tp_tma_load_multicast" not in program.source.text
    (remark,) = [r for r in program.remarks if r.op == "launch" and r.severity == "missed"]
    (rejected,) = remark.rejected
    assert rejected.candidate == Clusters(2)
    assert reason in str(rejected.reason)


def test_another_axis_where_one_is_odd() -> None:
    """Three rows of blocks, but four columns."""
    kernel = product((192, 256, 128))
    program = checked(kernel, cluster=2)
    assert about(program, "launch").startswith("clusters of 2 blocks along `first`")
    check(program, kernel, (192, 256, 128), "NT")


def test_keys_of_all_queries() -> None:
    """A ring that the blocks share beside one that is each block's own."""
    kernel = triangle(4, causal=False)
    program = checked(kernel, cluster=2)
    rings = [o.cluster for o in program.kernel.ops() if isinstance(o, ir.Ring)]
    assert sorted(rings) == [1, 2]
    rng = np.random.default_rng(0)
    q, k = (rng.integers(-2, 3, (256, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    want = sum(q.astype(np.float32) @ t.astype(np.float32).T for t in np.split(k, 4))
    o = np.zeros((256, 64), ml_dtypes.bfloat16)
    emulate(program.source, program.kernel, [q, k, o], seed=1)
    np.testing.assert_array_equal(o, np.asarray(want).astype(ml_dtypes.bfloat16))


def test_wish_of_the_author() -> None:
    """`cluster_dims` says size and axis; a control has the last word; other targets have none."""
    kernel = product((256, 256, 64), cluster_dims=(2, 1))
    wished = checked(kernel)
    assert wished.source.launches[0].cluster == 2
    assert about(wished, "launch").startswith("clusters of 2 blocks along `first`")
    check(wished, kernel, (256, 256, 64), "NT")
    assert checked(kernel, cluster=1).source.launches[0].cluster == 1
    assert checked(product((256, 256, 64))).source.launches[0].cluster == 1
    old = compile_cuda(kernel, find_target("sm_80"))
    assert old.source.launches[0].cluster == 1
    assert "sm_80 has none" in about(old, "launch")


@pytest.mark.parametrize("missing", ["start", "end", "others"])
def test_what_keeps_blocks_in_step(missing: str) -> None:
    """Without the barrier at the start or the end, or freeing one's own slots only, it shows."""
    kernel = product((256, 64, 512))
    program = checked(kernel, cluster=2)
    text = program.source.text
    parts = text.split("tp_cluster_barrier();")
    assert len(parts) == 3
    broken = {
        "start": f"{parts[0]}tp_barrier();{parts[1]}tp_cluster_barrier();{parts[2]}",
        "end": f"{parts[0]}tp_cluster_barrier();{parts[1]}{parts[2]}",
        "others": text.replace("_remote(ring_empty + ring_slot, tp_lane)",
                               "_remote(ring_empty + ring_slot, tp_cluster_rank())"),
    }[missing]  # fmt: skip
    assert broken != text
    source = type(program.source)(
        **{f: getattr(program.source, f) for f in program.source.__slots__} | {"text": broken}
    )
    a, b, want = operands((256, 64, 512), "NT")
    for seed in range(12):
        c = np.zeros(want.shape, ml_dtypes.bfloat16)
        try:
            emulate(source, kernel, [a, b, c], seed=seed)
        except EmulationError:
            return
        if not np.array_equal(c, want):
            return
    pytest.fail("no seed shows it")


def test_machine_code() -> None:
    """The copy engine writes to several blocks; consumers arrive at barriers of the others."""
    pytest.importorskip("cuda.bindings.nvrtc")
    shape = (1024, 1024, 512)
    kernel = product(shape, block=(128, 256, 64), stages=4, threads=256)
    program = checked(kernel, cluster=2, persistent=True)
    opcodes = {i.opcode for i in function(program).instructions}
    assert any(o.startswith("UTMALDG") and "MULTICAST" in o for o in opcodes)
    assert any(o.startswith("UTMALDG") and "MULTICAST" not in o for o in opcodes)
    assert any(o.startswith("UCGABAR") for o in opcodes)


@pytest.mark.parametrize("given", [(2, 2), (0,), (1, 1, 2), ("2",), 2.0])
def test_wishes_that_are_none(given: Any) -> None:
    """Blocks along one axis of the grid."""
    with pytest.raises(KernelError, match="cluster_dims") as raised:
        product((256, 256, 64), cluster_dims=given)
    assert (
        raised.value.hint
        == "It is a number for each axis of the grid, one of them above 1: `(1, 2)`."
    )


def test_wishes_for_one_block() -> None:
    """They change nothing."""
    plain = checked(product((256, 256, 64)))
    for given in ((1,), (1, 1, 1)):
        assert checked(product((256, 256, 64), cluster_dims=given)).source.text == plain.source.text
