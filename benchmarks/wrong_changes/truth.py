"""Results of a mutant, computed in 64 bits and without `tileprof try`.

In: a program's text.  Out: its `Outcome`: losses, gradients of the first step, and how parameters
have moved, or what the named function returned.  It runs in this process, from the same random
numbers as in 32 bits.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

Arrays = list[np.ndarray]
_DRAWS = ("uniform_", "normal_")
"""Methods of tensors that `torch.nn.init` draws with."""


@dataclass
class Outcome:
    """Results of the first steps of a program."""

    values: Arrays = field(default_factory=list)
    """Losses, one for each step, or what the compared function returned."""
    gradients: Arrays = field(default_factory=list)
    """Gradients of the first step, one for each parameter."""
    first_updates: Arrays = field(default_factory=list)
    updates: Arrays = field(default_factory=list)
    """How each parameter has moved in all steps that are compared."""


def outcome(text: str, compared: str, steps: int, seed: int = 0) -> Outcome:
    """Run a program in 64 bits; raises what it raises."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    found = Outcome()
    names: dict[str, Any] = {"__name__": "__main__"}
    with _in_64_bits(), _watched(found, steps):
        # The call in its last line comes after the compared function is watched.
        definitions, _, call = text.rstrip().rpartition("\n")
        exec(compile(definitions, "<program>", "exec"), names)
        if compared:
            names[compared] = _kept(names[compared], found, steps)
        exec(compile(call, "<program>", "exec"), names)
    return found


@contextmanager
def _in_64_bits() -> Iterator[None]:
    """Compute in 64 bits; what modules and parameters begin with is drawn in 32."""
    plain: dict[str, Any] = {name: getattr(torch.Tensor, name) for name in _DRAWS}
    randn: Any = torch.randn

    def drawn(name: str) -> Any:
        def draw(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            held = plain[name](tensor.detach().float(), *args, **kwargs)
            return tensor.copy_(held)

        return draw

    def normal(*args: Any, **kwargs: Any) -> torch.Tensor:
        made: torch.Tensor = randn(*args, **{"dtype": torch.float32, **kwargs})
        return made.double()

    torch.set_default_dtype(torch.float64)
    torch.randn = normal
    for name in _DRAWS:
        setattr(torch.Tensor, name, drawn(name))
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.randn = randn
        for name, each in plain.items():
            setattr(torch.Tensor, name, each)


def _kept(function: Any, found: Outcome, steps: int) -> Any:
    def kept(*args: Any, **kwargs: Any) -> Any:
        returned = function(*args, **kwargs)
        if len(found.values) < steps:
            found.values.append(np.array(returned, np.float64))
        return returned

    return kept


@contextmanager
def _watched(found: Outcome, steps: int) -> Iterator[None]:
    plain: Any = torch.Tensor.backward
    done = 0
    parameters: list[tuple[torch.Tensor, np.ndarray]] = []

    def backward(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if done < steps:
            found.values.append(_array(tensor))
        return plain(tensor, *args, **kwargs)

    def before(optimizer: Any, *_: Any) -> None:
        if done == 0:
            for group in optimizer.param_groups:
                parameters.extend((each, _array(each)) for each in group["params"])
            found.gradients = [
                np.zeros(0) if each.grad is None else _array(each.grad) for each, _ in parameters
            ]

    def after(*_: Any) -> None:
        nonlocal done
        done += 1
        if done in (1, steps):
            moved = [_array(each) - start for each, start in parameters]
            if done == 1:
                found.first_updates = moved
            found.updates = moved

    hooks = (
        register_optimizer_step_pre_hook(before),
        register_optimizer_step_post_hook(after),
    )
    torch.Tensor.backward = backward  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        torch.Tensor.backward = plain  # type: ignore[method-assign]
        for hook in hooks:
            hook.remove()


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to(torch.float64).cpu().numpy().copy()


def apart(old: Outcome, new: Outcome) -> dict[str, float]:
    """Return by kind how far results are apart, as a share; infinite where shapes differ."""
    first, rest = old.values[:1], old.values[1:]
    return {
        "first value": _farthest(first, new.values[:1]),
        "later values": _farthest(rest, new.values[1:]),
        "gradients": _together(old.gradients, new.gradients),
        "first updates": _together(old.first_updates, new.first_updates),
        "updates": _together(old.updates, new.updates),
    }


def _farthest(old: Arrays, new: Arrays) -> float:
    if len(old) != len(new):
        return float("inf")
    return max((_share(a, b) for a, b in zip(old, new)), default=0.0)


def _together(old: Arrays, new: Arrays) -> float:
    if [each.shape for each in old] != [each.shape for each in new]:
        return float("inf")
    if not old:
        return 0.0
    return _share(*(np.concatenate([each.ravel() for each in held]) for held in (old, new)))


def _share(old: np.ndarray, new: np.ndarray) -> float:
    if old.shape != new.shape or not np.isfinite(new).all():
        return float("inf")
    whole, moved = float(np.linalg.norm(old)), float(np.linalg.norm(new - old))
    return moved / whole if whole else float("inf") if moved else 0.0
