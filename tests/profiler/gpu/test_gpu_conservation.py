"""What is recorded on a GPU against witnesses: torch.profiler, the program's own counts, sizes.

    python -m pytest -m gpu tests/profiler/gpu

`TILEPROF_SOAK_SECONDS` sets how long the soak takes.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.profiler.gpu.running import (
    PROGRAMS,
    counts,
    nodes,
    profiled,
    python,
    succeeded,
    total,
)
from tests.profiler.gpu.shapes import EXPECTED, outline, outlines
from tileprof.profile import Profile

pytestmark = pytest.mark.gpu
MB = 1 << 20
SOAK = float(os.environ.get("TILEPROF_SOAK_SECONDS", "20"))


@pytest.mark.alone
def test_kernels_are_those_of_torch_profiler(tmp_path: Path) -> None:
    """Names and counts are equal in another run of the program; times within a few percent."""
    profile = succeeded(profiled(tmp_path, "training")).profile
    witness = succeeded(python(tmp_path, str(PROGRAMS / "training.py"), "--witness")).told
    theirs = {n: seen for n, seen in witness.items() if not n.startswith(("Memcpy", "Memset"))}
    ours = counts(profile, scope="measured")
    assert dict(ours) == {name: count for name, (count, _) in theirs.items()}
    assert sum(ours.values()) > 1000
    time = sum(time for _, time in theirs.values())
    assert total(profile, "time", scope="measured") == pytest.approx(time, rel=0.05)
    copies = sum(seen[0] for name, seen in witness.items() if name.startswith("Memcpy"))
    assert sum(counts(profile, "memcpy", "measured").values()) == copies


def part_of_step(profile: Profile, kernel: int) -> str:
    """Which part of a training step a kernel's path says it belongs to; the parts are disjoint."""
    path = [profile.node(n) for n in profile.path(kernel)]
    places = [node.location.file for node in path if node.kind == "frame" and node.location]
    backward = any(node.phase == "backward" for node in path)
    found = {
        "optimizer": any("/torch/optim/" in place for place in places),
        "backward": backward,
        "forward": not backward and any(node.name == "Block.forward" for node in path),
    }
    named = [part for part, there in found.items() if there]
    assert len(named) <= 1, [(node.kind, node.name, node.phase) for node in path]
    return named[0] if named else "elsewhere"


def test_every_kernel_of_training_has_a_call_path(tmp_path: Path) -> None:
    """Backward ones below `forward` of a module, each with its phase; the optimizer's in `step`."""
    profile = succeeded(profiled(tmp_path, "training")).profile
    steps, blocks, layers, parameters = 10, 4, 4, 12
    parts = Counter[str]()
    backward_of_blocks = 0
    for kernel in nodes(profile, "kernel", "measured"):
        names = [profile.node(n).name for n in profile.path(kernel.id)]
        part, count = part_of_step(profile, kernel.id), int(kernel.own("count"))
        parts[part] += count
        if part == "backward" and "Block.forward" in names:
            backward_of_blocks += count
        assert "main.<locals>.step" in names
    # A block has more kernels than the products of its layers, and a product's gradient is two.
    assert parts["forward"] > steps * blocks * layers
    assert backward_of_blocks > 2 * steps * blocks * layers
    assert parts["backward"] >= parts["forward"]
    # Each parameter is updated alike.
    assert parts["optimizer"] > 0
    assert parts["optimizer"] % (steps * blocks * parameters) == 0
    # The loss, and the gradient that the backward pass begins with.
    assert 0 < parts["elsewhere"] <= 8 * steps, parts


def test_launches_that_the_program_counts(tmp_path: Path) -> None:
    """Two Triton kernels, from two threads and the main one; the author of one tells its work."""
    ran = succeeded(profiled(tmp_path, "counting", "1", "2"))
    profile, told = ran.profile, ran.told["counts"]
    found = counts(profile)
    assert {name: found[name] for name in ("double", "halve")} == told
    assert profile.whole["flops"] == 1000 * told["double"]


def test_soak(tmp_path: Path) -> None:
    """Eight threads launch all the time: nothing is lost, and memory does not grow."""
    ran = succeeded(profiled(tmp_path, "counting", str(SOAK), "8", timeout=SOAK + 120))
    found = counts(ran.profile)
    assert {name: found[name] for name in ("double", "halve")} == ran.told["counts"]
    assert sum(found.values()) > 5_000 * SOAK
    assert ran.profile.tables.provenance.get("lost", "") == ""
    grown = ran.told["late"] - ran.told["early"]
    million = sum(found.values()) * 0.625 / 1e6
    assert grown < 16 * MB + 20 * MB * million


def test_known_shape(tmp_path: Path) -> None:
    """Threads, steps, backward, deep frames, recursion, generators, coroutines: each kernel."""
    profile = succeeded(profiled(tmp_path, "shapes", "cuda")).profile
    # `ones` and `ones_like` fill by kernels, which the expected tree does not speak of.
    found = {path: n for path, n in outlines(profile, "kernel").items() if not path.endswith("/ ")}
    assert found == EXPECTED


