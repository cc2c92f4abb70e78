"""Checks that files of tests of the language share: results of all devices, errors, drawn texts."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.everywhere import Array, results_everywhere
from tileprof.errors import TileprofError


def same_everywhere(
    function: Any, arrays: Sequence[Array], *expected: Any, debug: bool = True, **static: Any
) -> None:
    """Compare the outputs of a kernel on every device with what is expected."""
    for device, outputs in results_everywhere(function, arrays, debug, **static):
        for found, right in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5, err_msg=device)


def refused_in_place(
    function: Any, array: Array, kind: type[TileprofError], message: str, file: str
) -> None:
    """Call a kernel, and find the cause in the error's sentence and its place in a file."""
    with pytest.raises(kind) as caught, tileprof.device("interpreter"):
        function(array)
    assert message in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.file == file


def names_of_text(text: str, **names: Any) -> dict[str, Any]:
    """Return what a text defines, whose lines Python can find; it may use `names`."""
    file = f"<drawn {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), names)
    return names
