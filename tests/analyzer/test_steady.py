"""What is of a program's steps, and what comes but once."""

from __future__ import annotations

from typing import cast

import pytest

from tests.analyzer.steps import DEPENDENT, LATE, MS, Step
from tileprof.analyzer.program.steady import Steps
from tileprof.profile import Sketch, TreeBuilder

HOST, DATA = "waiting for the host", "waiting for data"


def stepping() -> Step:
    """Twenty steps of 10 ms."""
    step = Step()
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", 9 * MS, gaps={DEPENDENT: MS})
    return step


def milliseconds(step: Step) -> float:
    """Of one step."""
    return Steps(step.profile()).time / MS


def test_before_the_scope_of_the_steps() -> None:
    """Work and gaps that are outside of it, however often they come."""
    step = stepping()
    early = step.op(step.frame(-1, "main", 9), "aten::normal_", 200)
    step.launch(early, "init", MS, 200, gaps={LATE: 50 * MS})
    assert milliseconds(step) == pytest.approx(10)
    assert Steps(step.profile()).once == pytest.approx(50 * MS)


def test_a_scope_that_holds_little_is_no_step() -> None:
    """That of an optimizer alone: what is around it counts; a gap that comes once does not."""
    step = Step()
    step.launch(step.op(step.top, "aten::_fused_adamw_"), "multi_tensor_apply", MS)
    line = step.frame(-1, "main", 20)
    step.launch(step.op(line, "aten::mm"), "nvjet_hsh", 8 * MS, gaps={LATE: MS})
    step.idle(line, HOST, 90 * MS, 1)
    assert milliseconds(step) == pytest.approx(10)


def test_gaps_of_first_steps_do_not_lengthen_the_others() -> None:
    """Three gaps of 100 ms before late launches, of 60, count as the others do: 1 ms each."""
    step = Step(visits=60)
    op = step.op(step.top, "aten::mm")
    step.launch(op, "nvjet_hsh", 60 * 9e6)
    gap = step.idle(op, LATE, 57 * 1e6 + 3 * 100e6)
    profile = step.profile()
    assert Steps(profile).time == pytest.approx(60 * 9e6 + 357e6)
    sketches = cast(dict[tuple[int, str], Sketch], profile.tables.sketches)
    sketches[gap, "idle_time"] = Sketch.of([1e6] * 57 + [100e6] * 3)
    assert Steps(profile).time == pytest.approx(60 * 10e6, rel=0.01)


def test_a_gap_of_every_other_step() -> None:
    """Ten of twenty come again; nine are of first uses, or of the host's whims."""
    for count, expected in ((10, 15.0), (9, 10.0)):
        step = stepping()
        step.idle(step.frame(step.top, "train", 30), LATE, 5 * MS, count)
        assert milliseconds(step) == pytest.approx(expected)


def test_a_scope_in_a_scope() -> None:
    """Steps are the outer one: a gap before each step, below a layer that each visits 8 times."""
    step = stepping()
    layer = step.scope(step.top, "layer")
    step.builder.add(layer, "count", 140)
    step.launch(step.op(layer, "aten::add", 160), "elementwise", MS, 160)
    step.idle(step.frame(layer, "forward", 40), LATE, 2 * MS, 20)
    assert milliseconds(step) == pytest.approx(13)


@pytest.mark.parametrize(("reason", "expected"), [(DATA, 15.0), (LATE, 10.0)])
def test_long_gaps_of_one_scope_count_together(reason: str, expected: float) -> None:
    """They stand where the host was seen; others end at a launch, always the same one."""
    step = stepping()
    for line in range(30, 35):
        step.idle(step.frame(step.top, "batches", line), reason, MS, 3)
    assert milliseconds(step) == pytest.approx(expected)


def test_places_where_the_host_was_seen_once() -> None:
    """First uses of thirty operations, in the first step."""
    step = stepping()
    for line in range(30, 60):
        step.idle(step.frame(step.top, "forward", line), HOST, MS, 1)
    assert milliseconds(step) == pytest.approx(10)


