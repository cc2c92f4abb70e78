"""CUPTI's metrics of each group of patterns, under short names.

In: the kind of device, of which CUPTI is asked without a device.  Out: names, and how many passes
they take: every launch runs so often.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.access_patterns.patterns import Group
from tileprof.profile.counters import TIME
from tileprof.profiler.counters.host import Host
from tileprof.profiler.counters.planning import open_found

CHIP = "GH100"
"""CUPTI's name of an H100 or H200."""
_SASS = "sm__sass_l1tex"
_WAVEFRONTS = f"{_SASS}_data_pipe_lsu_wavefronts_mem_shared_op"
_CONFLICTS = f"{_SASS}_data_bank_conflicts_pipe_lsu_mem_shared_op"
_L1_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op"
_L1 = "l1tex__t_{}_pipe_lsu_mem_{}"
_FROM_L2, _TO_L2 = "l1tex__m_xbar2l1tex_read", "l1tex__m_l1tex2xbar_write"

_COPIES = {
    "wavefronts": f"{_WAVEFRONTS}_ldgsts",
    "wavefronts, L1": f"{_WAVEFRONTS}_ldgsts_cache_access",
    "wavefronts, past L1": f"{_WAVEFRONTS}_ldgsts_cache_bypass",
    "conflicts": f"{_CONFLICTS}_ldgsts",
    "conflicts, L1": f"{_CONFLICTS}_ldgsts_cache_access",
    "conflicts, past L1": f"{_CONFLICTS}_ldgsts_cache_bypass",
    "sectors": f"{_SASS}_t_sectors_pipe_lsu_mem_global_op_ldgsts",
    "sectors, L1": f"{_SASS}_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access",
    "sectors, past L1": f"{_SASS}_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass",
    "sectors brought": f"{_SASS}_m_xbar2l1tex_read_sectors_mem_global_op_ldgsts_cache_bypass",
    "requests": f"{_SASS}_t_requests_pipe_lsu_mem_global_op_ldgsts",
    "tags": f"{_SASS}_tags_mem_global",
    "sectors of loads": _L1.format("sectors", "global_op_ld"),
    "requests of loads": _L1.format("requests", "global_op_ld"),
    "bank writes": "l1tex__data_bank_writes",
    "sectors from L2": f"{_FROM_L2}_sectors_mem_lg_op_ld",
    "instructions": "smsp__inst_executed_op_ldgsts",
    "instructions without lanes": "smsp__inst_executed_op_ldgsts_pred_off_all",
}
_SHARED = {
    "wavefronts of loads": f"{_WAVEFRONTS}_ld",
    "wavefronts of stores": f"{_WAVEFRONTS}_st",
    "conflicts of loads": f"{_L1_CONFLICTS}_ld",
    "conflicts of stores": f"{_L1_CONFLICTS}_st",
    "bank reads": "l1tex__data_bank_reads",
    "bank writes": "l1tex__data_bank_writes",
}
_MATRICES = {
    "wavefronts of ldmatrix": f"{_WAVEFRONTS}_ldsm",
    "wavefronts of stmatrix": f"{_WAVEFRONTS}_stsm",
    "conflicts of ldmatrix": f"{_CONFLICTS}_ldsm",
    "conflicts of stmatrix": f"{_CONFLICTS}_stsm",
    "wavefronts of loads": f"{_WAVEFRONTS}_ld",
    "wavefronts of stores": f"{_WAVEFRONTS}_st",
}
_SHARED_ATOMICS = {
    "wavefronts": f"{_WAVEFRONTS}_atom",
    "wavefronts, L1": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom",
    "conflicts": f"{_L1_CONFLICTS}_atom",
    "wavefronts of loads": f"{_WAVEFRONTS}_ld",
    "wavefronts of stores": f"{_WAVEFRONTS}_st",
    "conflicts of loads": f"{_L1_CONFLICTS}_ld",
    "conflicts of stores": f"{_L1_CONFLICTS}_st",
    "instructions": "smsp__inst_executed_op_shared_atom",
    "tries": "smsp__inst_executed_op_shared_atom_dot_cas",
}
_GLOBAL = {
    **{
        f"{what} of {name}": _L1.format(what, f"global_op_{op}")
        for what in ("sectors", "requests")
        for name, op in (("loads", "ld"), ("stores", "st"), ("reductions", "red"),
                         ("atomics", "atom"))
    },
    **{
        f"sectors of loads, {kind}": _L1.format("sectors", f"global_op_ld_lookup_{kind}")
        for kind in ("hit", "miss")
    },
    "wavefronts of loads": "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld",
    "sectors of instructions that reduce": f"{_SASS}_t_sectors_pipe_lsu_mem_global_op_red",
    "sectors of instructions with a result": f"{_SASS}_t_sectors_pipe_lsu_mem_global_op_atom",
    "sectors written by reductions": f"{_TO_L2}_sectors_mem_global_op_red",
    "sectors written by atomics": f"{_TO_L2}_sectors_mem_global_op_atom",
    "sectors from L2": f"{_FROM_L2}_sectors_mem_lg_op_ld",
    "bytes of reductions": "smsp__sass_data_bytes_mem_global_op_red",
    "bytes of atomics": "smsp__sass_data_bytes_mem_global_op_atom",
    "bytes of loads": "smsp__sass_data_bytes_mem_global_op_ld",
}  # fmt: skip
_LOCAL = {
    **{
        f"{what} of {name}": _L1.format(what, f"local_op_{op}")
        for what in ("sectors", "requests")
        for name, op in (("loads", "ld"), ("stores", "st"))
    },
    "sectors of loads, hit": _L1.format("sectors", "local_op_ld_lookup_hit"),
}
_BOXES = {
    f"{what} {name}": f"{path}_{what}_mem_global_op_tma_{op}"
    for what in ("bytes", "sectors")
    for name, path, op in (("read", _FROM_L2, "ld"), ("written", _TO_L2, "st"),
                           ("added", _TO_L2, "red"))
}  # fmt: skip


def _summed(metrics: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{metric}.sum" for name, metric in metrics.items()}


METRICS: dict[Group, Mapping[str, str]] = {
    "copies": _summed(_COPIES),
    "boxes": _summed(_BOXES),
    "shared atomics": _summed(_SHARED_ATOMICS),
    "matrices": _summed(_MATRICES),
    "shared": _summed(_SHARED),
    "global": _summed(_GLOBAL),
    "local": _summed(_LOCAL),
}
"""Metrics of launches by group and short name."""


def passes(group: Group) -> int:
    """Return in how many passes a device counts a group's metrics; CuptiFailure for an unknown
    metric, MissingDependencyError without CUPTI."""
    _, library = open_found()
    with Host(library, CHIP) as host:
        return host.passes(host.plan([TIME, *METRICS[group].values()]))
