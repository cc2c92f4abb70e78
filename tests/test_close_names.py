"""A name out of a list of known ones that is misspelt is an error that says which was meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.viewer.samples import matmul
from tileprof.errors import UsageError
from tileprof.profile import KINDS, diff, fail_if, prune
from tileprof.viewer import ViewOptions, export, render_view
from tileprof.viewer.findings import ReportOptions

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "kind of nodes": (lambda: matmul().find(kind="kernl"), "kernel"),
    "metric of a profile": (lambda: matmul().total("tme"), "time"),
    "metric of a node": (lambda: matmul().node(0).own("cpu_tim"), "cpu_time"),
    "metric to prune by": (lambda: prune(matmul(), "tiem", 0.1), "time"),
    "metric of a gate": (lambda: fail_if(diff(matmul(), matmul()), "tme > 5%"), "time"),
    "column": (lambda: render_view(matmul(), ViewOptions(metrics=("avg_tme",))), "avg_time"),
    "view": (lambda: render_view(matmul(), ViewOptions(), "lnes"), "lines"),
    "mode": (lambda: ViewOptions(mode="bottomup"), "bottom-up"),  # type: ignore[arg-type]
    "voice": (lambda: ReportOptions("autor"), "author"),  # type: ignore[arg-type]
    "format": (lambda: export(matmul(), "speedscop"), "speedscope"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_misspelt_name_of_the_api_names_the_one_that_was_meant(what: str) -> None:
    """None of them gives an empty result instead."""
    call, meant = WRONG[what]
    with pytest.raises(UsageError) as raised:
        call()
    assert f"Did you mean `{meant}`?" in str(raised.value)


def test_find_knows_every_kind() -> None:
    """A kind that exists and that no node has is an empty list."""
    assert all(isinstance(matmul().find(kind=kind), list) for kind in KINDS)
    assert matmul().find(kind="memset") == []
