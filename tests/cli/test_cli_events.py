"""`tileprof events`: totals by line, files, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.programs import DOUBLE


def test_totals_by_line(cli: Any, write: Callable[..., None]) -> None:
    """Each place of the program with its rows, elements and bytes."""
    write(k=DOUBLE)
    found = cli("events", "k.py:double", "--set", "N=10")
    assert (found.code, found.err) == (0, "")
    assert found.out == (
        "3 of 3 blocks\n\n"
        "line     op     access  buffer      rows  elements  guarded  bytes\n"
        "k.py:11  load   read    A (global)    12        10        2     40\n"
        "k.py:11  store  write   B (global)    12        10        2     40\n"
    )


def test_a_file_is_written(cli: Any, write: Callable[..., None], folder: Path) -> None:
    """`-o` writes the rows, `--blocks` chooses whose."""
    write(k=DOUBLE)
    found = cli("events", "k.py:double", "--set", "N=10", "--blocks", "1,", "-o", "k.npz")
    assert (found.code, found.out) == (0, "")
    assert found.err == "tileprof: k.npz: 8 events of 1 of 3 blocks\n"
    with np.load(folder / "k.npz") as held:
        assert held["start0"].tolist() == [4, 5, 6, 7] * 2


def test_tensors_come_from_a_file(cli: Any, write: Callable[..., None], folder: Path) -> None:
    """`--input` gives tensors, and with them the extents of a dynamic dimension."""
    write(k=DOUBLE)
    np.savez(folder / "in.npz", A=np.ones(5, np.float32))
    found = cli("events", "k.py:double", "--input", "in.npz")
    assert found.code == 0
    assert "k.py:11  load   read    A (global)     8         5        3     20\n" in found.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "extent `N` of `A` has no value\nGive it: --set N=…, or pass the tensor with"),
        (["-o", "k.csv"], "k.csv is not the name of a .parquet or .npz file"),
        (["--blocks", "few"], "argument --blocks: `few` is not a number of blocks nor a list"),
        (["--set", "N=4", "--blocks", "0"], "`blocks=0` is not a number of blocks nor a list"),
        (["--input", "gone.npz"], "gone.npz cannot be read: No such file or directory"),
        (["--input", "k.py"], "k.py is not a file of NumPy arrays"),
        (["--input", "z.npz"], "z.npz has an array `Z`, and `double` has no such argument"),
    ],
)
def test_wrong_use(
    cli: Any, write: Callable[..., None], folder: Path, arguments: list[str], message: str
) -> None:
    """One sentence, the way out, and exit code 2."""
    write(k=DOUBLE)
    np.savez(folder / "z.npz", Z=np.ones(5, np.float32))
    found = cli("events", "k.py:double", *arguments)
    assert (found.code, found.out) == (2, "")
    assert message in found.err
