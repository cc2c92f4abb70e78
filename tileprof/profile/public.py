"""Names of `tileprof.profile`, loaded when one is first used."""

from tileprof.profile.ctas import Cta, CtaFlights, CtaLaunch, CtaTimelines, CtaVisits, CtaWarp
from tileprof.profile.installed import is_installed
from tileprof.profile.instruction_counts import InstructionCounts
from tileprof.profile.jsonform import diff_to_json, to_json
from tileprof.profile.kernel_places import DEVICE_WORK, INSIDE, inside_kernels, whole_kernels
from tileprof.profile.launch_facts import (
    LaunchVariant,
    NumberArgument,
    Origin,
    TensorArgument,
    seen_at,
)
from tileprof.profile.literal.reader import from_literal
from tileprof.profile.literal.writer import to_hatchet, to_literal
from tileprof.profile.metrics import STANDARD, Adds, Column, Metric, checked_value
from tileprof.profile.series import CounterSeries, SeriesMetric
from tileprof.profile.sketch import Sketch
from tileprof.profile.sketch import split as split_sketches
from tileprof.profile.steps import SETUP, StepTimes, step_times
from tileprof.profile.storage.file import load, save
from tileprof.profile.tables import (
    Attribute,
    DeviceInfo,
    DevicePeak,
    KernelInfo,
    NativeModule,
    SiteInfo,
    Tables,
)
from tileprof.profile.timeline import Timeline, TimelineEvents, Track
from tileprof.profile.track_totals import TrackSums, TrackTotals
from tileprof.profile.transform.closures import optimizers_work
from tileprof.profile.transform.diff import Change, Diff, diff
from tileprof.profile.transform.frames import (
    Frames,
    is_module,
    labelled,
    users,
    with_frames,
    with_module_names,
    without_native_libraries,
)
from tileprof.profile.transform.gate import fail_if
from tileprof.profile.transform.groups import Group, grouped, merge_by, rank_of
from tileprof.profile.transform.module_lines import as_shown, with_whole_modules
from tileprof.profile.transform.regroup import HIDDEN, cut
from tileprof.profile.transform.xla import of_jax, runs_jax, trials_of_xla
from tileprof.profile.tree.builder import FOLDED_NAME, MAX_SIBLINGS, TreeBuilder
from tileprof.profile.tree.model import Node, Profile, build
from tileprof.profile.tree.symbol import KINDS, Symbol

from .pc_samples import PcBlame, PcFunction, PcInstruction, PcRecording, PcRows, PcSamples, PcText
from .transform.operations import (
    bottom_up,
    filter_nodes,
    flat,
    leave_out,
    limit_depth,
    merge,
    prune,
)

__all__ = [
    "DEVICE_WORK", "FOLDED_NAME", "HIDDEN", "INSIDE", "KINDS", "MAX_SIBLINGS", "SETUP", "STANDARD",
    "Adds", "Attribute", "Change", "Column", "CounterSeries", "Cta", "CtaFlights", "CtaLaunch",
    "CtaTimelines", "CtaVisits", "CtaWarp", "DeviceInfo", "DevicePeak", "Diff", "Frames", "Group",
    "InstructionCounts", "KernelInfo", "LaunchVariant", "Metric", "NativeModule", "Node",
    "NumberArgument", "Origin", "PcBlame", "PcFunction", "PcInstruction", "PcRecording", "PcRows",
    "PcSamples", "PcText", "Profile", "SeriesMetric", "SiteInfo", "Sketch", "StepTimes", "Symbol",
    "Tables", "TensorArgument", "Timeline", "TimelineEvents", "Track", "TrackSums", "TrackTotals",
    "TreeBuilder",
    "as_shown", "bottom_up", "build", "checked_value", "cut", "diff", "diff_to_json", "fail_if",
    "filter_nodes", "flat", "from_literal", "grouped", "inside_kernels", "is_installed",
    "is_module", "labelled", "leave_out", "limit_depth", "load", "merge", "merge_by", "of_jax",
    "optimizers_work", "prune",
    "rank_of", "runs_jax", "save", "seen_at", "split_sketches", "step_times", "to_hatchet",
    "to_json", "to_literal", "trials_of_xla", "users", "whole_kernels", "with_frames",
    "with_module_names", "with_whole_modules", "without_native_libraries",
]  # fmt: skip
