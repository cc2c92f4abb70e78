"""PLANT: twins compile and differ only in what is planted, the test split is as it was frozen, and
scores are counted right."""

from __future__ import annotations

import importlib
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.made import stored
from tests.repeated import for_each
from tileprof.analyzer.rules import KERNEL_RULES

# `benchmarks/plant.py` is the runner; the package of the same name goes first.
sys.path[:0] = ["benchmarks"]
cases_dev: Any = importlib.import_module("plant.cases_dev")
cases_valid: Any = importlib.import_module("plant.cases_valid")
cases_first_test: Any = importlib.import_module("plant.cases_first_test")
cases_second_test: Any = importlib.import_module("plant.cases_second_test")
cases_third_test: Any = importlib.import_module("plant.cases_third_test")
cases_test: Any = importlib.import_module("plant.cases_test")
frozen: Any = importlib.import_module("plant.frozen")
scores: Any = importlib.import_module("plant.scores")
twins: Any = importlib.import_module("plant.twins")
triton_pairs: Any = importlib.import_module("plant.triton_pairs")
analysing: Any = importlib.import_module("plant.analysing")
page_plant: Any = importlib.import_module("page_plant")
del sys.path[0]

KNOWN = (
    *cases_dev.CASES, *cases_valid.CASES, *cases_first_test.CASES, *cases_second_test.CASES,
    *cases_third_test.CASES,
)  # fmt: skip
ALL = (*KNOWN, *cases_test.CASES)
QUICK = {
    "gemm/missed-async-copy/4096x2048x4096", "softmax/slow-math/8192x4096",
    "transpose_flat/bank-conflict/8192x8192", "rounds/spill-hot/8388608",
    "elementwise/decoy-narrow-access/16384x8192",
    "outer/missed-async-copy/4224x4096x3072", "mu_law/slow-math/32768x8192",
    "moments/small-grid/33792x4096",
}  # fmt: skip
"""Compiled and run by default; `TILEPROF_TEST_PLANT=1` takes all."""
WHOLE = bool(os.environ.get("TILEPROF_TEST_PLANT"))
COMPILED = [case for case in ALL if WHOLE or case.name in QUICK]


# -- cases


def test_there_are_enough() -> None:
    """Thirty with a defect, twelve of them in the test split, as many controls, ten pairs."""
    defective = [case for case in ALL if case.kind in ("defect", "compound")]
    assert len(defective) >= 30
    assert sum(case.kind == "defect" for case in cases_test.CASES) >= 12
    assert sum(case.kind == "decoy" for case in ALL) >= 10
    assert sum(case.kind == "clean" for case in ALL) >= 5
    assert len(triton_pairs.CASES) >= 10
    assert len({case.family for case in ALL}) == 7
    assert {case.name for case in COMPILED} >= QUICK


def test_splits_have_nothing_in_common() -> None:
    """No shape of a kernel is in both, and most pairs of a kernel and a defect are new."""
    known = {(case.kernel, tuple(case.shape.items())) for case in KNOWN}
    assert not [c.name for c in cases_test.CASES if (c.kernel, tuple(c.shape.items())) in known]
    pairs = {(case.kernel, case.defect) for case in KNOWN if case.kind == "defect"}
    tested = [(c.kernel, c.defect) for c in cases_test.CASES if c.kind == "defect"]
    assert len(set(tested) - pairs) >= 0.6 * len(tested)
    assert len({case.name for case in ALL}) == len(ALL)


@for_each(case=ALL)
def test_twins_differ_in_few_lines(case: Any) -> None:
    """Those that are marked, and in nothing else; what is compiled has no mark."""
    lines = zip(case.fixed.split("\n"), case.defective.split("\n"), strict=True)
    differ = [(good, bad) for good, bad in lines if good != bad]
    assert all(bad.endswith(twins.MARK) for _, bad in differ)
    assert 1 <= len(differ) <= 3 or not case.swaps
    assert twins.MARK.strip() not in case.compiled + case.fixed
    if case.kind in ("defect", "compound"):
        assert case.guilty
        assert case.swaps or case.controls
        for swap in case.swaps:
            assert swap.planted in case.compiled


def test_planted_rules_are_rules() -> None:
    """By the names that the analyzer has."""
    known = {rule.name for rule in KERNEL_RULES}
    cases = [case for case in (*ALL, *triton_pairs.CASES) if case.kind != "clean"]
    assert {rule for case in cases for rule in case.rules} <= known


def test_the_test_split_is_frozen() -> None:
    """As it was before it was first run."""
    assert twins.frozen_hash(cases_test.CASES) == frozen.held()


