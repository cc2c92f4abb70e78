"""Findings carry the changes that answer them, as facts."""

from __future__ import annotations

import pytest

from tests.analyzer.made import only
from tests.analyzer.reports import finding, report_with
from tests.analyzer.test_fusion import ADAM, LONG, optimizer
from tests.analyzer.test_launch_bound import waiting_for_data
from tests.analyzer.test_layout_copies import copying
from tests.analyzer.test_precision import PEAKS, products
from tests.analyzer.test_small_kernels import chain
from tests.analyzer.test_transfers import copying as copying_to_device
from tileprof.analyzer import Finding
from tileprof.analyzer.fixes import (
    CHANNELS_LAST,
    PINNED_MEMORY,
    Autocast,
    CompiledFunction,
    Fix,
    LoaderWorkers,
    MatmulPrecision,
    OptimizerForm,
)
from tileprof.analyzer.json_form import to_json


def of(name: str) -> Finding:
    """A finding of a rule."""
    times = (LONG,) * len(ADAM)
    layouts = ("aten::contiguous", "aten::clone", "aten::copy_")
    steps = {
        "precision": lambda: products().profile(PEAKS),
        "optimizer-passes": lambda: optimizer(ADAM, times).profile(),
        "launch-bound": lambda: waiting_for_data(20).profile(),
        "layout-copies": lambda: copying(*layouts).profile(),
        "transfers": lambda: copying_to_device().profile(),
        "small-kernels": lambda: chain().profile(),
    }
    return only(steps[name](), name)


@pytest.mark.parametrize(
    ("rule", "fixes"),
    [
        ("precision", (MatmulPrecision(), Autocast())),
        ("optimizer-passes", (OptimizerForm("fused", "AdamW"),)),
        ("launch-bound", (LoaderWorkers(), PINNED_MEMORY)),
        ("layout-copies", (CHANNELS_LAST,)),
        ("transfers", (PINNED_MEMORY,)),
    ],
)
def test_a_finding_has_its_changes(rule: str, fixes: tuple[Fix, ...]) -> None:
    """Each of them is an answer of its own."""
    assert of(rule).fixes == fixes


def test_a_chain_is_compiled_where_it_is() -> None:
    """The fix names the function by the line of the finding's place."""
    found = of("small-kernels")
    assert found.place.location is not None
    assert found.fixes == (CompiledFunction(found.place.location.file, "", 10),)


def test_casts_have_no_change_of_their_own() -> None:
    """A finding about casts has no fix: which tensor has which type is the author's choice."""
    found = only(copying("aten::to", "aten::_to_copy", "aten::copy_").profile(), "layout-copies")
    assert found.fixes == ()


def test_changes_in_json() -> None:
    """A code, facts and words."""
    from dataclasses import replace

    held = replace(finding("suggestion", gain=1.5), fixes=(OptimizerForm("fused", "AdamW"),))
    (found,) = to_json(report_with(held))["findings"]
    assert found["fixes"] == [
        {
            "fix": "optimizer",
            "fix_facts": {"form": "fused", "optimizer": "AdamW"},
            "text": "fused=True for torch.optim.AdamW",
        }
    ]
