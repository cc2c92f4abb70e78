"""Tables of a profile beside its tree: kernels and their remarks, sources, provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tileprof.errors import Location
from tileprof.kernel_ir import TileKernel
from tileprof.profile.ctas import CtaTimelines
from tileprof.profile.launch_facts import LaunchVariant
from tileprof.profile.pc_samples import PcSamples
from tileprof.profile.series import CounterSeries
from tileprof.profile.timeline import Timeline
from tileprof.profile.track_totals import TrackTotals
from tileprof.profile.tree.node_sketches import NodeSketches
from tileprof.remarks import Remark

Attribute: TypeAlias = str | int | float


@dataclass(frozen=True, slots=True)
class SiteInfo:
    """One measured place inside a kernel."""

    id: int
    name: str
    kind: Literal["scope", "stage", "op"]
    location: Location | None = None
    parent: int | None = None
    """`id` of the site around this one."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel as it was compiled: its program, its source, its code, what the compiler said."""

    name: str
    device: str
    ir: str = field(default="", repr=False)
    """Its program as text, for people; `program` is the same for programs."""
    source: str = field(default="", repr=False)
    source_file: str = ""
    source_line: int = 0
    code: str = field(default="", repr=False)
    code_language: str = "python"
    """`cpp`, `cuda` or `python`."""
    remarks: tuple[Remark, ...] = field(default=(), repr=False)
    sites: tuple[SiteInfo, ...] = field(default=(), repr=False)
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    program: TileKernel | None = field(default=None, repr=False, compare=False)
    """The program of `ir` as records, which analyses read; None where it is no tile kernel."""


@dataclass(frozen=True, slots=True)
class NativeModule:
    """A program or library whose functions are in the tree."""

    path: str
    """A name in brackets where there is no file."""
    build_id: str
    """The linker's identification of the file, in hexadecimal; '' without one."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A GPU that kernels ran on, as its driver describes it; a number that is not known is 0."""

    device: str
    """Name in the spelling of kernels: `cuda:0`."""
    name: str
    """Name of the product: `NVIDIA H200`."""
    major: int = 0
    """Compute capability; `minor` is the digit after the point."""
    minor: int = 0
    multiprocessors: int = 0
    memory: int = 0
    """Bytes of device memory."""
    clock_mhz: float = 0.0
    """Highest clock of a multiprocessor, in MHz."""
    memory_clock_mhz: float = 0.0
    """Highest clock of the memory, in MHz."""
    driver: str = ""
    """Version of CUDA that the driver has: `13.0`."""


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """Measured peak rate or shortest latency of a device in one respect."""

    device: str
    """Name in the spelling of kernels: `cuda:0`."""
    uuid: str
    measured: str
    """Time of the measurement, ISO 8601."""
    name: str
    """`hbm_copy`, `tensor_bfloat16`, …"""
    value: float
    """Sustained value, in `unit`."""
    unit: str
    """`bytes/s`, `flop/s`, `op/s` or `ns`."""
    best: float
    """Value of the best repetition, in `unit`."""
    spread: float
    """Distance between the quartiles of the repetitions, as a share of `value`."""
    clock_mhz: float
    """Clock of a multiprocessor meanwhile, in MHz; 0 where it has no influence."""
    formula: str


@dataclass(frozen=True, slots=True, repr=False)
class Tables:
    """Everything of a profile that is not the tree."""

    kernels: tuple[KernelInfo, ...] = ()
    node_kernels: Mapping[int, int] = field(default_factory=dict)
    """Node id to the index of its kernel in `kernels`."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """File name to its text."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Origin of the profile under free keys: `command`, `device`, `git`, `start`, …"""
    sketches: NodeSketches = field(default_factory=dict)
    """Distributions of the values that make up a node's own number."""
    absorbed_sketches: NodeSketches = field(default_factory=dict)
    """Distributions of the values that an operation folded into the node."""
    timeline: Timeline = field(default_factory=Timeline)
    """Single events, where they were asked for. Profiles that are added up have none."""
    track_totals: TrackTotals = field(default_factory=TrackTotals)
    """Parts of nodes by thread and stream; without tracks in files of earlier versions."""
    ctas: CtaTimelines = field(default_factory=CtaTimelines)
    """Timelines of single CTAs inside kernels that were measured."""
    pc: PcSamples = field(default_factory=PcSamples)
    """Samples and counts by instruction, where they were asked for."""
    devices: tuple[DeviceInfo, ...] = ()
    """GPUs that kernels ran on, as far as their drivers described them."""
    device_peaks: tuple[DevicePeak, ...] = ()
    """Measured peaks of the devices that kernels ran on."""
    native_modules: tuple[NativeModule, ...] = ()
    """Programs and libraries whose functions are in the tree, in the order of their paths."""
    series: tuple[CounterSeries, ...] = ()
    """Hardware counters over time, where they were asked for: one for each device and run."""
    launches: tuple[LaunchVariant, ...] = ()
    """Arguments of launches, where a framework tells them; files of earlier versions have none."""

    def __repr__(self) -> str:
        held = {
            name: getattr(self, name) for name in ("kernels", "sources", "device_peaks", "series")
        }
        counts = ", ".join(f"{len(each)} {name}" for name, each in held.items())
        return f"Tables({counts}, {len(self.pc.functions)} sampled functions)"
