"""Generated defects: what operators change, what a draw promises, hashes, scores."""

from __future__ import annotations

import ast
import importlib
import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# `benchmarks/plant.py` is the runner; the package of the same name goes first.
sys.path[:0] = ["benchmarks"]
drawing: Any = importlib.import_module("plant.generated.drawing")
families: Any = importlib.import_module("plant.generated.families")
freezing: Any = importlib.import_module("plant.generated.freezing")
mutants: Any = importlib.import_module("plant.generated.mutants")
programs: Any = importlib.import_module("plant.generated.programs")
running: Any = importlib.import_module("plant.generated.running")
scoring: Any = importlib.import_module("plant.generated.scoring")
causes: Any = importlib.import_module("plant.generated.causes")
page_generated: Any = importlib.import_module("page_generated")
del sys.path[0]

RESULTS = Path("benchmarks/results")
WHOLE = bool(os.environ.get("TILEPROF_TEST_PLANT"))
"""Takes every mutant instead of a few."""
# Families of later splits have tests of their own: `test_plant_later_families`.
NEW = drawing._first_families()
TILE = [each for each in NEW if each.language == "tile"]
QUICK = {
    "case-vector_add/narrow-access/0", "tile-bias_gelu/slow-power/0",
    "tile-distance/hand-product/0",
    "tile-divergence/copy-in-step/0", "tile-online_softmax/serialise-axis/0",
    "tile-channel_sums/split-badly/0", "tile-stencil/turn-loop/0",
}  # fmt: skip
# Every worker imports this file to collect its tests: it makes no mutants, which takes longer.
DEVELOPMENT = {
    each.name for each in (drawing.drawn(1, "dev") if WHOLE else ())
    if each.family.language == "tile" and each.family.origin != "older"
}  # fmt: skip
COMPILED = sorted(QUICK | DEVELOPMENT)


@cache
def every(language: str | None = None) -> list[Any]:
    """All mutants of new families, made once."""
    held = [each for each in NEW if language in (None, each.language)]
    return [mutant for family in held for mutant in drawing.all_of(family.name)]


@cache
def named(name: str) -> Any:
    """The mutant of a name."""
    (found,) = (each for each in drawing.all_of(name.split("/")[0]) if each.name == name)
    return found


# -- operators


@pytest.mark.sweep
def test_there_are_enough_operators_and_families() -> None:
    """There are enough operators and families."""
    kinds = [each.kind for each in mutants.OPERATORS.values()]
    assert kinds.count("defect") >= 40
    assert kinds.count("decoy") >= 5
    assert len(NEW) >= 45
    assert {each.language for each in NEW} == {"tile", "triton"}
    # Those that came with later families have tests of their own: `test_plant_third_material`,
    # `test_plant_fresh_material`, `test_plant_sixth_material`, `…_seventh_material` and
    # `…_eighth_material`.
    newer = (
        *mutants.LATER, *mutants.FRESH, *mutants.FIFTH, *mutants.SIXTH, *mutants.SEVENTH,
        *mutants.EIGHTH,
    )  # fmt: skip
    later = {each.name for each in newer}
    used = {each.operator.name for each in every()}
    assert used - later == set(mutants.OPERATORS) - later


@pytest.mark.spread(without=[
    "case-int4_matmul", "case-fp8_matmul", "case-grouped_matmul", "case-sparse_attention",
    "tile-online_softmax", "tile-window_attention", "tile-distance", "triton-product",
    "triton-grouped_gemm", "triton-attention", "triton-scaled_product", "triton-conv2d",
    "triton-batched_product"
])  # fmt: skip
@pytest.mark.parametrize("family", NEW, ids=lambda family: family.name)
def test_mutants_change_the_intended_place_only(family: Any) -> None:
    """Parsed, a mutant's functions are the old ones but for nodes that lie in an edit."""
    before = [ast.dump(each) for each in family.program.tree.body]
    for mutant in drawing.all_of(family.name):
        changed = changed_functions(before, ast.parse(mutant.text))
        assert changed, mutant.name
        assert changed <= {family.kernel, family.entry}, mutant.name
        assert untouched(family.text, mutant.site.edits) <= set(map(str.strip, lines(mutant.text)))


def lines(text: str) -> list[str]:
    """Lines of a text."""
    return text.split("\n")


