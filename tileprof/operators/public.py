"""Names of `tileprof.operators`, loaded when one is first used."""

from tileprof.operators.decorator import jax_call, op

__all__ = ["jax_call", "op"]
