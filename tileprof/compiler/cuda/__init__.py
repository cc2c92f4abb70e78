"""`ir.Kernel` to CUDA C++, and CUDA C++ to a cubin, for NVIDIA GPUs.

In: a kernel after the common passes, a `Target`, `Controls`.  Out: a `CudaSource` (text and what a
launch needs), a cubin, and remarks that say for every op what was chosen and why each faster
candidate was not.  Nothing here needs a GPU.

`passes/` rewrite the kernel step by step (`pipeline.py` lists them with the reason for each
position); `layouts/` says where each element of a tile lives; `emit/` prints CUDA C++ in which
every PTX instruction is a `tp_…` function of `prelude/`; `build.py` calls NVRTC and keeps the
cache; `ptxas.py` reads what the assembler says.
"""
