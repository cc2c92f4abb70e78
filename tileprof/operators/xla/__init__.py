"""Kernels as functions of JAX: `tileprof.jax_call`, through XLA's foreign function interface.

In: a `@tileprof.jit` function.  Out: a function of JAX arrays; its call is an op of XLA's program.
`abi` states the structures that XLA passes, `handler` answers its calls and launches kernels, and
`function` is what JAX traces.  JAX is imported when the first function is made.
"""
