"""Families and operators of later splits: kernels are right, and draws keep what is new apart.

Kernels and operators of the third split and of later ones have tests of their own:
`test_plant_third_material`, `test_plant_fresh_material`.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# `benchmarks/plant.py` is the runner; the package of the same name goes first.
sys.path[:0] = ["benchmarks"]
drawing: Any = importlib.import_module("plant.generated.drawing")
families: Any = importlib.import_module("plant.generated.families")
mutants: Any = importlib.import_module("plant.generated.mutants")
programs: Any = importlib.import_module("plant.generated.programs")
running: Any = importlib.import_module("plant.generated.running")
tile_rewrites: Any = importlib.import_module("plant.generated.tile_rewrites")
fifth: Any = importlib.import_module("plant.generated.fifth.operators")
del sys.path[0]

EARLIER = ("dev-1", "test-1", "test-2", "test-3", "test-4")
RECORDS = [json.loads((drawing.SPLITS / f"{name}.json").read_text()) for name in EARLIER]
KNOWN = {name for each in RECORDS for name in each["families"]}
LATER = [name for name, each in families.FAMILIES.items()
         if each.origin != "older" and name not in KNOWN]  # fmt: skip
SECOND = RECORDS[2]["families"]
TILE = [families.FAMILIES[name] for name in SECOND if name.startswith("tile-")]
REWRITES = [each.name for each in tile_rewrites.REWRITES]
NEWEST = {each.name for each in fifth.FIFTH if each.kind == "defect"}


@cache
def example_of(operator: str) -> Any:
    """The smallest mutant of an operator: that of the family with the shortest source."""
    for family in sorted(TILE, key=lambda each: len(each.text)):
        for mutant in drawing.all_of(family.name):
            if mutant.operator.name == operator:
                return mutant
    raise AssertionError(f"no family has a site of {operator}")


def difference(family: Any, text: str, folder: Path) -> tuple[float, float]:
    """How far a kernel is from its reference at small extents, and how far it may be."""
    pytest.importorskip("torch")
    import tileprof

    problems: Any = importlib.import_module("plant.generated.problems")
    module = problems.imported(family, text, folder / f"{family.path.stem}.py")
    work, inputs = (
        problems.problem(family),
        problems.inputs_of(family, problems.small(family), "cpu"),
    )
    problems.reset(work, inputs)
    with tileprof.device("interpreter"):
        result = problems.called(family, module, inputs)
    return problems.difference(result, work.reference(*inputs)), work.limit


# -- kernels


@pytest.mark.spread("tile-ema_scan", "tile-haar", "tile-nf4_product")
@pytest.mark.parametrize("family", TILE, ids=lambda family: family.name)
def test_later_tile_kernels_are_right(family: Any, tmp_path: Path) -> None:
    """On the interpreter, which refuses reads of unwritten memory and two writers of an element."""
    apart, limit = difference(family, family.text, tmp_path)
    assert apart <= limit


@pytest.mark.spread("through-shared", "cut-launch", "scatter-blocks", "flatten-loop")
@pytest.mark.parametrize("operator", REWRITES)
def test_rewritten_kernels_are_right(operator: str, tmp_path: Path) -> None:
    """A kernel that takes a detour computes the same, and is lowered for a GPU."""
    pytest.importorskip("torch")
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target

    mutant = example_of(operator)
    apart, limit = difference(mutant.family, mutant.text, tmp_path)
    assert apart <= limit
    problems: Any = importlib.import_module("plant.generated.problems")
    path = tmp_path / "whole" / mutant.family.path.name
    module = problems.imported(mutant.family, mutant.text, path)
    kernel = getattr(module, mutant.family.entry).compile(**mutant.shape).program.kernel
    assert compile_cuda(kernel, find_target("sm_90a"), None).source.text


def test_later_families_have_problems_and_formulas() -> None:
    """Each has a file, a problem, extents of the same names on both devices, and a floor."""
    pytest.importorskip("torch")
    problems: Any = importlib.import_module("plant.generated.problems")
    assert len(TILE) >= 18
    roofs = {"memory": 1e12, "product": 1e15}
    for name in (*SECOND, *LATER):
        family = families.FAMILIES[name]
        assert set(family.shape) == set(family.small), name
        assert problems.problem(family).extents
        assert running.floor_ms(family, dict(family.shape), 1, roofs) >= 0


# -- operators


@pytest.mark.spread(without=["through-global"])
@pytest.mark.parametrize("operator", REWRITES)
def test_rewrites_change_the_kernel_alone(operator: str) -> None:
    """Their sources parse, other functions stay, guilty lines are there, causes are words."""
    for family in TILE:
        first = next((e for e in drawing.all_of(family.name) if e.operator.name == operator), None)
        if first is None:
            continue
        old, new = family.program.tree, ast.parse(first.text)
        apart = [e.name for e, o in zip(new.body, old.body, strict=True)
                 if isinstance(e, ast.FunctionDef) and ast.dump(e) != ast.dump(o)]  # fmt: skip
        assert apart == [family.kernel]
        assert first.guilty
        assert first.guilty[-1] <= first.text.count("\n") + 1
        assert first.rules


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C[by * rows, bx * columns]", "C[by * rows + p, bx * columns + q]"),
        ("Y[b, k : k + 8, :]", "Y[b, k + p, q]"),
        ("Out", "Out[p, q]"),
        ("Out[row, 0 : 4]", None),
    ],
)
def test_a_region_has_elements(text: str, expected: str | None) -> None:
    """Offsets are added to where a region begins; a region of one axis has no element of two."""
    program = programs.Program(f"def kernel():\n    {text}\n", "kernel", "kernel")
    statement = program.body.body[0]
    assert isinstance(statement, ast.Expr)
    assert tile_rewrites._at(program, statement.value, ("p", "q")) == expected


def test_loops_that_read_what_they_write_through_a_name_are_not_repeated() -> None:
    """`made = held[i, j]…` and then `held[i, j] = made`: four times over is another result."""
    repeated = [e for e in drawing.all_of("tile-instance_norm") if e.operator.name == "repeat-loop"]
    assert not any("made" in line for e in repeated for line in guilty_lines(e))


def guilty_lines(mutant: Any) -> list[str]:
    """The lines of a mutant's source where its defect is."""
    return [mutant.text.split("\n")[line - 1] for line in mutant.guilty]


