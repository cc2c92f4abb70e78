"""Operators of PyTorch made of kernels, `@tileprof.op`, and functions of JAX, `tileprof.jax_call`.

In: a `@tileprof.jit` function, or a Python function that calls such kernels.  Out: an operator of
`torch.library` with shapes for tensors without data, gradients by a second function, and a call
that goes straight to the kernel where nothing but autograd listens.  PyTorch is imported when the
first operator is defined; the folder `xla` imports JAX, and PyTorch's modules do not need it.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
