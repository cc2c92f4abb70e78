"""The model of tiles: what a configuration asks of the machine, and how long that takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_kernels, tuned_kernels
from case_studies import attention
from tests.tuning import tuned_kernels as kernels
from tileprof.compiler.cuda.controls import Controls, controls_of
from tileprof.lang.jit_function import JitFunction
from tileprof.tuning import machine_of
from tileprof.tuning.facts import Binary, KernelFacts, LaunchFacts
from tileprof.tuning.guesses import rank_correlation
from tileprof.tuning.model import estimate
from tileprof.tuning.trials import Order, tried

GPU = machine_of("", "sm_90a")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def facts(function: JitFunction, **values: Any) -> KernelFacts:
    """The facts of a kernel for an H200, without machine code."""
    order = Order(function.compile(**values).traced, Controls(), "sm_90a", 132, compiled=False)
    found = tried(order)
    assert found.facts is not None, found.refused
    return found.facts


def launch(function: JitFunction, **values: Any) -> LaunchFacts:
    """The facts of a kernel's only launch."""
    (only,) = facts(function, **values).launches
    return only


def test_facts_of_a_product_are_those_of_its_text() -> None:
    """Blocks, stages, bytes and flops follow from the tiles; instructions from the lowering."""
    held = launch(kernels.product, M=4096, N=2048, K=512)
    assert (held.blocks, held.threads, held.workers, held.groups) == (256, 384, 256, 2)
    assert held.persistent
    once, loop = held.parts
    assert (loop.times, loop.stages) == (8, 4)
    assert loop.loads == (128 + 256) * 64 * 2
    (product,) = loop.products
    assert (product.flops, product.roof) == (2 * 128 * 256 * 64, "tensor_bfloat16")
    assert product.instruction == "wgmma"
    assert once.stores == 128 * 256 * 2
    # A from shared memory once, B once for each of two rows of instructions; both are also written.
    assert loop.shared == (128 + 256) * 64 * 2 + (128 + 2 * 256) * 64 * 2


def test_elementwise_loops_load_and_store_what_they_say() -> None:
    """Two operands are read and one is written, by threads that wait for them."""
    held = launch(kernels.added, N=1 << 20)
    (part,) = held.parts
    assert held.blocks == 1024
    assert (part.loads, part.stores, part.waited) == (8192, 4096, 8192)


def test_a_product_of_known_time_is_predicted() -> None:
    """8192³ in bfloat16 takes 1.556 ms on an H200 (results/kernels-after-redesign.json)."""
    found = estimate(facts(gpu_kernels.matmul_nt, M=8192, N=8192, K=8192), GPU)
    assert found.ns == pytest.approx(1.556e6, rel=0.15)


@pytest.mark.sweep
def test_known_times_of_attention_are_ranked() -> None:
    """Widths of tiles and controls that were measured on an H200, from the lowering alone."""
    rows = json.loads((RESULTS / "attention.json").read_text())["rows"]
    (row,) = (each for each in rows if each["work"] == "attention d128 4096 causal")
    shape = {"batch": 4, "length": 4096, "keys": 4096, "heads": 16, "groups": 16, "dim": 128}
    measured, predicted = [], []
    for name, controls, tile in (
        ("block_N 64, stages 3", {}, {"block_N": 64, "stages": 3}),
        ("block_N 96, stages 2", {}, {"block_N": 96}),
        ("block_N 128, stages 2", {}, {}),
        ("block_N 176, stages 2", {}, {"block_N": 176}),
        ("overlap False, ping_pong False", {"overlap": False, "ping_pong": False}, {}),
    ):
        kernel = attention.attention.compile(**shape, **tile, causal=True).traced
        order = Order(kernel, controls_of(controls), "sm_90a", 132, compiled=False)
        found = tried(order).facts
        assert found is not None
        predicted.append(estimate(found, GPU).ns)
        measured.append(4 * 4 * 16 * 4096**2 * 128 / 2 / row["ways"][name] / 1e12 * 1e9)
    assert rank_correlation(predicted, measured) >= 0.85
    for ours, theirs in zip(predicted, measured):
        assert ours == pytest.approx(theirs, rel=0.2)


