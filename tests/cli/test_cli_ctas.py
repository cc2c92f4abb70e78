"""Timelines of CTAs on the command line: in the terminal, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.profile.cta_samples import profile
from tileprof.profile import save


@pytest.fixture(autouse=True)
def _sample(folder: Path) -> None:
    save(profile(), folder / "a.tprof")


def test_view(cli: Any) -> None:
    """A CTA of a kernel, by name or expression; the median unless one is asked for."""
    found = cli("view", "a.tprof", "--timeline", "ge.m")
    assert found.code == 0
    assert "SM 17 CTA 132, the median and first of 8: 1.10 µs" in found.out
    assert "SM 3 CTA 264" in cli("view", "a.tprof", "--timeline", "gemm", "--cta", "264").out
    found = cli("view", "a.tprof", "--timeline", "gemm", "--span", "0.4-0.9")
    assert ": 500 ns from 400 ns on of 1.10 µs," in found.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--timeline", "other"], "there is no timeline of a kernel `other`"),
        (["--timeline", "gemm", "--cta", "7"], "CTA 7 of gemm, launch 3 on cuda:0 was not kept"),
        (["--timeline", "gemm", "--json"], "`--timeline` has no `--json` or `--csv`"),
        (["--cta", "7"], "`--cta` needs `--timeline`"),
        (["--span", "1-2"], "`--span` needs `--timeline`"),
        (["--timeline", "gemm", "--span", "1"], "`1` is not `A-B`, two times in µs"),
        (["--timeline", "gemm", "--span", "a-b"], "`a-b` is not `A-B`, two times in µs"),
        (
            ["--timeline", "gemm", "--span", "2-3"],
            "of a CTA of 1.100 µs nothing is between 2 and 3 µs",
        ),
        (["--timeline"], "argument --timeline: expected one argument"),
    ],
)
def test_wrong_use(cli: Any, options: list[str], said: str) -> None:
    """It is said, and what to do."""
    found = cli("view", "a.tprof", *options)
    assert (found.code, found.out) == (2, "")
    assert said in found.err


@pytest.mark.sweep
def test_page(cli: Any, folder: Path) -> None:
    """One file that holds everything."""
    assert cli("export", "a.tprof", "--to", "html-timeline", "-o", "a.html").code == 0
    page = (folder / "a.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "SM 17 CTA 132" in page
