"""Random kernels give on the emulated GPU what they mean: the interpreter is the reference, and the
tolerances are those of `tests/test_differential.py`."""

from __future__ import annotations

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.everywhere import arrays_of, compiled_for, hardly_aligned
from tests.spread import examples
from tests.strategies import Case, cases
from tests.test_differential import _run, _same, slow_draw
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.passes import prove_bounds, set_aside, simplify
from tileprof.emulator import emulate
from tileprof.errors import TooLarge

# Products of float32 are compared as such, so their operands are not rounded to tf32.
VARIANTS = {
    "sm_90a": ("sm_90a", Controls(tf32=False)),
    "sm_80": ("sm_80", Controls(tf32=False)),
    "unaligned": ("sm_90a", Controls(tf32=False)),
    "plain": (
        "sm_90a",
        Controls(tf32=False, wgmma=False, tma=False, swizzle=False, vectorize=False),
    ),
}


@given(variant=st.sampled_from(list(VARIANTS)), case=cases())
@settings(max_examples=examples(10), deadline=None, suppress_health_check=slow_draw)
def test_emulated_gpu_agrees_with_the_interpreter(variant: str, case: Case) -> None:
    """For several orders of threads and of late data."""
    target, controls = VARIANTS[variant]
    kernel = prove_bounds(set_aside(simplify(case.kernel)))
    extents = dict(zip(kernel.symbols, case.extents, strict=True))
    off = variant == "unaligned"
    positions = arrays_of(kernel) if off else frozenset[int]()
    try:
        program = compiled_for(kernel, target, controls, extents, positions)
    except TooLarge:
        reject()
    ir.verify(program.kernel)
    expected = _run(case, case.kernel)
    for seed in range(2):
        arguments = hardly_aligned(case.arguments()) if off else case.arguments()
        emulate(program.source, program.kernel, arguments, extents, seed=seed)
        _same(case, arguments, expected)