def test_graphs(tmp_path: Path) -> None:
    """Replayed kernels are under their launch; of a graph seen at its capture, with that path."""
    ran = succeeded(python(tmp_path, str(PROGRAMS / "graphs.py"), "out.tprof"))
    profile = ran.profile
    early, late = 0, Counter[str]()
    for node in profile.find(kind="kernel"):
        path, count = outline(profile, node), int(profile.node(node).own("count"))
        if "aten::fill_" in {profile.node(n).name for n in profile.path(node)}:
            continue  # PyTorch sets the seed of a graph beside it
        if "replay_early" in path:
            early += count
        else:
            late[path] += count
    assert early == 3 * 5
    assert late == {
        "main / replay_late / captured at / main / capture / work / neg": 2 * 7,
        "main / replay_late / captured at / main / capture / work / sqrt": 7,
    }


def test_copies_and_fills(tmp_path: Path) -> None:
    """Direction, kind of memory, number, bytes, and a rate that a bus allows."""
    profile = succeeded(profiled(tmp_path, "copies")).profile
    sizes = {node.name: [0, 0] for kind in ("memcpy", "memset") for node in nodes(profile, kind)}
    for kind in ("memcpy", "memset"):
        for node in nodes(profile, kind):
            sizes[node.name][0] += int(node.own("count"))
            sizes[node.name][1] += int(node.own("bytes"))
    assert sizes == {
        "HtoD pageable": [3, 3 * MB],
        "HtoD pinned": [2, 2 * 2 * MB],
        "DtoH pageable": [1, MB],
        "DtoH pinned": [5, 5 * 2 * MB],
        "DtoD": [7, 7 * 4 * MB],
        "memset device": [4, 4 * 3 * MB],
    }
    for node in nodes(profile, "memcpy"):
        assert 0.1 < node.own("bytes") / node.own("time") < 8_000  # GB/s


def test_waits_and_idle_time(tmp_path: Path) -> None:
    """A launch-bound program leaves the GPU idle, and waits for it once."""
    profile = succeeded(profiled(tmp_path, "leaving", "return")).profile
    waits = list(nodes(profile, "sync"))
    assert any(node.own("sync_time") > 0 for node in waits)
    assert total(profile, "idle_time", "idle") > 0
    (kernel,) = [n for n in nodes(profile, "kernel") if n.own("count") >= 1000]
    assert kernel.own("count") * kernel.own("time_min") <= kernel.own("time")


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [("exit", 7, ""), ("signal", -15, ""), ("exception", 1, "ValueError: of the program")],
)
def test_ways_to_leave(tmp_path: Path, how: str, code: int, said: str) -> None:
    """The exit code is the program's, and all of its thousand kernels are there."""
    ran = profiled(tmp_path, "leaving", how)
    assert ran.code == code, ran.errors
    assert said in ran.errors
    assert sum(n for name, n in counts(ran.profile).items() if "add" in name.lower()) == 1000


def test_torch_profiler_in_the_middle(tmp_path: Path) -> None:
    """It gets its records, we say so by name, and count what was launched around it."""
    ran = succeeded(profiled(tmp_path, "beside"))
    assert ran.told == {"theirs": 100}
    facts = " ".join(ran.profile.tables.provenance.values())
    assert "torch.profiler" in facts
    assert sum(counts(ran.profile, scope="before").values()) == 100
    assert sum(counts(ran.profile, scope="during").values()) in (0, 100)
    assert ran.profile.find("after", "scope")


def test_products_have_flops(tmp_path: Path) -> None:
    """2·M·N·K for each product of PyTorch, and what a scope says."""
    ran = succeeded(profiled(tmp_path, "kernels", "products"))
    profile, size = ran.profile, ran.told["size"]
    (scope,) = profile.find("products", "scope")
    assert profile.node(scope).total("flops") == 3 * 2 * size**3 + 1000
    products = Counter[str]()
    others = []
    for kernel in nodes(profile, "kernel", "products"):
        above = [profile.node(n).name for n in profile.path(kernel.id)]
        if "aten::mm" in above:
            products[kernel.name] += int(kernel.own("count"))
        else:
            others.append(("told" in above, "aten::neg" in above, int(kernel.own("count"))))
    # A product may be split and then summed up: as many of each of its kernels as of products.
    assert set(products.values()) == {3}, products
    assert others == [(True, True, 1)]
    (flops,) = (op.own("flops") for op in nodes(profile, "op", "products") if op.own("flops"))
    assert flops == 3 * 2 * size**3


def test_kernels_of_ours(tmp_path: Path) -> None:
    """Counted once, with their time from the GPU and their flops from the program."""
    ran = succeeded(profiled(tmp_path, "kernels", "ours"))
    profile, size = ran.profile, ran.told["size"]
    assert counts(profile, scope="ours") == {"matmul": 4}
    assert total(profile, "flops", scope="ours") == 4 * 2 * size**3
    assert total(profile, "time", scope="ours") > 0


def test_compiled_functions(tmp_path: Path) -> None:
    """One fused Triton kernel a call, under the frame that called."""
    profile = succeeded(profiled(tmp_path, "kernels", "compiled")).profile
    found = counts(profile, scope="compiled")
    assert list(found.values()) == [5]
    assert re.match("triton_", next(iter(found)))
    (node,) = nodes(profile, "kernel", "compiled")
    assert "compiled" in [profile.node(n).name for n in profile.path(node.id)]


def test_kernels_are_described(tmp_path: Path) -> None:
    """Grid, block and registers of a kernel are in the profile."""
    profile = succeeded(profiled(tmp_path, "counting", "0.2", "1")).profile
    described = {kernel.name: kernel.attributes for kernel in profile.tables.kernels}
    assert described["double"]["grid"] == "1×1×1"
    assert described["double"]["block"] == "128×1×1"
    assert int(described["double"]["registers"]) > 0