def test_a_kernel_that_memory_bounds_is_at_its_roof() -> None:
    """Softmax of 8192 × 8192 in bfloat16 moves 268 MB at 4.09 TB/s."""
    found = estimate(facts(gpu_kernels.softmax, M=8192, N=8192), GPU)
    assert found.bound == "memory"
    assert found.ns == pytest.approx(2 * 8192 * 8192 * 2 / 4.09e12 * 1e9, rel=0.15)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({}, {"block_M": 64, "block_N": 64}),  # operands are read more often
        ({"stages": 4}, {"stages": 2}),  # less is on its way
        ({"block_K": 64}, {"block_K": 16}),  # more iterations, and rows of 32 bytes
        ({"block_M": 64, "threads": 128}, {"block_M": 64, "threads": 64}),  # no warp groups
    ],
)
def test_what_is_known_to_be_slower_is_predicted_slower(
    better: dict[str, int], worse: dict[str, int]
) -> None:
    """Of a large product on tensor cores."""
    times = [
        estimate(facts(kernels.product, M=8192, N=8192, K=8192, **each), GPU).ns
        for each in (better, worse)
    ]
    assert times[1] > 1.02 * times[0]


def test_small_grids_want_small_tiles() -> None:
    """With 4 blocks of 128 × 256 most multiprocessors have nothing to do."""
    large, small = (
        estimate(facts(kernels.product, M=256, N=512, K=4096, block_M=m, block_N=n, stages=3), GPU)
        for m, n in ((128, 256), (64, 64))
    )
    assert small.ns < large.ns
    assert large.waves < small.waves


def test_spills_and_serialised_products_take_time() -> None:
    """Machine code tells of both."""
    held = facts(kernels.product, M=4096, N=4096, K=4096)
    (only,) = held.launches

    def with_binary(spilled: int, serialised: bool) -> float:
        made = replace(only, binary=Binary(168, spilled, serialised))
        return estimate(replace(held, launches=(made,)), GPU).ns

    plain = with_binary(0, False)
    assert with_binary(400, False) > plain
    assert with_binary(0, True) > plain


def test_what_does_not_fit_has_no_time() -> None:
    """More registers than there are leave no block."""
    held = facts(kernels.product, M=512, N=512, K=512)
    (only,) = held.launches
    made = replace(only, registers=255)
    assert estimate(replace(held, launches=(made,)), GPU).ns == float("inf")


def test_loops_inside_of_a_loop_over_elements_repeat() -> None:
    """A scalar sum of 4 numbers for each of 64 elements takes 8 requests of a warp, a store 2."""
    (part,) = launch(kernels.scalar_sums, N=64).parts
    assert part.requests == 8 + 2


def test_chunks_of_rows_count_once_each() -> None:
    """Both passes of a softmax in chunks read the row."""
    once, first, second = launch(tuned_kernels.softmax, M=64, N=4096, chunk=1024).parts
    assert (first.times, second.times, once.times) == (4, 4, 1)
    assert first.loads == second.loads == 2048
    assert second.stores == 2048
    assert first.special >= 1024
    assert first.reductions == 2


def test_a_processor_is_modelled_without_a_lowering() -> None:
    """Larger blocks cost less to start."""
    machine = machine_of("cpu")
    times = []
    for block in (64, 4096):
        kernel = kernels.added.compile(N=1 << 20, block=block).traced
        found = tried(Order(kernel, Controls(), "", 1, compiled=False))
        assert found.facts is not None
        times.append(estimate(found.facts, machine).ns)
    assert times[1] < times[0]


def test_trials_say_what_there_is_too_little_of() -> None:
    """Of shared memory; and the compiler's own words are kept."""
    kernel = kernels.product.compile(M=512, N=512, K=512, block_K=256, stages=8).traced
    found = tried(Order(kernel, Controls(), "sm_90a", 132, compiled=False))
    assert found.facts is None
    assert found.refused is not None
    assert found.refused.resource == "shared memory"
    assert "227 KB" in found.refused.message
