"""Counters of single memory instructions: one warp, one instruction, addresses that are known.

    python -m benchmarks.access_patterns -o FILE           counts all patterns on a GPU
    python -m benchmarks.access_patterns --dry-run         compiles, checks machine code, plans
    python -m benchmarks.access_patterns.fitting FILE      compares models with what was counted

In: `patterns` (addresses of lanes) and `bodies` (the instructions, as CUDA C++).  Out: for each
pattern the hardware counters of its launch.  The fitting then says which candidate rules of
`models` agree with the counters of every pattern.  Modules import those before them: `patterns`
with `copies`, `accesses` and `boxes`, `catalogue` (which patterns there are), `bodies`, `metrics`,
`compiling`, `launching`, `copy_models`, `models`, `fitting`, `__main__`.
"""
