"""Numbers of a page of `tileprof show`, each with the metrics that count the same.

In: CUPTI's names.  Out: `QUANTITIES` of a launch and `LINE_QUANTITIES` of a source line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tileprof import ir
from tileprof.drawing.moved import Traffic, Way
from tileprof.drawing.watch import LaunchRun
from tileprof.runtime.events.access import AccessKind


@dataclass(frozen=True)
class Quantity:
    """A number of the page, and CUPTI's metrics whose sum counts the same."""

    name: str
    shown: Callable[[LaunchRun, Traffic], int]
    metrics: tuple[tuple[str, ...], ...]
    """Alternatives in order of preference; each is a sum of metrics."""
    disturbed_by: tuple[str, ...] = ()
    """Kinds of `Traffic.uncounted` that count there too."""
    whole: bool = False
    """Whether it is the bytes of the run's points, which threads may hold and not load again."""


def _moved(
    space: ir.Space, access: AccessKind, field: str, *ways: Way
) -> Callable[[LaunchRun, Traffic], int]:
    def read(launch: LaunchRun, traffic: Traffic) -> int:
        sums = (traffic.total(space, access, way) for way in ways)
        return sum(int(getattr(each, field)) for each in sums)

    return read


_THREADS: tuple[Way, ...] = ("threads", "ldmatrix", "stmatrix")


def _conflicts(access: AccessKind) -> Callable[[LaunchRun, Traffic], int]:
    def read(launch: LaunchRun, traffic: Traffic) -> int:
        ways = (traffic.total("shared", access, way) for way in _THREADS)
        return sum(each.taken - each.needed - each.parted for each in ways)

    return read


def _atomic_bytes(launch: LaunchRun) -> int:
    return sum(each.bytes for each in launch.sites
               if each.site.access == "atomic" and each.site.space == "global")  # fmt: skip


def _sectors_of_loads(launch: LaunchRun, traffic: Traffic) -> int:
    """Return what the L1 counts, with cp.async among the loads."""
    found = (traffic.total("global", "read", way) for way in ("threads", "cp.async"))
    return sum(each.taken - each.joined for each in found)


_ASKED = "smsp__sass_data_bytes_mem_global_op"
_TAGS = "l1tex__t_{}_pipe_lsu_mem_global_op"
_ATOMICS = "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_{}"
_SASS = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op"
"""Of `op_ld` and `op_st` without matrices (`op_ldsm`, `op_stsm`) and wgmma (`op_gmma`), which
`l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld` and `_st` have in them, too."""
_LDGSTS = "sm__sass_l1tex_t_{}_pipe_lsu_mem_global_op_ldgsts"
_TMA_LOAD = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld"
_TMA_STORE = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st"
_TMA_ADD = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_red"
_READ = (
    (f"{_ASKED}_ld", f"{_ASKED}_ldgsts", _TMA_LOAD),
    ("sm__sass_data_bytes_mem_global_op_ld", "sm__sass_data_bytes_mem_global_op_ldgsts", _TMA_LOAD),
)
_WRITE = (
    (f"{_ASKED}_st", _TMA_STORE),
    ("sm__sass_data_bytes_mem_global_op_st", _TMA_STORE),
)
_EXCHANGES = ("exchange of threads", "copied matrices", "other")

QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        "bytes read", lambda launch, _: int(launch.read.sum()) - _atomic_bytes(launch),
        _READ, whole=True,
    ),
    Quantity(
        "bytes written", lambda launch, _: int(launch.written.sum()) - _atomic_bytes(launch),
        _WRITE, whole=True,
    ),
    Quantity(
        "bytes asked for by reads", _moved("global", "read", "bytes", "threads", "cp.async", "TMA"),
        _READ,
    ),
    Quantity(
        "bytes asked for by writes", _moved("global", "write", "bytes", "threads", "TMA"), _WRITE
    ),
    Quantity(
        "bytes of atomics", _moved("global", "atomic", "bytes", "threads", "TMA"),
        ((f"{_ASKED}_red", f"{_ASKED}_atom", _TMA_ADD),),
    ),
    Quantity(
        "sectors of loads", _sectors_of_loads,
        ((_TAGS.format("sectors") + "_ld",),),
    ),
    Quantity(
        "requests of loads", _moved("global", "read", "requests", "threads", "cp.async"),
        ((_TAGS.format("requests") + "_ld",),),
    ),
    Quantity(
        "sectors of stores", _moved("global", "write", "taken", "threads"),
        ((_TAGS.format("sectors") + "_st",),),
    ),
    Quantity(
        "requests of stores", _moved("global", "write", "requests", "threads"),
        ((_TAGS.format("requests") + "_st",), ("smsp__sass_inst_executed_op_global_st",)),
    ),
    Quantity(
        "sectors of cp.async", _moved("global", "read", "taken", "cp.async"),
        ((_LDGSTS.format("sectors"),),
         ("sm__sass_l1tex_m_xbar2l1tex_read_sectors_mem_global_op_ldgsts_cache_bypass",)),
    ),
    Quantity(
        "requests of cp.async", _moved("global", "read", "requests", "cp.async"),
        ((_LDGSTS.format("requests"),), ("smsp__inst_executed_op_ldgsts",)),
    ),
    Quantity(
        "sectors of atomics", _moved("global", "atomic", "taken", "threads"),
        ((_ATOMICS.format("red"), _ATOMICS.format("atom")),
         (_TAGS.format("sectors") + "_red", _TAGS.format("sectors") + "_atom")),
    ),
    Quantity("bytes read by TMA", _moved("global", "read", "bytes", "TMA"), ((_TMA_LOAD,),)),
    Quantity("bytes written by TMA", _moved("global", "write", "bytes", "TMA"), ((_TMA_STORE,),)),
    Quantity(
        "wavefronts of shared loads", _moved("shared", "read", "taken", "threads"),
        ((f"{_SASS}_ld",),), ("products in threads", *_EXCHANGES),
    ),
    Quantity(
        "wavefronts of ldmatrix", _moved("shared", "read", "taken", "ldmatrix"),
        ((f"{_SASS}_ldsm",),), ("copied matrices",),
    ),
    Quantity(
        "wavefronts of shared stores", _moved("shared", "write", "taken", "threads"),
        ((f"{_SASS}_st",),), _EXCHANGES,
    ),
    Quantity(
        "wavefronts of stmatrix", _moved("shared", "write", "taken", "stmatrix"),
        ((f"{_SASS}_stsm",),), ("copied matrices",),
    ),
    Quantity(
        "wavefronts of cp.async", _moved("shared", "write", "taken", "cp.async"),
        ((f"{_SASS}_ldgsts",),), ("split copies",),
    ),
    Quantity(
        "conflicts of shared loads", _conflicts("read"),
        (("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld",),),
        ("products in threads", "matrix operands", *_EXCHANGES),
    ),
    Quantity(
        "conflicts of shared stores", _conflicts("write"),
        (("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st",),),
        ("matrix operands", *_EXCHANGES),
    ),
)  # fmt: skip

EXECUTED = "smsp__sass_inst_executed_op"
LINE_QUANTITIES = {
    "global_sectors": ("smsp__sass_sectors_mem_global",),
    "global_requests": (f"{EXECUTED}_global", f"{EXECUTED}_ldgsts"),
    "shared_wavefronts": ("smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared",),
    "shared_wavefronts_ideal": ("smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared_ideal",),
}
"""Numbers of a line of the page, each with the counts of instructions that add up to it."""
OTHERS = tuple(f"{EXECUTED}_{each}" for each in ("shared_gmma",))
"""Instructions whose wavefronts count at a line, too.  ptxas often gives a wgmma the line of a
neighbour, so that the lines of the program do not say where they are."""
LINE_METRICS = (*(each for found in LINE_QUANTITIES.values() for each in found), *OTHERS)
