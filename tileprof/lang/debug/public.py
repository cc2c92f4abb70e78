"""Names of `tileprof.lang.debug`, loaded when one is first used."""

from .run import run_eager, run_prim_func

__all__ = ["run_eager", "run_prim_func"]
