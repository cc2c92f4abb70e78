"""Why a kernel's time changed: the first level that differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.analyzer.made import Made, program, stored
from tileprof.analyzer.changes import KernelChange, explain
from tileprof.profile import KernelInfo, PcInstruction, Profile, Sketch, diff
from tileprof.viewer import diff_json, render_changes

CODE = [("LDG.E R0, [R2]", {"long_scoreboard": 500}, 1, 5), ("EXIT", {"selected": 500}, 0, 6)]
Change = Callable[[Made], Made]


def after(change: Change, time: float = 1.3e6) -> KernelChange:
    """What is said of a kernel that takes 1.3 times as long after a change."""
    old = Made(code=CODE, ir="kernel {\n  a\n}", attributes={"grid": "8×1×1", "registers": 64})
    (found,) = explain(program(old), program(change(replace(old, time=time))))
    return found


@pytest.mark.parametrize(
    ("change", "level", "text"),
    [
        (lambda made: replace(made, ir="kernel {\n  b\n}"), "the program (IR)",
         "a: removed; b: added"),
        (lambda made: replace(made, attributes={**made.attributes, "grid": "9×1×1"}), "the launch",
         "grid 8×1×1 → 9×1×1"),
        (lambda made: replace(made, code=[CODE[0], *CODE]), "the machine code (SASS)",
         "2 → 3 instructions; LDG.E 1 → 2"),
        (lambda made: replace(made, attributes={**made.attributes, "registers": 72}),
         "registers and memory", "registers 64 → 72"),
        (lambda made: made, "nothing", "nothing that was recorded differs"),
    ],
)  # fmt: skip
def test_the_first_level_that_differs(change: Change, level: str, text: str) -> None:
    """One at a time."""
    found = after(change)
    assert found.level == level
    assert found.ratio == pytest.approx(1.3)
    assert text in found.text


def test_what_follows_is_not_told() -> None:
    """Another program has other machine code, and other registers."""
    found = after(
        lambda made: replace(
            made, ir="kernel {\n  b\n}", code=[CODE[0], *CODE],
            attributes={**made.attributes, "registers": 72},
        )
    )  # fmt: skip
    assert found.level == "the program (IR)"


def test_the_emitted_code_and_the_device() -> None:
    """Between program and machine code; last of all."""
    old = program(Made())
    new = program(Made(time=2e6))
    assert explain(_with_code(old, "a();"), _with_code(new, "b();"))[0].level == (
        "the code made of it"
    )
    facts = [{"cuda:0": f"NVIDIA H200, driver CUDA {version}"} for version in (12, 13)]
    moved = [replace(p, tables=replace(p.tables, provenance=f)) for p, f in zip((old, new), facts)]
    found = explain(*moved)[0]
    assert (found.level, "13" in found.text) == ("the device or its software", True)


def test_moved_lines_are_no_change_of_the_code() -> None:
    """A `#line` says where code came from, not what it does."""
    old, new = program(Made()), program(Made(time=2e6))
    moved = explain(_with_code(old, "#line 3\na();"), _with_code(new, "#line 9\na();"))
    assert moved[0].level == "nothing"
    changed = explain(_with_code(old, "#line 3\na();"), _with_code(new, "#line 9\nb();"))
    assert changed[0].text == "line 2: `a();` became `b();`"


def _with_code(profile: Profile, code: str) -> Profile:
    (info,) = profile.tables.kernels
    assert isinstance(info, KernelInfo)
    return replace(profile, tables=replace(profile.tables, kernels=(replace(info, code=code),)))


@pytest.mark.parametrize(("spread", "told"), [(0.01, True), (0.5, False)])
def test_noise_is_no_change(spread: float, told: bool) -> None:
    """A change of 5 %, of launches that are far apart or near each other."""
    generator = np.random.default_rng(0)

    def launched(mean: float) -> Profile:
        times = generator.normal(mean, spread * mean, 100).clip(1)
        made = program(Made(time=mean * 100, launches=100))
        (node,) = made.find(kind="kernel")
        held = {(node, "time"): Sketch.of(times)}
        return replace(made, tables=replace(made.tables, sketches=held))

    assert bool(explain(launched(1e6), launched(1.05e6))) == told


def test_less_than_two_percent_is_not_told() -> None:
    """That much changes from one process to the next."""
    assert not explain(program(Made()), program(Made(time=1.015e6)))


def test_a_real_kernel_whose_code_changed() -> None:
    """One instruction more in a recording of an H200, and twice the time."""
    old = stored("h200-gemm")
    pc = old.tables.pc
    grown = replace(pc.functions[0], code=(*pc.functions[0].code, PcInstruction(1 << 20, "NOP")))
    tables = replace(old.tables, pc=replace(pc, functions=(grown,)))
    own = {**old.own, "time": old.own["time"] * 2}
    whole = {**old.whole, "time": old.whole["time"] * 2}
    (found,) = explain(old, replace(old, tables=tables, own=own, whole=whole))
    assert (found.kernel, found.level) == ("matmul_nt", "the machine code (SASS)")
    assert found.text.startswith("518 → 519 instructions; NOP ")


def test_words_and_data() -> None:
    """As `tileprof diff` shows them."""
    found = after(lambda made: replace(made, attributes={**made.attributes, "registers": 72}))
    text = render_changes([found], 200, color=False, unicode=True)
    assert "kernel: 1.00 ms → 1.30 ms a launch, +30.0 % (noise 0.0 %)." in text
    assert "The first that differs is registers and memory: registers 64 → 72." in text
    assert text.isascii() is False
    assert render_changes([found], 100, color=False, unicode=False).isascii()
    assert not render_changes([], 100, color=False, unicode=True)
    both = diff(program(Made()), program(Made()))
    held: dict[str, Any] = json.loads(diff_json(both, [found]))
    assert held["kernels"][0]["level"] == "registers and memory"
