"""Which arguments of a kernel are tunable, and with which values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.tuning import tuned_kernels as kernels
from tileprof.errors import UsageError
from tileprof.lang.jit_function import JitFunction
from tileprof.tuning import Configuration, KernelSubject, machine_of
from tileprof.tuning.space import Space, listed_space

GPU = machine_of("", "sm_90a")
SQUARE = {"M": 512, "N": 512, "K": 512}


def space_of(function: JitFunction, **fixed: Any) -> Space:
    """The space of a kernel for a GPU that need not be there."""
    return KernelSubject(function, fixed, lambda kernel: [], "", GPU).space


@pytest.mark.parametrize(
    ("function", "fixed", "roles"),
    [
        (
            kernels.product, SQUARE,
            {"block_M": "tile", "block_N": "tile", "block_K": "tile", "stages": "stages",
             "threads": "threads", "rows": "raster"},
        ),
        (kernels.product, {**SQUARE, "stages": 3, "rows": 1, "threads": 256},
         {"block_M": "tile", "block_N": "tile", "block_K": "tile"}),
        (kernels.added, {"N": 4096}, {"block": "tile", "threads": "threads"}),
        (kernels.sized, {"N": 64}, {"block": "tile"}),
        (kernels.handed_on, {"N": 64}, {"block": "tile"}),
    ],
)  # fmt: skip
def test_roles_follow_from_what_an_argument_changes(
    function: JitFunction, fixed: Mapping[str, Any], roles: Mapping[str, str]
) -> None:
    """Tiles, stages, threads and the order of blocks; neither sizes nor factors."""
    assert space_of(function, **fixed).roles() == roles


def test_values_hold_the_default_and_fit_the_instructions() -> None:
    """Sides of tiles that are multiplied are 16 to 256; each argument may keep its default."""
    space = space_of(kernels.product, **SQUARE)
    for each in space.tunables:
        assert each.default in each.values
        assert list(each.values) == sorted(each.values)  # type: ignore[type-var]
    sides = {t.name: t.values for t in space.tunables if t.role == "tile"}
    assert sides["block_M"] == (16, 32, 64, 128, 256)
    assert dict(space.controls)["cluster"] == (2,)
    assert space.default in list(space_of(kernels.added, N=64).all()) or space.size > 200


def test_neighbours_differ_in_one_step() -> None:
    """From each configuration one step leads up or down, and one to each other control."""
    space = space_of(kernels.added, N=4096)
    near = {str(each) for each in space.neighbours(space.default)}
    assert near == {
        "block=512 threads=128", "block=2048 threads=128", "block=1024 threads=64",
        "block=1024 threads=256",
    }  # fmt: skip
    product = space_of(kernels.product, **SQUARE)
    near = {str(each) for each in product.neighbours(product.default)}
    assert f"{product.default} cluster:2" in near
    exchanged = product.default.replaced("block_M", 256).replaced("block_N", 128)
    assert str(exchanged) in near


def test_a_kernel_without_tunable_arguments_is_refused() -> None:
    """The error says what to make of its numbers."""
    with pytest.raises(UsageError, match="no argument that could be tuned"):
        space_of(kernels.no_choice, N=64)


def test_an_authors_list_is_checked() -> None:
    """All configurations set the same arguments, which the function has."""
    signature = kernels.added.signature
    one, other = Configuration.of({"block": 64}), Configuration.of({"threads": 64})
    with pytest.raises(UsageError, match="differ in the arguments"):
        listed_space([one, other], signature)
    with pytest.raises(UsageError, match="`size`, which is not an argument"):
        listed_space([Configuration.of({"size": 64})], signature)
    with pytest.raises(UsageError, match="no configuration"):
        listed_space([], signature)
    space = listed_space(
        [Configuration.of({"block": 64}), Configuration.of({"block": 32})], signature
    )
    assert space.default == one
    assert space.size == 2
