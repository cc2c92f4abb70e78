"""Programs of drawn architectures: models of the `transformers` library with random weights.

`architectures.json` is a frozen draw (`benchmarks.programs.drawing`).  In: its entries, each with
a type of models, an auto class, sizes and inputs.  Out: a script for each, as a user would write
it: `model(**batch)` in a loop, of training with AdamW or of inference.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from .catalog import SCRIPTS, Program

__all__ = ["DRAWN", "Entry", "absent", "entries", "hash_of", "offered", "program", "programs"]

Entry: TypeAlias = Mapping[str, Any]
DRAWN = Path(__file__).with_name("architectures.json")
"""The frozen draw."""

_START = '''"""{title}"""

import torch
from transformers import AutoConfig, {auto}

from stepping import changed, device, finish, size, steps

BATCH, LENGTH = size(({batch}, {length}), (2, 16))
SIZES = size({sizes}, {tiny})
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


def build():
    config = AutoConfig.for_model({type!r}, **SIZES)
{padding}    model = {auto}.from_config(config{attention})
    return model.to(device())


def inputs():
    batch = {{
{inputs}
    }}
    return {{name: each.to(device()) for name, each in batch.items()}}


def floats(outputs):
    return next(each for each in outputs.values()
                if isinstance(each, torch.Tensor) and each.is_floating_point())
'''
_ATTENTION = ', attn_implementation="sdpa" if changed("sdpa") else "eager"'
_PADDING = """    if changed("padded-vocabulary"):
        text = config.get_text_config()
        text.vocab_size = -(-text.vocab_size // 64) * 64
"""
_CHANNELS = """    if changed("channels-last"):
        model = model.to(memory_format=torch.channels_last)
        batch = {name: each.contiguous(memory_format=torch.channels_last) if each.dim() == 4
                 else each for name, each in batch.items()}
"""
_COMPILE = 'torch.compile(model, backend=size("inductor", "eager"))'
_INFERENCE = """

@torch.no_grad()
def main():
    torch.manual_seed(0)
    model, batch = build().eval(), inputs()
    if changed("half"):
        model = model.bfloat16()
        batch = {{name: each.bfloat16() if each.is_floating_point() else each
                 for name, each in batch.items()}}
{channels}    forward = {compile} if changed("compile") else model
    if changed("cuda-graph"):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(**batch)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = model(**batch)
    for _ in steps(size(60, 2), BATCH):
        if changed("cuda-graph"):
            graph.replay()
        else:
            outputs = forward(**batch)
    finish(floats(outputs).float().abs().mean().item())


if __name__ == "__main__":
    main()
"""
_TRAINING = """

def loss_of(outputs):
    return {loss}


class ByPosition(torch.nn.Module):
    \"\"\"The model and its loss as a function of tensors alone, as a CUDA graph needs it.\"\"\"

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors):
        return loss_of(self.model(**dict(zip(self.names, tensors))))


def main():
    torch.manual_seed(0)
    model, batch = build().train(), inputs()
{channels}    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-5, fused=True if changed("fused-optimizer") else None
    )
    forward = {compile} if changed("compile") else model
    if changed("cuda-graph"):
        graphed = torch.cuda.make_graphed_callables(
            ByPosition(model, list(batch)), tuple(batch.values()), allow_unused_input=True
        )
    for _ in steps(size(60, 2), BATCH):
        optimizer.zero_grad()
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            if changed("cuda-graph"):
                loss = graphed(*batch.values())
            else:
                loss = loss_of(forward(**batch))
        loss.backward()
        optimizer.step()
    finish(loss.item())


if __name__ == "__main__":
    main()
"""


def offered(entry: Entry) -> tuple[str, ...]:
    """Return the standard changes that apply to an entry, whether or not they run."""
    trained = entry["mode"] == "train"
    found = ["compile", "cuda-graph", "tf32", "bf16" if trained else "half"]
    found += ["channels-last"] if entry["convolutions"] else []
    found += ["fused-optimizer"] if trained else []
    found += ["sdpa"] if entry["eager"] else []
    return (*found, *(["padded-vocabulary"] if entry["odd_vocabulary"] else []))


def text(entry: Entry) -> str:
    """Return the script of an entry."""
    trained = entry["mode"] == "train"
    start = _START.format(
        title=f"{'Training' if trained else 'Inference'} of {entry['class']}, random weights.",
        auto=entry["auto"], type=entry["type"], batch=entry["batch"], length=entry["length"],
        sizes=entry["sizes"], tiny=entry["tiny"],
        padding=_PADDING if entry["odd_vocabulary"] else "",
        attention=_ATTENTION if entry["eager"] else "",
        inputs="\n".join(f'        "{name}": {each},' for name, each in entry["inputs"].items()),
    )  # fmt: skip
    loss = "outputs.loss" if "labels" in entry["inputs"] else "floats(outputs).square().mean()"
    return start + (_TRAINING if trained else _INFERENCE).format(
        channels=_CHANNELS if entry["convolutions"] else "", compile=_COMPILE, loss=loss
    )


def program(entry: Entry, folder: Path) -> Program:
    """Write the script of an entry into a folder, and return its program."""
    name = f"{entry['class']}_{entry['mode']}"
    script = folder / f"{name}.py"
    script.write_text(text(entry))
    trained, weights_gb = entry["mode"] == "train", entry["parameters"] * 4e-9
    # AdamW keeps two more of each, and each has a gradient.
    idle_gb = 1 + weights_gb * (4 if trained else 1)
    return Program(
        name, f"transformers, {'training' if trained else 'inference'}",
        tuple(each for each in offered(entry) if each not in entry["without"]),
        needs=("torch", "transformers"), busy_gb=idle_gb + (14 if trained else 4), idle_gb=idle_gb,
        tolerance=0.25 if trained else 0.1, scale=1.0 if "labels" in entry["inputs"] else 0.0,
        path=script,
    )  # fmt: skip


def entries() -> list[Entry]:
    """Return the entries of the frozen draw, in drawn order."""
    found: list[Entry] = json.loads(DRAWN.read_text())["drawn"]
    return found


def programs(folder: Path) -> tuple[tuple[Program, ...], dict[str, str]]:
    """Write the scripts of the frozen draw; return its programs in drawn order.

    The second result says by name why a model cannot be built with the version that is installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SCRIPTS / "stepping.py", folder)
    made = [(entry, program(entry, folder)) for entry in entries()]
    lacking = {each.name: why for entry, each in made if (why := absent(entry))}
    return tuple(each for _, each in made), lacking


def absent(entry: Entry) -> str:
    """Return why the installed library has no such model; empty where it has it, or where there is
    no library."""
    if importlib.util.find_spec("transformers") is None:
        return ""
    if importlib.util.find_spec(entry["module"].rpartition(".")[0]) is not None:
        return ""
    return f"transformers {importlib.metadata.version('transformers')} has no {entry['type']}"


def hash_of() -> str:
    """Return the SHA-256 of the frozen draw's file."""
    return hashlib.sha256(DRAWN.read_bytes()).hexdigest()