def test_a_swap_has_to_fit() -> None:
    """Once in the text, and no line more or less."""
    for swap in (
        twins.Swap("nowhere", ""),
        twins.Swap("T.copy(", ""),
        twins.Swap("num_stages=4", "num_stages=4\n"),
    ):
        with pytest.raises(ValueError, match=r"swap|×"):
            _ = twins.Case("gemm", "small-grid", {}, (swap,)).defective


def test_lines_of_triton_pairs() -> None:
    """Each names some of the defective kernel."""
    source = triton_pairs.SOURCE.read_text().split("\n")
    for case in triton_pairs.CASES:
        assert case.guilty, case.name
        assert all(any(text in source[at - 1] for text in case.at) for at in case.guilty)
        for name in case.functions:
            assert f"def {name}(" in source


# -- compiled, and on the processor


@pytest.mark.spread(without=[
    "gemm/missed-async-copy/4096x2048x4096", "softmax/slow-math/8192x4096",
    "outer/missed-async-copy/4224x4096x3072"
])  # fmt: skip
@pytest.mark.parametrize("case", COMPILED, ids=lambda case: case.name)
def test_twins_compile_and_show_it(case: Any, tmp_path: Path) -> None:
    """Both twins for an H200; remarks or machine code of the defective one alone show what can be
    known without running it."""
    pytest.importorskip("cuda.bindings.nvrtc")
    from tileprof import Controls
    from tileprof.compiler.cuda.build import disassemble
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target

    shows = {}
    for twin, text in case.twins():
        kernel = twins.load(case, text, tmp_path).compile(**case.shape).program.kernel
        controls = Controls(**case.controls) if twin == "defective" else None
        program = compile_cuda(kernel, find_target("sm_90a"), controls)
        said = "\n".join(map(str, program.all_remarks))
        if case.static.isupper():
            said = disassemble(program.cubin)  # instructions
        shows[twin] = re.search(case.static, said) is not None
    if case.static:
        assert shows == ({"defective": True, "fixed": False} if len(shows) > 1 else {"fixed": True})


@pytest.mark.parametrize("case", COMPILED, ids=lambda case: case.name)
def test_twins_compute_the_same(case: Any, tmp_path: Path) -> None:
    """As PyTorch in float64, on the processor."""
    pytest.importorskip("torch")
    works: Any = importlib.import_module("plant.works")
    work = works.WORKS[case.kernel]
    inputs = work.inputs(works.SMALL[case.kernel], "cpu")
    for _, text in case.twins():
        works.reset(work, inputs)
        result = works.call(twins.load(case, text, tmp_path), inputs)
        assert works.difference(result, work.reference(*inputs)) <= work.limit


# -- scores


def finding(rule: str, line: int = 5, gain: float | None = 2.0, **more: Any) -> dict[str, Any]:
    """What `analysing` writes of one."""
    held = [gain * 0.9, gain, gain * 1.1] if gain else None
    made = {"rule": rule, "severity": "suggestion", "op": "", "line": line, "counts": True}
    return {**made, "gain": held, **more}


