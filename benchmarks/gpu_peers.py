"""What measured work shares: random operands, checks of results, kernels of TileLang."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Call = Callable[[], Any]
Spec = tuple[Any, ...]
"""A kernel of TileLang: the function of `tilelang_peers` and its arguments."""
Maker = Callable[[torch.Tensor], Callable[[], torch.Tensor]]
"""From the weights to a call."""

LIMIT = 4e-3
"""Relative error of products that are rounded to bfloat16: the rounding alone gives 1.7e-3."""


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Random normal numbers on the GPU."""
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


class WrongResult(Exception):
    """A kernel that is not measured, since it computes something else."""


def check(what: str, found: torch.Tensor, expected: torch.Tensor, limit: float) -> None:
    """The relative error in the Frobenius norm has to stay below a limit."""
    difference, size = found.double() - expected.double(), expected.double().norm()
    error = float(difference.norm() / size.clamp_min(1e-30))
    if not error < limit:
        raise WrongResult(f"{what} is wrong: relative error {error:.2e}")


TILELANG: dict[Spec, Any] = {}
"""Its compiled kernels; what is not here cannot be measured."""


def compile_peers(specs: Sequence[Spec]) -> str:
    """Fill `TILELANG`; what went wrong, if something did."""
    try:
        import tilelang_peers

        programs = [getattr(tilelang_peers, name)(*arguments) for name, *arguments in specs]
        made = tilelang_peers.compiled(programs)
    except Exception as error:
        return f"TileLang is not measured: {type(error).__name__}: {error}"[:300]
    TILELANG.update({s: kernel for s, kernel in zip(specs, made) if kernel is not None})
    missing = [str(s) for s in specs if s not in TILELANG]
    return f"TileLang does not compile {', '.join(missing)}" if missing else ""


REGISTERS = "registers"
"""How the names of calls begin that give their result transposed."""


def usable(calls: dict[str, Callable[[], torch.Tensor]], expected: torch.Tensor, limit: float,
           problems: list[str]) -> dict[str, Call]:  # fmt: skip
    """The calls whose result is right; the others are said."""
    found: dict[str, Call] = {}
    for name, run in calls.items():
        try:
            made = run()
            check(name, made.t() if name.startswith(REGISTERS) else made, expected, limit)
            found[name] = run
        except Exception as error:
            torch.cuda.synchronize()  # where the device is lost, nothing else can be measured
            problems.append(f"{name}: {type(error).__name__}: {error}"[:200])
    return found