# -- splits


def test_later_splits_have_no_family_and_hold_out_no_operator_of_earlier_ones() -> None:
    """Everything that a split before had is known; the rest is new, and all of it is dealt."""
    dealt = drawing.deal(3, EARLIER)
    assert set(dealt.test) == set(LATER)
    assert not set(dealt.test) & KNOWN
    used = {case.split("/")[1] for each in RECORDS for case in each["cases"]}
    assert set(dealt.held_out) >= NEWEST
    assert not set(REWRITES) & set(dealt.held_out)
    assert not set(dealt.held_out) & used


@pytest.mark.spread("12")
@pytest.mark.parametrize("most", [8, 12])
def test_later_splits_have_operators_of_both_kinds(most: int) -> None:
    """At most so many defects of a family; of few operators that are held out, of more before."""
    dealt = drawing.deal(3, EARLIER)
    cases = drawing.drawn(3, "test", EARLIER, most)
    defects = [each for each in cases if each.operator.kind == "defect"]
    new = [each for each in defects if each.operator.name in dealt.held_out]
    assert {each.family.name for each in cases} == set(LATER)
    counts = [sum(e.family.name == name for e in defects) for name in LATER]
    assert max(counts) <= most
    assert len(LATER) * 2 <= len(new) <= len(defects) / 2
    assert len({each.name for each in cases}) == len(cases)


def test_parts_of_a_split_have_files_of_their_own() -> None:
    """Lanes of one run do not write over each other; the page reads all of them."""
    paths = {running.results_path("test-2", part, 4) for part in range(1, 5)}
    assert len(paths) == 4
    assert all(path.match("results/plant-test-[0-9]*.json") for path in paths)
    assert running.results_path("dev-1").name == "plant-dev-1.json"


@pytest.mark.sweep
def test_a_dry_drawing_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It says how many families, defects and operators there would be."""
    before = sorted(drawing.SPLITS.iterdir())
    given = ["--seed", "3", "--test", "--without", *EARLIER, "--dry", "--unchecked"]
    assert drawing.main(given) == 0
    assert f"{len(LATER)} families" in capsys.readouterr().out
    assert sorted(drawing.SPLITS.iterdir()) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--without", "dev-1"], "--without needs --test"),
        (
            ["--test", "--without", "dev-9"],
            "there is no split dev-9; there are dev-1, test-1, test-2",
        ),
    ],
)
def test_draws_refuse_what_they_cannot_keep(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A split that is not there, and development without the families that it is made of."""
    with pytest.raises(SystemExit):
        drawing.main(["--seed", "99", *given])
    assert said in capsys.readouterr().err


@pytest.mark.sweep
def test_a_split_without_earlier_ones_says_so_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the argument, the operators held out, and hashes of cases and analyzer."""
    for name in EARLIER:
        (tmp_path / f"{name}.json").write_text((drawing.SPLITS / f"{name}.json").read_text())
    monkeypatch.setattr(drawing, "SPLITS", tmp_path)
    given = ["--seed", "9", "--test", "--without", *EARLIER, "--unchecked", "--most", "2"]
    assert drawing.main(given) == 0
    record = json.loads((tmp_path / "test-9.json").read_text())
    assert record["without"] == list(EARLIER)
    assert set(record["held_out"]) >= NEWEST
    assert record["analyzer"]
    assert record["families"] == sorted(LATER)
    with pytest.raises(SystemExit, match="drawn once"):
        drawing.main(given)


def test_kernels_run_on_the_emulated_gpu(tmp_path: Path) -> None:
    """A table whose second slot TMA would fill at no multiple of 128 bytes ends the launch."""
    pytest.importorskip("torch")
    emulating: Any = importlib.import_module("plant.generated.emulating")
    (family,) = (each for each in TILE if each.name == "tile-nf4_product")
    # As many tiles as two rounds of persistent blocks have, and short sums.
    shape = dict(family.shape) | {"M": 256, "N": 17_024, "K": 64, "bytes": 32, "groups": 1}
    program = emulating.program_of(family, family.text, shape, tmp_path)
    arrays = emulating.arrays_of(family, shape, program.kernel)
    assert emulating.fault(program, arrays) == ""
    source = program.source
    text = source.text.replace("values + slot * 128", "values + slot * 64")
    assert text != source.text
    wrong = replace(program, source=replace(source, text=text))
    assert "target of a tensor load is not aligned" in emulating.fault(wrong, arrays)
