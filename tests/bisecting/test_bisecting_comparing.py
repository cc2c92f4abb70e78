"""The first level that differs: what counts, what has no effect, and which step is named."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tileprof.bisecting import Forms, compare, comparing
from tileprof.bisecting.comparing import same_code
from tileprof.bisecting.costs import Fact
from tileprof.bisecting.forms import Step, dumped

INSIDE = Path(comparing.__file__).parent / "inside"
BASE = Forms(
    kernel="double",
    engine="tileprof",
    source="def double(A):\n    return A * 2\n",
    specialisation={"A": "float32"},
    options={"tma": "True", "stages": "None"},
    ir=(Step("frontend", "%a = load"), Step("peel", "%a = load"), Step("layouts", "%b = wide")),
    code=(Step("CUDA C++", "y = x * 2;"),),
    flags=("--std=c++17",),
    ptx="mul.f32 %f1, %f2, 2.0;",
    cubin=b"",
    launch={"grid": "4", "threads": "128"},
    tools={"NVRTC": "13.0"},
)


def ir(*texts: str, names: tuple[str, ...] = ("frontend", "peel", "layouts")) -> tuple[Step, ...]:
    """Return programs after passes."""
    return tuple(Step(*pair) for pair in zip(names, texts, strict=True))


@pytest.mark.parametrize(
    ("changes", "level", "step"),
    [
        ({"source": "def double(A):\n    return A * 3\n", "ir": ir("c", "d", "e")}, "python", ""),
        ({"specialisation": {"A": "float64"}, "ir": ir("c", "d", "e")}, "specialisation", "A"),
        ({"options": {"tma": "False", "stages": "None"}}, "options", "tma"),
        ({"ir": ir("c", "d", "e")}, "ir", "frontend"),
        ({"ir": ir("%a = load", "%a = other", "e")}, "ir", "peel"),
        ({"ir": ir("%a = load", "%a = load", "%b = narrow")}, "ir", "layouts"),
        ({"code": (Step("CUDA C++", "y = x + x;"),)}, "code", "emission"),
        ({"flags": ("--std=c++17", "--fmad=false")}, "flags", ""),
        ({}, "ptx", ""),
    ],
)  # fmt: skip
def test_first_level_is_that_behind_the_last_common_form(
    changes: dict[str, Any], level: str, step: str
) -> None:
    """Everything behind the level differs too, as it does in a compiler."""
    later = {"ptx": "add.f32 %f1, %f2, %f2;"}
    if "ir" in changes:
        later["code"] = (Step("CUDA C++", "y = x + x;"),)  # type: ignore[assignment]
    found = compare(BASE, replace(BASE, **{**later, **changes}))
    assert (found.level, found.step) == (level, step)


def test_change_that_is_gone_in_a_later_form_has_no_effect() -> None:
    """Source and one pass differ, the code is the same: what differs behind it counts."""
    new = replace(
        BASE, source="def double(A):\n    return 2 * A\n",
        ir=ir("%a = load2", "%a = load", "%b = wide"), flags=("-O1",), ptx="add.f32 %f1, %f2, %f2;",
    )  # fmt: skip
    found = compare(BASE, new)
    assert found.level == "flags"
    assert found.without_effect == ("python", "ir")
    assert not same_code(BASE, new)


def test_names_places_and_comments_are_no_difference() -> None:
    """Only what a GPU runs counts."""
    new = replace(
        BASE, source='def double(A):\n    """Twice."""\n    # comment\n    return A*2\n',
        ir=ir("%x = load", "%x = load", "%y = wide"),
        code=(Step("CUDA C++", '#line 7 "k.py"\ny = x * 2;  // twice\n\n'),),
        ptx="// place\n\t.loc 1 7 0\nmul.f32 %f7, %f9, 2.0;",
    )  # fmt: skip
    assert compare(BASE, new).level == "nothing"
    assert compare(BASE, new).without_effect == ()
    assert same_code(BASE, new)


@pytest.mark.parametrize(
    ("old", "new", "step", "words"),
    [
        (("A", "B", "C"), ("A", "C"), "B", "only the old side runs it"),
        (("A", "C"), ("A", "B", "C"), "B", "only the new side runs it"),
        (("A", "B {n=1}", "C"), ("A", "B {n=2}", "C"), "B", "its options {n=1} → {n=2}"),
    ],
)
def test_pass_that_one_side_lacks_is_named(
    old: tuple[str, ...], new: tuple[str, ...], step: str, words: str
) -> None:
    """Programs in front of passes; B is the only one that changes something."""

    def forms(names: tuple[str, ...]) -> Forms:
        changed, passes = "", []
        for name in names:
            passes.append(Step(name, f"start{changed}"))
            changed = f" {name}" if name.startswith("B") else changed
        llvm = Step("LLVM IR", f"end{changed}")
        return Forms("k", "triton", "s", {}, {}, (), (llvm,), (), "", b"", {}, {}, tuple(passes))

    found = compare(forms(old), forms(new))
    assert found.step == step
    assert found.text.startswith(words)


def test_launch_counts_where_the_code_is_the_same() -> None:
    """A kernel with another grid is another launch of the same code."""
    new = replace(BASE, launch={"grid": "8", "threads": "128"})
    found = compare(BASE, new)
    assert (found.level, found.text) == ("launch", "grid 4 → 8")
    assert not same_code(BASE, new)


def test_option_of_one_side_alone_is_no_difference() -> None:
    """A newer version has options that an older one does not know."""
    assert compare(BASE, replace(BASE, options={**BASE.options, "peel": "True"})).level == "nothing"


def test_dump_of_mlir_is_cut_into_programs() -> None:
    """Both forms of the banner; what a pass prints in its middle belongs to nobody."""
    text = (
        "warning: something\n"
        "// -----// IR Dump Before CSE (cse) ('builtin.module' operation) //----- //\n"
        "first\n"
        "// -----// IR Dump Before Coalesce: coalesce{n=4 } ('builtin.module' operation) //--//\n"
        "second\n"
        "// -----// SoftwarePipeliner internal IR Dump After: LowerLoops\n"
        "third\n"
    )
    assert [(each.name, each.text.strip()) for each in dumped(text)] == [
        ("CSE", "first"),
        ("Coalesce {n=4 }", "second"),
    ]


def test_resources_count_where_the_code_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers that are reserved and not used limit how many blocks run at once."""
    facts = (Fact("registers", 32, 168), Fact("blocks per SM", 16, 3))
    monkeypatch.setattr(comparing, "changed_resources", lambda old, new: facts)
    found = compare(BASE, BASE)
    assert (found.level, found.text) == ("resources", "registers 32 → 168, blocks per SM 16 → 3")
    assert not same_code(BASE, BASE)


@pytest.mark.parametrize("path", sorted(INSIDE.glob("*.py")), ids=lambda path: path.stem)
def test_what_runs_on_a_side_is_python_of_older_versions(path: Path) -> None:
    """An environment of Triton may have Python 3.9, and none of our packages."""
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    assert not any(isinstance(node, ast.Match) for node in ast.walk(tree))
    imported = {
        name.name.partition(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import)
        for name in node.names
    } | {
        str(node.module).partition(".")[0]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and not node.level
    }
    assert imported <= set(sys.stdlib_module_names)
