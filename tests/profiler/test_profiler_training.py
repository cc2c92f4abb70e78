"""The training step of the case study under the profiler, against what PyTorch says of it."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.profiler.gpu.running import ROOT, python, succeeded
from tileprof.profile import Profile

torch: Any = pytest.importorskip("torch")
pytest.importorskip("tileprof.native._recorder")

STEPS = 2
study: Any = importlib.import_module("case_studies.train_gpt")


def recorded(folder: Path, *options: str) -> Profile:
    """The profile of a few steps on the CPU."""
    script = str(ROOT / "case_studies" / "train_gpt.py")
    run = ("-m", "tileprof", "run", "--quiet", "-o", "out.tprof", script, "--device", "cpu")
    return succeeded(python(folder, *run, "--steps", str(STEPS), *options)).profile


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


@pytest.mark.parametrize("recompute", [False, True], ids=["plain", "checkpoint"])
def test_a_training_step(tmp_path: Path, recompute: bool) -> None:
    """Flops are PyTorch's, of forward too; backward is below the blocks that it belongs to."""
    profile = recorded(tmp_path, *(["--checkpoint"] if recompute else []))
    (step,) = profile.find("step", "scope")
    assert profile.node(step).own("count") == STEPS
    assert profile.whole["flops"] == flops_by_pytorch(recompute) + flops_of_attention(recompute)
    names = [profile.node(n).name for n in profile.children(step)]
    assert {"data", "forward", "backward", "update"} <= set(names)
    products = {"": 0, "backward": 0}
    for node in profile.find("aten::mm", "op"):
        inside = [profile.node(n) for n in profile.path(node)]
        if any(each.name == "Block.forward" for each in inside):
            products[inside[-1].phase] += int(inside[-1].own("count"))
    layers = 4 * 4 * STEPS
    # With recomputation the forward products run again in the backward phase.
    assert products == {"": layers, "backward": (3 if recompute else 2) * layers}