def untouched(text: str, edits: Any) -> set[str]:
    """Lines of a text that no edit reaches into, without the space around them."""
    found, start = set(), 0
    for line in lines(text):
        end = start + len(line)
        if not any(edit.start <= end and edit.end >= start for edit in edits):
            found.add(line.strip())
        start = end + 1
    return found


def changed_functions(old: list[str], new: ast.Module) -> set[str]:
    """Names of functions whose trees differ; other statements of a module are not changed.

    Args:
        old: the statements of the module before, as `ast.dump` has them.
        new: the module after.
    """
    found = set()
    for before, after in zip(old, new.body, strict=True):
        if before != ast.dump(after):
            assert isinstance(after, ast.FunctionDef)
            found.add(after.name)
    return found


def test_guilty_lines_are_in_the_new_source() -> None:
    """Guilty lines are in the new source."""
    for mutant in every():
        assert mutant.guilty, mutant.name
        assert 1 <= mutant.guilty[0] <= mutant.guilty[-1] <= len(lines(mutant.text)), mutant.name
        assert mutant.rules, mutant.name


@pytest.mark.sweep
def test_operators_give_the_same_mutants_each_time() -> None:
    """Operators give the same mutants each time."""
    one = every()
    again = [mutant for family in NEW for mutant in mutants.mutants_of(family)]
    assert [each.digest for each in one] == [each.digest for each in again]
    assert len({each.name for each in one}) == len(one)


def test_causes_are_words_of_the_table() -> None:
    """Causes are words of the table."""
    used = {cause for each in every() for cause in each.site.causes}
    assert used <= set(causes.CAUSES)
    with pytest.raises(KeyError):
        causes.rules_for(["no-such-cause"])


def test_edits_that_overlap_are_refused() -> None:
    """Edits that overlap are refused."""
    edits = [programs.Edit(0, 4, "x"), programs.Edit(2, 6, "y")]
    with pytest.raises(ValueError, match="overlap"):
        programs.applied("some text", edits)


def test_lines_move_with_edits_above_them() -> None:
    """Lines move with edits above them."""
    text = "a\nb\nc\n"
    edits = [programs.Edit(1, 1, "\nnew\nnew")]
    assert programs.applied(text, edits) == "a\nnew\nnew\nb\nc\n"
    assert [programs.moved_line(text, edits, line) for line in (1, 2, 3)] == [1, 4, 5]


