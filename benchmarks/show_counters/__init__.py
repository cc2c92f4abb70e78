"""Numbers of pages of `tileprof show` beside hardware counters; `__main__` says how it is run.

In: kernels of this repository and of TileLang's examples.  Out: each number of their pages beside
the counter of the same launch, or a code that says why the two cannot be compared.  Modules import
those before them: `kernels` with `held_out`, `frozen…` and `fresh…` (what is run), `quantities`,
`pages` (what is shown), `planning` (metrics of the device), `recording` (what is counted),
`comparing`, `freezing` (pages that are written down before a run), `machine_code` (what can be
checked without a GPU), `__main__`.
"""
