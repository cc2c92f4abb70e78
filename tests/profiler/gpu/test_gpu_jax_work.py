"""Work of JAX's kernels on a real GPU: XLA's names of kernels and ranges are those expected.

python -m pytest -m gpu tests/profiler/gpu/test_gpu_jax_work.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.profiler.gpu.running import profiled, succeeded
from tileprof.profile import Node, Profile

pytest.importorskip("jax")

pytestmark = pytest.mark.gpu

TIMES = 10


def places(profile: Profile, function: str) -> Iterator[int]:
    """Indices of kernels in XLA's ranges of a function of the program's."""
    wanted = f"hlo_module=jit_{function},"
    for found in profile.find(kind="kernel"):
        if any(wanted in profile.names[at] for at in profile.path(found)):
            yield found


def kernels(profile: Profile, function: str) -> Iterator[Node]:
    """The same kernels' nodes."""
    return (profile.node(each) for each in places(profile, function))


def total(profile: Profile, function: str, metric: str) -> float:
    """A metric of all kernels of a function."""
    return sum(each.own(metric) for each in kernels(profile, function))


def test_kernels_of_jax_have_the_work_of_their_instructions(tmp_path: Path) -> None:
    """By hand for small functions; nearly all time of a step of training is of known work."""
    profile = succeeded(profiled(tmp_path, "jax_functions")).profile
    listed = {
        each.name: [each.own(metric) for metric in ("count", "time", "bytes", "flops")]
        for name in ("scaled", "product", "written", "looked_up", "summed", "trained")
        for each in kernels(profile, name)
    }
    numbers, table = 4096 * 4096, 64 * 4096
    assert total(profile, "scaled", "bytes") == TIMES * 4 * 2 * numbers, listed
    assert total(profile, "scaled", "flops") == TIMES * 2 * numbers, listed
    products = total(profile, "product", "flops")
    assert products == pytest.approx(TIMES * 2 * 2048 * 1024 * 4096, rel=0.01), listed
    assert 0 < total(profile, "written", "bytes") < TIMES * 4 * 3 * 1024, listed
    read = total(profile, "looked_up", "bytes")
    assert read == pytest.approx(TIMES * 4 * 2 * table, rel=0.01), listed
    # 32 turns of a loop are launches of their own.
    looped = total(profile, "summed", "flops")
    assert looped == pytest.approx(TIMES * 32 * 2 * 256 * 512 * 512, rel=0.1), listed
    # Calls of cuBLAS are graphs within XLA's graphs, whose nodes are not those that were captured.
    for name, least in (("summed", 0.95), ("trained", 0.8)):
        known = sum(e.own("time") for e in kernels(profile, name) if e.own("bytes"))
        assert known > least * total(profile, name, "time"), listed
    of_node = profile.tables.node_kernels
    infos = [profile.tables.kernels[of_node[each]] for each in places(profile, "product")]
    kinds = {each.attributes.get("multiplies") for each in infos}
    assert "bf16" in kinds, listed