def test_a_wave_is_full_before_the_change_and_not_after() -> None:
    """A wave is full before the change and not after."""
    held = [each for each in every() if each.operator.name == "quantise-wave"]
    assert held
    for mutant in held:
        extent, other, tile, by = mutant.site.blocks
        blocks = (mutant.shape[extent] // tile) * (mutant.shape[other] // by)
        assert blocks % 132 == 0
        assert -(-mutant.shape[extent] // (tile - 16)) * (mutant.shape[other] // by) % 132


# -- splits


def test_test_splits_have_no_family_of_development() -> None:
    """Test splits have no family of development."""
    for seed in range(2):
        dealt = drawing.deal(seed)
        assert not set(dealt.development) & set(dealt.test)
        assert len(dealt.test) >= 25
        assert len(dealt.held_out) == drawing.HELD_OUT
        development = drawing.drawn(seed, "dev")
        assert not {each.operator.name for each in development} & set(dealt.held_out)
        tested = [each for each in drawing.drawn(seed, "test") if each.operator.kind == "defect"]
        assert len(tested) >= 240
        assert {each.operator.name for each in tested} & set(dealt.held_out)


def test_a_seed_draws_the_same_split_each_time() -> None:
    """A seed draws the same split each time."""
    names = [[each.name for each in drawing.drawn(3, "test")] for _ in range(2)]
    assert names[0] == names[1] != [each.name for each in drawing.drawn(4, "test")]


@pytest.mark.spread
@pytest.mark.parametrize("name", sorted(path.stem for path in drawing.SPLITS.glob("*.json")))
def test_kept_splits_are_as_they_were_drawn(name: str) -> None:
    """Kept splits are as they were drawn."""
    record, held = drawing.read(name)
    assert record["cases"] == {each.name: each.digest for each in held}
    assert record["part"] == "dev" or record["analyzer"]


def test_parts_of_a_split_are_a_partition() -> None:
    """Parts of a split are a partition."""
    names = running.items_of(drawing.drawn(1, "dev"))
    parts = [name for part in range(3) for name in names[part::3]]
    assert sorted(parts) == sorted(names)
    assert len(set(names)) == len(names)


# -- hashes


def planted_tree(root: Path) -> None:
    """A package whose analyzer imports one module and leaves another alone."""
    for name, text in (
        ("analyzer/__init__.py", "from tileprof import estimates\n"),
        ("analyzer/rule.py", "from .table import x\n"), ("analyzer/table.py", "x = 1\n"),
        ("analyzer/numbers.json", "{}"), ("estimates.py", "y = 1\n"), ("other.py", "z = 1\n"),
    ):  # fmt: skip
        path = root / "tileprof" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_hash_covers_what_an_analysis_imports(tmp_path: Path) -> None:
    """The hash covers what an analysis imports."""
    planted_tree(tmp_path)
    before = freezing.analyzer_hash(tmp_path)
    (tmp_path / "tileprof/other.py").write_text("z = 2\n")
    assert freezing.analyzer_hash(tmp_path) == before
    for name in ("analyzer/table.py", "analyzer/numbers.json", "estimates.py"):
        path = tmp_path / "tileprof" / name
        held = path.read_text()
        path.write_text(held + " ")
        assert freezing.analyzer_hash(tmp_path) != before, name
        path.write_text(held)
    assert freezing.analyzer_hash(tmp_path) == before


def test_the_hash_covers_the_whole_analyzer() -> None:
    """The hash covers the whole analyzer."""
    held = set(freezing.analyzer_sources())
    assert set((freezing.ROOT / "tileprof/analyzer").rglob("*.py")) <= held
    assert freezing.ROOT / "tileprof/profile/public.py" in held


def test_results_of_another_analyzer_may_not_claim_to_be_current(tmp_path: Path) -> None:
    """Results of another analyzer may not claim to be current."""
    for name, record in (
        ("new", {"claims": "current", "analyzer": "a"}), ("old", {"claims": "history"}),
        ("false", {"claims": "current", "analyzer": "b"}), ("none", {"claims": "current"}),
    ):  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    found = freezing.false_claims(sorted(tmp_path.iterdir()), "a")
    assert found == ["false.json", "none.json"]


def test_published_figures_are_of_this_analyzer() -> None:
    """After a change of the analyzer, say `"claims": "history"` in results of the earlier one."""
    published = sorted(RESULTS.glob("plant-*.json"))
    assert published
    assert not freezing.false_claims(published, freezing.analyzer_hash())


# -- compiled, and on the processor


@pytest.mark.spread(
    "case-vector_add/narrow-access/0", "tile-distance/hand-product/0",
    "tile-stencil/turn-loop/0"
)  # fmt: skip
@pytest.mark.parametrize("name", COMPILED)
def test_tile_mutants_compile(name: str, tmp_path: Path) -> None:
    """Tile mutants compile."""
    pytest.importorskip("torch")
    pytest.importorskip("cuda.bindings.nvrtc")
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target

    problems: Any = importlib.import_module("plant.generated.problems")
    mutant = named(name)
    path = tmp_path / f"{mutant.family.path.stem}.py"
    module = problems.imported(mutant.family, mutant.text, path)
    kernel = getattr(module, mutant.family.entry).compile(**mutant.shape).program.kernel
    assert compile_cuda(kernel, find_target("sm_90a"), None).cubin


@pytest.mark.spread(
    "tile-bias_gelu/slow-power/0", "tile-channel_sums/split-badly/0",
    "tile-stencil/turn-loop/0"
)  # fmt: skip
@pytest.mark.parametrize("name", COMPILED)
def test_tile_mutants_compute_the_same(name: str, tmp_path: Path) -> None:
    """As PyTorch in float64, on the processor."""
    pytest.importorskip("torch")
    problems: Any = importlib.import_module("plant.generated.problems")
    mutant = named(name)
    check(problems, mutant.family, mutant.text, tmp_path)


@pytest.mark.spread("case-softmax", "tile-sparse_gemm", "tile-stencil")
@pytest.mark.parametrize("family", TILE, ids=lambda family: family.name)
def test_clean_tile_kernels_are_right(family: Any, tmp_path: Path) -> None:
    """Clean tile kernels are right."""
    pytest.importorskip("torch")
    problems: Any = importlib.import_module("plant.generated.problems")
    check(problems, family, family.text, tmp_path)


def check(problems: Any, family: Any, text: str, folder: Path) -> None:
    """Compare a kernel's result at small extents."""
    module = problems.imported(family, text, folder / f"{family.path.stem}.py")
    inputs, work = (
        problems.inputs_of(family, problems.small(family), "cpu"),
        problems.problem(family),
    )
    problems.reset(work, inputs)
    result = problems.called(family, module, inputs)
    assert problems.difference(result, work.reference(*inputs)) <= work.limit


def test_every_family_has_a_problem() -> None:
    """Every family has a problem."""
    pytest.importorskip("torch")
    problems: Any = importlib.import_module("plant.generated.problems")
    for family in families.FAMILIES.values():
        assert problems.problem(family).extents
        assert problems.small(family)


# -- a case from end to end, on the processor


@pytest.mark.parametrize("name", ["tile-bias_gelu/slow-power/0", "tile-bias_gelu/clean/0"])
def test_a_case_gives_a_row_that_can_be_judged(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a processor in the place of the GPU, and played times; all else is as it is run."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.syspath_prepend("benchmarks")
    import tileprof

    measure: Any = importlib.import_module("plant.measure")
    measuring: Any = importlib.import_module("measuring")
    problems: Any = importlib.import_module("plant.generated.problems")
    real = problems.inputs_of

    def inputs_of(family: Any, shape: Any, device: str) -> Any:
        return real(family, problems.small(family), "cpu")

    def recorded(run: Any, path: Path, ms: float, pc_sampling: bool) -> None:
        assert pc_sampling
        with tileprof.profile(path, context="scopes", instrument="off"):
            run()

    def times(runs: Any) -> dict[str, float]:
        if len(runs) == 1:
            return {"fixed_ms": 1.0}
        return {"ratio": 1.5, "low": 1.4, "defective_ms": 1.5, "fixed_ms": 1.0}

    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(problems, "inputs_of", inputs_of)
    monkeypatch.setattr(measuring, "batch_ms", lambda run, launches: 1.0)
    monkeypatch.setattr(measure, "_times", times)
    monkeypatch.setattr(measure, "_recorded", recorded)
    monkeypatch.setattr(running, "_roofs", lambda inputs: {"memory": 4e12, "product": 9e14})
    folder = tmp_path / "case"
    folder.mkdir()
    running._one(name, folder)
    made = json.loads((folder / "row.json").read_text())
    assert made["correct"]
    assert made["profile_bytes"] > 0
    known = {each.name: each for each in every("tile")}
    full = {**running._described(name, known), **made}
    held = scoring.judged(full)
    assert held.ranked == ("clean" not in name)
    assert held.floor > 1
    assert scoring.told(full).startswith(name)


# -- scores


def finding(rule: str, line: int = 5, gain: float | None = 2.0, **more: Any) -> dict[str, Any]:
    """Finding."""
    held = [gain * 0.9, gain, gain * 1.1] if gain else None
    made = {"rule": rule, "severity": "suggestion", "op": "", "line": line, "counts": True}
    return {**made, "gain": held, **more}


def row(findings: list[dict[str, Any]], ratio: float = 2.0, **more: Any) -> dict[str, Any]:
    """A case of a defect at line 5 that makes a kernel take `ratio` ms instead of 1 ms."""
    time = {"ratio": ratio, "low": ratio * 0.99, "defective_ms": ratio, "fixed_ms": 1.0}
    return {
        "case": "made/shrink-tile/0", "family": "made", "operator": "shrink-tile", "kind": "defect",
        "rules": ["spill", "spill-hot"], "guilty": [5], "ops": [], "static": [], "time": time,
        "floor_ms": 0.8, "findings": findings, **more,
    }  # fmt: skip


def clean(findings: list[dict[str, Any]]) -> dict[str, Any]:
    """A kernel as it is, and what is said of it."""
    return row(findings, kind="clean", operator="clean", rules=[], guilty=[],
               time={"fixed_ms": 1.0})  # fmt: skip


def test_a_cause_is_right_under_any_of_its_names() -> None:
    """A cause is right under any of its names."""
    held = scoring.judged(row([finding("slow-math"), finding("spill-hot", 7)]))
    assert (held.rank, held.placed, held.inside) == (2, True, True)
    assert held.own_error == pytest.approx(0)
    assert not scoring.judged(row([finding("spill-hot", 8)])).placed
    assert scoring.judged(row([finding("spill")])).rank == 1


def test_silence_is_a_prediction_of_no_gain() -> None:
    """Silence is a prediction of no gain."""
    held = scoring.judged(row([]))
    assert (held.rank, held.own_error, held.inside) == (None, 1.0, False)


def test_cheap_defects_are_not_ranked_and_costly_decoys_are_none() -> None:
    """Cheap defects are not ranked and costly decoys are none."""
    rows = [
        row([finding("spill")], ratio=1.01), row([], ratio=1.0, kind="decoy"),
        row([finding("spill")], ratio=1.0, kind="decoy"), row([], ratio=1.5, kind="decoy"),
    ]  # fmt: skip
    made = scoring.summary([scoring.judged(each) for each in rows], scoring.dev_gains([]))
    assert (made["ranked"], made["decoys"], made["decoys_rejected"]) == (0, 2, 0.5)


def test_only_loud_suggestions_for_clean_kernels_are_false() -> None:
    """Only loud suggestions for clean kernels are false."""
    rows = [clean([finding("spill", gain=1.04), finding("slow-math", gain=1.2)]), clean([])]
    made = scoring.summary([scoring.judged(each) for each in rows], scoring.dev_gains([]))
    assert (made["cleans"], made["false_by_clean"]) == (2, 0.5)


def claim(name: str, low: float, **more: Any) -> dict[str, Any]:
    """A repair that makes a kernel at least `low` times as fast."""
    return {"claim": f"{name}/by hand", "correct": True, "low": low, **more}


@pytest.mark.parametrize(
    ("claims", "unproven"),
    [
        ([], 1.0),
        ([claim("made/spill", 1.05)], 0.5),
        ([claim("made/spill", 0.9), claim("made/spill", 1.3)], 0.5),  # one repair is enough
        ([claim("made/spill", 1.04)], 1.0),
        ([claim("made/spill", 1.3, correct=False)], 1.0),
        ([claim("other/spill", 1.3)], 1.0),
        ([{"claim": "made/spill/by hand", "error": "not reached"}], 1.0),
        ([claim("made/spill", 1.3), claim("made/slow-math", 1.3)], 0.0),
    ],
)
def test_a_repair_by_hand_proves_what_its_rule_says_of_its_kernel(
    claims: list[dict[str, Any]], unproven: float
) -> None:
    """Its interval begins at 1.05× or above; all suggestions count as false as before."""
    rows = [clean([finding("spill"), finding("slow-math")]), clean([])]
    held = [scoring.judged(each) for each in rows]
    made = scoring.summary(held, scoring.dev_gains([]), scoring.proven(claims))
    assert (made["false_by_clean"], made["unproven_by_clean"]) == (1.0, unproven)


def test_splits_are_pooled_and_held_out_operators_told_apart() -> None:
    """Splits are pooled and held out operators told apart."""
    records = [
        {"held_out": ["shrink-tile"], "rows": [row([finding("spill")]), {"error": "late"}]},
        {"held_out": [], "rows": [row([finding("slow-math")], ratio=4.0)]},
    ]  # fmt: skip
    records[0]["rows"][1] |= {"operator": "shrink-tile"}  # type: ignore[index]
    held = scoring.pooled(records)
    assert [each.known for each in held] == [False, True]
    dev = scoring.dev_gains(records)
    assert dev.overall == pytest.approx(8**0.5)
    assert dev.of("slow-math") == pytest.approx(4.0)
    made = scoring.summary(held, dev)
    assert (made["ranked"], made["first"]) == (2, 0.5)
    assert made["error_mean_of_rule"] == pytest.approx(0.0)
    assert made["error_to_floor"] == pytest.approx((0.5 + 1 / 3) / 2)
    text = scoring.page(held, dev)
    assert "| first | 0.50 | 0.00 | 1.00 |" in text
    assert "| shrink-tile | 2 | 0.50 |" in text


def test_a_floor_is_of_bytes_or_of_products() -> None:
    """A floor is of bytes or of products."""
    roofs = {"memory": 1e12, "product": 1e14}
    product = families.FAMILIES["triton-product"]
    assert running.floor_ms(product, {"M": 1000, "N": 1000, "K": 1000}, 1, roofs) == pytest.approx(
        0.02
    )
    add = families.FAMILIES["triton-add"]
    assert running.floor_ms(add, dict(add.shape), 10**9, roofs) == pytest.approx(1.0)


def test_page_has_the_figures_of_the_files() -> None:
    """As the records are now; `python benchmarks/page.py`."""
    assert page_generated.PAGE.read_text() == page_generated.page(*page_generated._read())