@pytest.mark.parametrize(("visits", "expected"), [(90, 9.0), (3, 11.0)])
def test_lines_beside_a_loop_without_a_scope(visits: int, expected: float) -> None:
    """Two gaps at a line whose kernels run once, where the loop's run 90 times, or thrice."""
    step = Step(visits)
    loop, after = (step.frame(-1, "main", line) for line in (72, 75))
    step.launch(loop, "silu", 9 * MS)
    step.launch(after, "square", 1.0, 1)
    step.idle(after, HOST, 2 * MS, 2)
    assert Steps(step.profile()).time / MS == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("visits", "expected"), [(2, 9), (3, 10)])
def test_gaps_that_came_twice_beside_many_launches(visits: int, expected: float) -> None:
    """Without a scope two may both be of first uses, such as that of a kernel and of a copy."""
    step = Step()
    call = step.node(-1, "api", "cuLaunchKernel")
    step.launch(call, "nvjet_hsh", 9 * MS)
    step.idle(call, LATE, MS, visits)
    assert milliseconds(step) == pytest.approx(expected)


def test_a_phase_tells_steps_without_a_scope() -> None:
    """As the recorder gives it: what is set-up is left out, work as well."""
    step = stepping()
    step.phase = "set-up"
    step.launch(step.op(step.frame(-1, "main", 9), "aten::mm"), "nvjet_hsh", 70 * MS)
    assert milliseconds(step) == pytest.approx(10)


def of_jax(compiles: int) -> Step:
    """A step of 10 ms of a function of JAX that XLA has compiled so often, in 400 ms of gaps."""
    step = Step()
    jax = "/env/lib/python3.11/site-packages/jax/_src/"
    run = step.scope(-1, "XlaModule:#hlo_module=jit_update,program_id=7#")
    step.launch(run, "loop_add_fusion", 5 * MS, gaps={DEPENDENT: MS})
    call = step.frame(-1, "main", 12)
    step.launch(call, "of_another_library", 4 * MS)
    compiler = step.frame(call, "compile_or_get_cached", 30, f"{jax}compiler.py")
    step.idle(compiler, HOST, 100 * MS, 2)
    scope = step.node(compiler, "scope", "XlaCompile:#module=jit_update#")
    step.builder.add(scope, "count", compiles)
    step.idle(step.node(scope, "scope", "XlaPass:#program_id=7#"), HOST, 300 * MS, 33)
    return step


def test_gaps_of_what_is_compiled_once() -> None:
    """However often a device works meanwhile; where each step compiles, each waits for it."""
    assert milliseconds(of_jax(compiles=1)) == pytest.approx(10)
    assert milliseconds(of_jax(compiles=20)) == pytest.approx(310)


def test_functions_that_run_more_often_than_they_compile() -> None:
    """Two programs at one line are first uses, of arrays of two shapes; eleven for 20 runs not."""
    assert milliseconds(of_jax(compiles=2)) == pytest.approx(10)
    assert milliseconds(of_jax(compiles=11)) == pytest.approx(310)


def test_what_xla_tries_is_of_no_step() -> None:
    """Work on its own threads: beside ranges of functions of JAX, in ranges of an operation."""
    step = of_jax(compiles=1)
    trial = step.scope(-1, "XlaModule:#hlo_module=gemm_fusion_dot.61,program_id=9#")
    step.launch(trial, "gemm_fusion_dot_61", 20 * MS, 24)
    step.launch(-1, "RedzoneAllocatorKernelImpl", 30 * MS, 3000, gaps={LATE: 90 * MS})
    assert milliseconds(step) == pytest.approx(10)


def test_a_program_that_repeats_nothing() -> None:
    """One launch and one gap: all of it counts, as nothing tells what is usual."""
    step = Step(visits=1)
    step.launch(step.op(step.top, "aten::mm"), "nvjet_hsh", MS, gaps={LATE: 3 * MS})
    steps = Steps(step.profile())
    assert not steps.repeats
    assert steps.time == pytest.approx(4 * MS)


def test_copies_in_gaps_count_once() -> None:
    """Time in which only copies ran is that of the copies."""
    step = stepping()
    step.copy(step.op(step.top, "aten::copy_"), "HtoD pageable", 4 * MS, 1e9)
    step.idle(step.op(step.top, "aten::add"), "only copies", 3 * MS)
    assert milliseconds(step) == pytest.approx(14)


def test_nothing_at_all() -> None:
    """A tree without nodes takes no time."""
    steps = Steps(TreeBuilder().snapshot())
    assert (steps.time, steps.once) == (0, 0)
