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
    """Turn a kernel, or a Python function that calls kernels, into a PyTorch operator.

    Use it as a decorator. The operator works with autograd, `torch.compile` and fake tensors. A
    Python function needs PyTorch's annotations (`x: Tensor, epsilon: float = 1e-6) -> Tensor`).

    - `name`: `namespace::name`; by default the function's package and name.
    - `backward`: takes the gradient of each result, then by name arguments of the operator and
      results (with the names in the function's `return`). It returns a gradient for each argument
      in `gradients`. Without it, an argument that requires a gradient raises ArgumentError.
    - `gradients`: names of the arguments that `backward` returns gradients for; by default all
      tensors.
    - `keeps`: names of the last results, which are passed to `backward` and not returned.
    - `mutates`: names of the arguments that the function writes.
    - `fake`: returns the shapes of results, if they do not follow from the kernels' signatures.
    - `vmap`: a rule of `torch.library.register_vmap`: `(info, in_dims, *args)` to
      `(results, out_dims)`.
    """
    if find_spec("torch") is None:
        raise MissingDependencyError(
            "`tileprof.op` makes operators of PyTorch, which is not installed",
            hint='Install it: pip install "tileprof[torch]".',
        )
    from .calling import Rules
    from .operator import Operator

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
    """Turn a `@tileprof.jit` kernel into a function of JAX arrays, for `jit`, `grad` and `vmap`.

    Shapes and types of results follow from the kernel's signature. Numbers among the arguments are
    constants of the traced program.

    - `backward`, `gradients`, `keeps`: as for `tileprof.op`; `backward` is a kernel or a function
      of JAX arrays. Without it, differentiating the call raises ArgumentError.
    - `vmap`: "sequential" launches the kernel once per element of the batch; or a rule
      `(axis_size, in_batched, *arrays, **numbers)` to `(results, out_batched)` with batches in
      dimension 0, as for `jax.custom_batching.custom_vmap`.
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
            f"`{found}` is not the name of an operator",
            hint='Names are `namespace::name`: `@tileprof.op("shop::rms_norm")`.',
        )
    return found
