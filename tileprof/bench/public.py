"""Names of `tileprof.bench`, loaded when one is first used."""

from tileprof.bench.doubts import Doubt
from tileprof.bench.gpu_state import GpuState, read_gpu, read_gpus
from tileprof.bench.intervals import Interval, median_interval
from tileprof.bench.json_form import SCHEMA
from tileprof.bench.measuring import Plan, Result, Side, Timed, measure
from tileprof.bench.rounds import batch_sizes, in_turns
from tileprof.bench.timers import Batch, CudaTimer, HostTimer, Timer, replayed, torch_timer

__all__ = [
    "SCHEMA", "Batch", "CudaTimer", "Doubt", "GpuState", "HostTimer", "Interval", "Plan", "Result",
    "Side", "Timed", "Timer", "batch_sizes", "in_turns", "measure", "median_interval", "read_gpu",
    "read_gpus", "replayed", "torch_timer",
]  # fmt: skip
