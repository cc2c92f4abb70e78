"""The most memory that a program had, and what its optimizers update.

In: PyTorch, where the program has imported it, and optimizers as they step.  Out: facts for the
provenance. Nothing here waits for a device, or begins to use one.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tileprof.profile.training_facts import (
    HOST,
    MemoryRoom,
    OptimizerFacts,
    training_provenance,
)

_seen: dict[weakref.ref[Any], OptimizerFacts] = {}
"""Facts by optimizer, also of those that the program has let go."""
_MOST = 16
"""Optimizers that are looked at in a process."""
_STATE = ("momentum", "weight_decay", "lr_decay", "betas", "alpha", "rho")
"""Settings of `torch.optim` by which parameters without a gradient change too, as of PyTorch 2.13,
2026-11."""
_CGROUP = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def facts() -> dict[str, str]:
    """Return what provenance tells."""
    return training_provenance(_rooms(), _seen.values())


def stepped(optimizer: Any) -> None:
    """Look at an optimizer that has made a step, once."""
    with suppress(AttributeError, TypeError, RuntimeError):
        if len(_seen) < _MOST and (held := weakref.ref(optimizer)) not in _seen:
            _seen[held] = _facts_of(optimizer)


def forget() -> None:
    """Know of no optimizers any more, as a new recording begins."""
    _seen.clear()


def _facts_of(optimizer: Any) -> OptimizerFacts:
    groups = optimizer.param_groups
    dense = [
        each
        for group in groups
        for each in group["params"]
        if each.grad is not None and not each.grad.is_sparse
    ]
    plain = not any(group.get(name) for group in groups for name in _STATE)
    moved = sum(each.numel() * each.element_size() for each in dense)
    return OptimizerFacts(type(optimizer).__name__, moved, len(dense), plain)


def _rooms() -> Iterator[MemoryRoom]:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    with suppress(AttributeError, RuntimeError, AssertionError):
        if torch.cuda.is_initialized():
            for number in range(torch.cuda.device_count()):
                peak = int(torch.cuda.max_memory_allocated(number))
                whole = int(torch.cuda.get_device_properties(number).total_memory)
                if peak:
                    yield MemoryRoom(f"cuda:{number}", peak, whole)
    yield from _host()


def _host() -> Iterator[MemoryRoom]:
    """The most that the process had, where the system says it."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        held = dict(line.split(":", 1) for line in lines.splitlines() if ":" in line)
        total = Path("/proc/meminfo").read_text(encoding="ascii").split()[1]
        whole = min([1024 * int(total), *_limits()])
        yield MemoryRoom(HOST, 1024 * int(held["VmHWM"].split()[0]), whole)


def _limits() -> Iterator[int]:
    for path in _CGROUP:
        with suppress(OSError, ValueError):
            yield int(path.read_text(encoding="ascii"))
