"""Smaller sizes for TileKernels' tests, which are made for a GPU: what its generators give, and
extents that tests are parametrised with.  No test and no kernel is changed.

Executed by `tilelang_suites.py --setup` before the tests are collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import tile_kernels.testing.generator as generator
from tile_kernels.utils import align

TOKENS = (65, 130)
HIDDEN = (576, 2048)
LARGEST = {"n1": 64, "hidden_size": 2560, "h": 2560, "seq": 64}
"""Greatest values of parameters by name."""

_moe_params = generator.generate_moe_params
_parametrize = pytest.mark.parametrize


def _tokens(alignment: int = 1, is_benchmark: bool = False) -> list[int]:
    return [align(n, alignment) for n in TOKENS]


def _hidden(align: int = 64) -> list[int]:
    return [size for size in HIDDEN if size % align == 0]


def _moe(is_benchmark: bool = False) -> Iterator[dict[str, Any]]:
    for each in _moe_params(is_benchmark):
        yield {**each, "num_send_tokens": min(each["num_send_tokens"], TOKENS[0])}


class _Smaller:
    """`pytest.mark.parametrize` with values that are at most `LARGEST`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_parametrize, name)

    def __call__(self, names: Any, values: Iterable[Any], **options: Any) -> Any:
        if isinstance(names, str) and names in LARGEST:
            values = list(dict.fromkeys(min(value, LARGEST[names]) for value in values))
        return _parametrize(names, values, **options)


generator.generate_num_tokens = _tokens
generator.generate_hidden_sizes = _hidden
generator.generate_moe_params = _moe
pytest.mark.parametrize = _Smaller()  # type: ignore[assignment]
