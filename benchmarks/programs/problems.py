"""Programs of other authors: modules in KernelBench's form, each with a loop that runs it.

A problem is a file with a class `Model` and functions `get_init_inputs` and `get_inputs`
(KernelBench, Ouyang et al. 2025; its level 3 has whole models).  In: a checkout.  Out: programs,
whose scripts are the problem's text followed by a loop of inference, or of training with AdamW.
The problems and what is done with each are drawn by number; nobody chose them.
"""

from __future__ import annotations

import hashlib
import importlib
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .catalog import SCRIPTS, Program

__all__ = ["FOLDER", "SEED", "failing", "hash_of", "written"]

FOLDER = "KernelBench/level3"
"""Where the problems are in the checkout."""
SEED = 1
"""The draw's seed: the order of the problems, and which of them are trained."""
INFERENCE = ("compile", "cuda-graph", "tf32", "half", "channels-last")
TRAINING = ("compile", "cuda-graph", "tf32", "bf16", "channels-last", "fused-optimizer")

_START = """

import torch
from stepping import changed, device, finish, size, steps


def _moved(value):
    if not isinstance(value, torch.Tensor):
        return value
    value = value.to(device())
    if changed("half") and value.is_floating_point():
        value = value.bfloat16()
    if changed("channels-last") and value.dim() == 4:
        value = value.contiguous(memory_format=torch.channels_last)
    return value


def _first(result):
    return result if isinstance(result, torch.Tensor) else _first(result[0])


def _built():
    torch.manual_seed(0)
    if changed("tf32"):
        torch.set_float32_matmul_precision("high")
    model = Model(*get_init_inputs()).to(device())
    if changed("half"):
        model = model.bfloat16()
    if changed("channels-last"):
        model = model.to(memory_format=torch.channels_last)
    return model, [_moved(value) for value in get_inputs()]
"""
_INFERENCE = """

def main():
    model, inputs = _built()
    model.eval()
    forward = torch.compile(model) if changed("compile") else model
    with torch.no_grad():
        if changed("cuda-graph"):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    model(*inputs)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = model(*inputs)
        for _ in steps(size(60, 6), 1):
            if changed("cuda-graph"):
                graph.replay()
            else:
                result = forward(*inputs)
    finish(_first(result).float().abs().mean().item())


if __name__ == "__main__":
    main()
"""
_TRAINING = """

def main():
    model, inputs = _built()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-5, fused=True if changed("fused-optimizer") else None
    )
    forward = torch.compile(model) if changed("compile") else model
    if changed("cuda-graph"):
        # A layer whose result nobody reads has parameters without gradients.
        forward = torch.cuda.make_graphed_callables(model, tuple(inputs), allow_unused_input=True)
    for _ in steps(size(60, 6), 1):
        optimizer.zero_grad()
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            result = _first(forward(*inputs))
        loss = result.float().square().mean()
        loss.backward()
        optimizer.step()
    finish(loss.item())


if __name__ == "__main__":
    main()
"""


def written(checkout: Path, folder: Path) -> tuple[Program, ...]:
    """Write the scripts of a checkout's problems into a folder, and return them in drawn order.

    Raises:
        SystemExit: the checkout has no problems.
    """
    problems = sorted((checkout / FOLDER).glob("*.py"), key=lambda path: path.name)
    if not problems:
        raise SystemExit(f"no problems in {checkout / FOLDER}")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SCRIPTS / "stepping.py", folder)
    return tuple(_programs(problems, folder))


def failing(program: Program) -> str:
    """Return why a training cannot run even as its author wrote it; nothing where it may run.

    Two steps are done by shapes alone, on PyTorch's meta device. Errors of gradients count: they
    are the same on every device. Those of a forward pass may be of that device.
    """
    torch: Any = importlib.import_module("torch")
    text = program.script.read_text().partition(_START)[0]
    if "training" not in program.kind:
        return ""
    names: dict[str, Any] = {"__name__": program.name}
    try:
        with torch.device("meta"):
            exec(compile(text, str(program.script), "exec"), names)
            model, inputs = names["Model"](*names["get_init_inputs"]()), names["get_inputs"]()
            losses = (_first(model(*inputs)).float().square().mean() for _ in range(2))
            return next(filter(None, map(_fault_of_gradients, losses)), "")
    except Exception:
        return ""


def _first(result: Any) -> Any:
    return _first(result[0]) if isinstance(result, tuple | list) else result


def _fault_of_gradients(loss: Any) -> str:
    try:
        loss.backward()
    except NotImplementedError:
        return ""
    except RuntimeError as fault:
        return str(fault).partition(": [")[0].partition(" Saved ")[0]
    return ""


def hash_of(checkout: Path) -> str:
    """Return the SHA-256 of the problems' names and texts."""
    whole = hashlib.sha256()
    for path in sorted((checkout / FOLDER).glob("*.py"), key=lambda path: path.name):
        text = path.read_bytes()
        whole.update(f"{path.name}\0{len(text)}\0".encode() + text)
    return whole.hexdigest()


def _programs(problems: list[Path], folder: Path) -> Iterator[Program]:
    draw = random.Random(SEED)
    draw.shuffle(problems)
    for path in problems:
        trained = draw.random() < 0.5
        text = path.read_text()
        name = re.sub(r"\W+", "_", f"{path.stem}_{'train' if trained else 'infer'}").lower()
        script = folder / f"{name}.py"
        script.write_text(text.rstrip() + _START + (_TRAINING if trained else _INFERENCE))
        changes = tuple(each for each in (TRAINING if trained else INFERENCE)
                        if each != "channels-last" or "Conv2d" in text)  # fmt: skip
        yield Program(
            name, f"KernelBench, {'training' if trained else 'inference'}", changes, path=script,
            busy_gb=8, idle_gb=1.5, tolerance=0.1, scale=0,
        )  # fmt: skip
