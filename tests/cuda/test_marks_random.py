"""Marks in random pipelines with random scopes: they say where a warp is, and change nothing."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cuda.random_pipelines import Pipeline
from tests.cuda.recording import Recorder
from tests.cuda.test_cuda_random import both
from tests.everywhere import compiled_for
from tests.instrument.walking import check_loops, check_scopes, check_steps, check_turns, path_of
from tests.spread import examples
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram
from tileprof.emulator import emulate
from tileprof.errors import KernelError
from tileprof.instrument import Mode, note_scopes, strip_marks

_LEAVES = (ir.Yield, ir.Break, ir.Continue)


def scoped(kernel: ir.Kernel, seed: int) -> ir.Kernel:
    """The kernel with scopes around some of its ops."""
    chance = random.Random(seed)

    def wrapped(block: ir.Block) -> None:
        ops = list(block.ops)
        for op in ops:
            if not isinstance(op, ir.Parallel):
                for inner in op.blocks():
                    wrapped(inner)
        if len(ops) < 2 or chance.random() < 0.4:
            return
        start, stop = sorted(chance.sample(range(len(ops) + 1), 2))
        chosen = ops[start:stop]
        held = {o for op in chosen for o in (op, *(o for b in op.blocks() for o in ir.walk(b)))}
        leaving = [v for op in chosen for v in op.results if set(uses.get(v, [])) - held]
        if leaving or any(isinstance(op, _LEAVES) for op in chosen):
            return
        name = f"scope {chance.randrange(100)}"
        scope = ir.Scope(name, ir.Block([], chosen), span=chosen[0].span)
        block.ops[start:stop] = [scope]

    # The blocks of a copy may be changed.
    made = ir.rewrite(kernel, lambda op, builder: None)
    uses: dict[ir.Value, list[ir.OpBase]] = {}
    for op in made.ops():
        for value in op.operand_values():
            uses.setdefault(value, []).append(op)
    for op in made.body.ops:
        if isinstance(op, ir.Launch):
            for _ in range(3):
                wrapped(op.body)
    ir.verify(made)
    return made


def check(pipeline: Pipeline, target: str, controls: Controls, seed: int, mode: Mode) -> bool:
    """Whether the kernel fits."""
    kernel = scoped(pipeline.kernel(), seed)
    seen: dict[str, ir.Kernel] = {}

    def lowered(instrument: Mode) -> CudaProgram:
        return compiled_for(
            kernel, target, controls, pipeline.extents(), instrument=instrument,
            observe=seen.__setitem__,
        )  # fmt: skip

    try:
        plain = lowered("off")
    except KernelError as error:
        if "of shared memory" not in error.message:
            raise
        return False
    program = lowered(mode)
    marked = seen["marks"]
    ir.verify(marked)
    assert ir.print_kernel(strip_marks(marked)) == ir.print_kernel(plain.kernel)
    check_turns(marked)
    if mode == "ops":
        check_steps(marked)
        check_loops(marked)
    check_scopes(marked, note_scopes(kernel).sites, by_steps=mode != "scopes")
    _check_run(pipeline, kernel, plain, program)
    return True


def _check_run(
    pipeline: Pipeline, kernel: ir.Kernel, plain: CudaProgram, program: CudaProgram
) -> None:
    """The same results; and what each warp recorded is a way through the states."""
    expected, found, recorder = pipeline.arguments(), pipeline.arguments(), Recorder()
    emulate(plain.source, plain.kernel, expected, pipeline.extents())
    emulate(
        program.source, program.kernel, found, pipeline.extents(), recording=recorder.argument()
    )
    for param, one, other in zip(kernel.params, found, expected, strict=True):
        same = np.asarray(one, np.float64), np.asarray(other, np.float64)
        np.testing.assert_array_equal(*same, err_msg=param.name)
    slots = recorder.slots()
    assert (slots.heads["wanted"] > 0).all()
    for states in recorder.states(slots):
        path: tuple[int, ...] = ()
        for number in states:
            state = program.kernel.states[number]
            new = path_of(program.kernel, state.site)
            assert new[: state.fresh] == path[: state.fresh]
            path = new


@given(
    target=st.sampled_from(["sm_90a", "sm_80"]), drawn=both(), seed=st.integers(0, 1 << 16),
    mode=st.sampled_from(["scopes", "stages", "ops"]),
)  # fmt: skip
@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_pipelines(target: str, drawn: Any, seed: int, mode: Mode) -> None:
    """Any of them, with any controls, with scopes in any place."""
    pipeline, controls = drawn
    check(pipeline, target, controls, seed, mode)
