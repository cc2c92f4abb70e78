"""The passes of the CUDA lowering; `tileprof/compiler/cuda/pipeline.py` has their order."""