def row(
    bad: list[dict[str, Any]], good: list[dict[str, Any]] | None = None, ratio: float = 2.0,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """A case of a defect at line 5 that makes a kernel take `ratio` times as long."""
    twin = {"ops": ["copy A"], "static": [], "largest_stall": 0.25}
    return {
        "case": "made", "kind": "defect", "rules": ["spill-hot"], "defect": "spill-hot", "also": [],
        "guilty": [5], "time": {"ratio": ratio, "low": ratio * 0.99, "high": ratio * 1.01},
        "twins": {
            "defective": {**twin, "findings": bad}, "fixed": {**twin, "findings": good or []},
        },
        **more,
    }  # fmt: skip


def test_what_is_right() -> None:
    """First, at its place, by the right gain, and silent afterwards."""
    made = scores.score(row([finding("spill-hot"), finding("slow-math")]))
    assert (made.rank, made.placed, made.silent, made.false) == (1, True, True, 0)
    assert made.error == pytest.approx(0)
    assert made.inside
    assert made.stall == pytest.approx(1 / 0.75)


def test_ranks() -> None:
    """Other names of the defect, and what says to change nothing, take no place."""
    first = [finding("slow-math"), finding("slow-math"), finding("spill-hot")]
    assert scores.score(row(first)).rank == 2
    assert scores.score(row(first, also=["slow-math"])).rank == 1
    stop = finding("near-roof", severity="stop")
    program = finding("far-from-floor", counts=False)
    assert scores.score(row([stop, program, finding("spill-hot")])).rank == 1
    assert scores.score(row([finding("spill-hot", severity="ignore", gain=None)])).rank is None
    missing = scores.score(row([]))
    assert (missing.rank, missing.placed, missing.error, missing.inside) == (
        None,
        False,
        1.0,
        False,
    )


def test_places() -> None:
    """Two lines away at most, or the op of a right line."""
    assert scores.score(row([finding("spill-hot", 7)])).placed
    assert not scores.score(row([finding("spill-hot", 8)])).placed
    assert scores.score(row([finding("spill-hot", 8, op="copy A")])).placed


def test_gains() -> None:
    """By the true gain; of a defect that costs nothing there is none."""
    wrong = scores.score(row([finding("spill-hot", gain=1.5)]))
    assert (wrong.error, wrong.inside) == (pytest.approx(0.5), False)
    weak = scores.score(row([finding("spill-hot")], ratio=1.01))
    assert (weak.weak, weak.error) == (True, None)


def test_clean_kernels_and_decoys() -> None:
    """A suggestion for a fixed twin is false; in a decoy both twins are clean."""
    loud = scores.score(row([], [finding("spill-hot"), finding("slow-math")]))
    assert (loud.false, loud.cleans, loud.silent) == (2, 1, False)
    quiet = finding("spill-hot", severity="ignore", gain=None)
    decoy = scores.score(row([quiet], [], ratio=1.0, kind="decoy"))
    assert (decoy.false, decoy.cleans, decoy.rejected) == (0, 2, True)
    assert not scores.score(row([finding("spill-hot")], ratio=1.0, kind="decoy")).rejected


def test_over_all() -> None:
    """Shares of those that can be ranked, and what knows nothing of a kernel."""
    rows = [
        row([finding("spill-hot")]), row([finding("slow-math")], [finding("slow-math")], ratio=4.0),
        row([], ratio=1.0), row([finding("spill-hot")], ratio=1.2, kind="decoy"),
    ]  # fmt: skip
    assert scores.constant(rows[:2]) == pytest.approx(8**0.5)
    made = scores.summary(rows, dev_gain=3.0)
    assert (made["ranked"], made["first"], made["silent"]) == (2, 0.5, 1.0)
    assert made["gain_error"] == pytest.approx(0.5)
    assert made["false_by_clean"] == pytest.approx(2 / 5)
    assert made["weak"] == ["made"]
    assert (made["costly"], made["decoys_rejected"]) == (["made"], None)
    assert made["baselines"]["always_1"] == pytest.approx(1.0)
    assert made["baselines"]["constant"] == pytest.approx((1.0 + 1 / 3) / 2)
    assert set(scores.by_rule(rows)) == {"spill-hot"}


def test_the_page_says_what_was_missed() -> None:
    """Hits, misses and what could not be scored, of made-up rows."""
    held = row([finding("spill-hot", gain=1.2)], [finding("spill-hot")], correct=True)
    rows = [held, {**held, "case": "broken", "correct": False}, {"case": "late", "error": "why"}]
    record = {
        "rows": rows, "skipped": ["never"], "scores": scores.summary([held], 2.0),
        "by_rule": scores.by_rule([held]),
    }  # fmt: skip
    text = "\n".join(page_plant.page({"dev": record}))
    assert "| the planted defect is ranked first | GPA 7/17 | ≥ 75% | 100% |" in text
    assert "| median error of the predicted gain | GPA 49 % | ≤ 30% | 80% **missed** |" in text
    assert "| always predict 1.0× | 100% |" in text
    assert "| made | 2.000 [1.980, 2.020] | 1.20 [1.08, 1.32] | 1 | right | 1 false |" in text
    assert "| broken | – | – | – | – | wrong results: not scored |" in text
    assert "| late | – | – | – | – | why |" in text
    assert "`never`: not reached in the time given" in text


def test_controls_are_not_shown() -> None:
    """Neither among a kernel's facts nor in its text, whose lines stay where they are."""
    profile = stored("h200-gemm")
    held = profile.tables.kernels
    forced = replace(
        held[0], attributes={**held[0].attributes, "controls": "registers=32"},
        code=f"// controls: registers=32\n{held[0].code}",
    )  # fmt: skip
    made = replace(profile, tables=replace(profile.tables, kernels=(forced, *held[1:])))
    shown = analysing.without_controls(made).tables.kernels[0]
    assert "registers=32" not in f"{shown.attributes}{shown.code}"
    assert shown.code.count("\n") == forced.code.count("\n")
