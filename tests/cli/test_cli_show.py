"""`tileprof show`: the page is written, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.programs import DOUBLE


def test_the_page_is_written(cli: Any, write: Callable[..., None], folder: Path) -> None:
    """The file is that of `-o`, or has the kernel's name."""
    write(k=DOUBLE)
    found = cli("show", "k.py:double", "--set", "N=10", "-o", "x.html")
    assert (found.code, found.out) == (0, "")
    assert found.err == "tileprof: x.html: 1 launch, 3 blocks; open it in a browser\n"
    assert (folder / "x.html").read_text().startswith("<!DOCTYPE html>")
    assert cli("show", "k.py:double", "--set", "N=10", "--blocks", "1,").code == 0
    assert '"shown":[1]' in (folder / "double.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "extent `N` of `A` has no value"),
        (["--set", "N=10", "--target", "sm_1"], "there is no CUDA target `sm_1`"),
        (["--set", "N=10", "--blocks", "few"], "`few` is not a number of blocks"),
        (["--set", "N=10", "-o", "none/x.html"], "none/x.html cannot be written"),
    ],
)
def test_wrong_use(
    cli: Any, write: Callable[..., None], arguments: list[str], message: str
) -> None:
    """A sentence and status 2."""
    write(k=DOUBLE)
    found = cli("show", "k.py:double", *arguments)
    assert (found.code, found.out) == (2, "")
    assert message in found.err
