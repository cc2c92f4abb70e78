"""The training step of the case study under the profiler, against what PyTorch says of it."""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.forked_programs import ROOT, tileprof
from tileprof.profile import Profile, load

torch: Any = pytest.importorskip("torch")
pytest.importorskip("tileprof.native._recorder")

STEPS = 2
study: Any = importlib.import_module("case_studies.train_gpt")


def recorded(folder: Path, *options: str, ours: Sequence[str] = ()) -> Profile:
    """The profile of a few steps on the CPU."""
    script = str(ROOT / "case_studies" / "train_gpt.py")
    run = ("run", "--quiet", "-o", "out.tprof", *ours, script, "--device", "cpu")
    tileprof(folder, (*run, "--steps", str(STEPS), *options))
    profile = load(folder / "out.tprof")
    profile.check()
    return profile


@functools.cache
def flops_by_pytorch(recompute: bool) -> int:
    """What PyTorch's counter makes of the same steps."""
    from torch.utils.flop_counter import FlopCounterMode

    arguments = argparse.Namespace(
        steps=STEPS, device="cpu", size="tiny", workers=0, checkpoint=recompute, compile=False
    )
    with FlopCounterMode(display=False) as counter:
        study.train(arguments)
    return int(counter.get_total_flops())


def flops_of_attention(recompute: bool) -> int:
    """Those of fused attention on the CPU, which PyTorch's counter does not know."""
    size = study.SIZES["tiny"]
    product = 2 * size.batch * size.context**2 * size.width
    return int(STEPS * size.blocks * (2 + 5 + (2 if recompute else 0)) * product)


def test_a_training_step(tmp_path: Path) -> None:
    """Flops are PyTorch's, of forward too, which runs twice where it is recomputed; backward is
    below the blocks that it belongs to."""
    profile = recorded(tmp_path, "--checkpoint", ours=["--backward-ops"])
    (step,) = profile.find("step", "scope")
    assert profile.node(step).own("count") == STEPS
    assert profile.whole["flops"] == flops_by_pytorch(True) + flops_of_attention(True)
    names = [profile.node(n).name for n in profile.children(step)]
    assert {"data", "forward", "backward", "update"} <= set(names)
    products = {"": 0, "backward": 0}
    for node in profile.find("aten::mm", "op"):
        inside = [profile.node(n) for n in profile.path(node)]
        if any(each.name == "Block.forward" for each in inside):
            products[inside[-1].phase] += int(inside[-1].own("count"))
    layers = 4 * 4 * STEPS
    # Two products for each of forward, which runs again in the backward phase.
    assert products == {"": layers, "backward": 3 * layers}


def test_a_backward_pass_of_nodes_alone(tmp_path: Path) -> None:
    """Has the same flops, at the nodes, which hang under the operations that made them."""
    profile = recorded(tmp_path)
    assert profile.whole["flops"] == flops_by_pytorch(False) + flops_of_attention(False)
    products = {
        (profile.node(profile.path(n)[-2]).name, profile.node(n).name, profile.node(n).phase):
        profile.node(n).own("count")
        for n in profile.find("MmBackward0", "op")
    }  # fmt: skip
    assert set(products) == {("aten::mm", "MmBackward0", "backward")}
    inside = [n for n in profile.find(kind="op") if profile.node(n).phase == "backward"]
    assert {profile.node(n).name for n in inside} & {"aten::mm", "aten::add", "aten::mul"} == set()
