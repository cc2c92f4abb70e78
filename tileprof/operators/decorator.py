"""`tileprof.op` and `tileprof.jax_call`, and the names of operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from tileprof.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    from .operator import Operator
    from .xla.function import JaxFunction

P = ParamSpec("P")
R = TypeVar("R")


@overload
def op(function: Callable[P, R], /) -> Operator[P, R]: ...


@overload
def op(
    name: str | None = None,
    /,
    *,
    backward: Callable[..., Any] | None = None,
    gradients: Sequence[str] | None = None,
    keeps: Sequence[str] = (),
    mutates: Sequence[str] = (),
    fake: Callable[..., Any] | None = None,
    vmap: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Operator[P, R]]: ...


def op(
    name: Any = None,
    /,
    *,
    backward: Callable[..., Any] | None = None,
    gradients: Sequence[str] | None = None,
    keeps: Sequence[str] = (),
    mutates: Sequence[str] = (),
    fake: Callable[..., Any] | None = None,
    vmap: Callable[..., Any] | None = None,
) -> Any:
    """Make a kernel, or a Python function that calls kernels, an operator of PyTorch.

    `name` is `namespace::name`; without it, the function's package and name.  A Python function
    has annotations (`x: Tensor, epsilon: float = 1e-6) -> Tensor`); those of a `@tileprof.jit`
    function are its own.

    `backward` takes the gradient of each result, then values by name: arguments of the operator,
    and results, whose names are those in the function's `return`.  It returns a gradient for each
    argument named in `gradients`, by default for all tensors.  Without it, an argument that
    requires a gradient raises ArgumentError.

    `keeps` names the last results that go to `backward` and not to the caller.
    `mutates` names the arguments that the function writes.
    `fake` gives the results' shapes, where they do not follow from the kernels' own signatures.
    `vmap` is a rule of `torch.library.register_vmap`: `(info, in_dims, *args)` to
    `(results, out_dims)`.
    """
    if find_spec("torch") is None:
        raise MissingDependencyError(
            "`tileprof.op` makes operators of PyTorch, which is not installed",
            hint='Install it: pip install "tileprof[torch]".',
        )
    from .operator import Operator, Rules

    rules = Rules(
        backward,
        None if gradients is None else tuple(gradients),
        tuple(keeps),
        tuple(mutates),
        fake,
        vmap,
    )
    if callable(name):
        return Operator(name, qualified(None, name), rules)
    return lambda function: Operator(function, qualified(name, function), rules)


def jax_call(
    kernel: Callable[P, R],
    /,
    *,
    backward: Callable[..., Any] | None = None,
    gradients: Sequence[str] | None = None,
    keeps: Sequence[str] = (),
    vmap: Callable[..., Any] | Literal["sequential"] | None = None,
) -> JaxFunction[P, R]:
    """Make a `@tileprof.jit` kernel a function of JAX arrays, for `jit`, `grad` and `vmap`.

    Shapes and types of results follow from the kernel's signature.  Numbers among the arguments are
    constants of the traced program.

    `backward`, `gradients` and `keeps` are those of `tileprof.op`; `backward` is a kernel or a
    function of JAX arrays.  Without it, to differentiate the call raises ArgumentError.
    `vmap` is "sequential", for a launch for each element of the batch, or a rule
    `(axis_size, in_batched, *arrays, **numbers)` to `(results, out_batched)`, whose batches lie in
    dimension 0, as `jax.custom_batching.custom_vmap` has it.
    """
    if find_spec("jax") is None:
        raise MissingDependencyError(
            "`tileprof.jax_call` makes functions of JAX, which is not installed",
            hint='Install it: pip install "tileprof[jax]".',
        )
    from .xla.function import JaxFunction, Rules

    wanted = None if gradients is None else tuple(gradients)
    return JaxFunction(kernel, Rules(backward, wanted, tuple(keeps), vmap))


def qualified(name: str | None, function: Any) -> str:
    """Return an operator's full name: the one that is given, or that of the function in its
    package."""
    if name is not None and "::" in name:
        found = name
    else:
        package = str(function.__module__).partition(".")[0].strip("_")
        found = f"{package}::{name or function.__name__}"
    if not re.fullmatch(r"[A-Za-z]\w*::[A-Za-z_]\w*", found):
        raise UsageError(
            f"`{found}` is no name of an operator",
            hint='Names are `namespace::name`: `@tileprof.op("shop::rms_norm")`.',
        )
    return found
