"""Kernels as the runtime describes them, turned into what a profile keeps.

The runtime may not import the profile, so each has its own plain record of the same fields.
"""

from __future__ import annotations

from tileprof.profile import KernelInfo, SiteInfo
from tileprof.runtime.hooks import KernelDescription


def converted(described: KernelDescription) -> KernelInfo:
    """Return what the runtime says about a kernel as the profile keeps it."""
    return KernelInfo(
        name=described.name,
        device=described.device,
        ir=described.ir,
        source=described.source,
        source_file=described.source_file,
        source_line=described.source_line,
        code=described.code,
        code_language=described.code_language,
        remarks=described.remarks,
        sites=tuple(SiteInfo(s.id, s.name, s.kind, s.location, s.parent) for s in described.sites),
        attributes=dict(described.attributes),
        program=described.program,
    )
