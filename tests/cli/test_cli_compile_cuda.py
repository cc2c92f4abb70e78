"""`compile` for a GPU: what can be shown, controls, strict, timing; nothing here needs a GPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import pytest

from tests.cli.test_cli_run import KERNEL
from tests.cuda.ptxas_kernels import KERNELS
from tileprof import ir
from tileprof.compiler import FRONTEND, PASSES
from tileprof.compiler.cuda import nvrtc
from tileprof.compiler.cuda.build import Cubin, compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.resources import binary_remarks
from tileprof.compiler.cuda.source import CudaSource, LaunchSpec
from tileprof.compiler.cuda.target import Target
from tileprof.errors import KernelError, MissingDependencyError
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.common import OtherCandidate, OtherDecision, OtherReason

BOUND = ("--set", "M=16", "--set", "N=4")
GPU = ("compile", "prog.py:row_sums", *BOUND, "--target", "sm_90a")
CHOSEN = Remark(
    OtherDecision("loads"),
    "copy",
    "A",
    None,
    (Rejection(OtherCandidate("TMA"), OtherReason("rows are not 16 bytes apart")),),
    "missed",
)
COMMON = [FRONTEND, *(step.name for step in PASSES if step.name != "instrument")]


@dataclass
class Lowered:
    """Stands for a lowered kernel: two passes that rename it, and a text of the tests."""

    kernel: ir.Kernel
    source: CudaSource
    target: Target
    controls: Controls
    remarks: tuple[Remark, ...] = (CHOSEN,)
    stages: dict[str, int] = field(default_factory=lambda: {"choose": 5, "waits": 7, "emit": 9})

    @cached_property
    def cubin(self) -> Cubin:
        self.stages["nvrtc"] = 11_000_000
        return compile_cubin(self.source, self.target, self.controls)

    @cached_property
    def all_remarks(self) -> tuple[Remark, ...]:
        return (*self.remarks, *binary_remarks(self.cubin, self.source.launches, self.target))


@pytest.fixture(autouse=True)
def calls(write: Any, monkeypatch: pytest.MonkeyPatch) -> list[Controls]:
    """The controls of each lowering, which passes of a stand-in do."""
    write(prog=KERNEL)
    done: list[Controls] = []

    def compile_cuda(
        kernel: ir.Kernel,
        target: Target,
        controls: Controls,
        *,
        instrument: str,
        observe: Callable[[str, ir.Kernel], None] = lambda name, kernel: None,
    ) -> Lowered:
        done.append(controls)
        if instrument != "off":
            kernel = replace(kernel, name=f"{kernel.name}_{instrument}")
        for name in ("choose", "waits"):
            kernel = replace(kernel, name=f"{kernel.name}_{name}")
            observe(name, kernel)
        spec = LaunchSpec("f", (), (), (), threads=1024, shared=0)
        return Lowered(kernel, replace(KERNELS["spill"], launches=(spec,)), target, controls)

    module = ModuleType("pipeline")
    monkeypatch.setattr(module, "compile_cuda", compile_cuda, raising=False)
    monkeypatch.setitem(sys.modules, "tileprof.compiler.cuda.pipeline", module)
    return done


def test_ir_after_each_pass(cli: Any) -> None:
    """Common passes, those of the target, the last by default; what comes later does not run."""
    heads = {}
    for step in (*COMMON, "choose", "waits"):
        found = cli(*GPU, "--emit", f"ir:{step}")
        assert (found.code, found.err) == (0, "")
        heads[step] = found.out.split("(")[0].removeprefix("kernel @row_sums")
    assert heads == dict.fromkeys(COMMON, "") | {"choose": "_choose", "waits": "_choose_waits"}
    assert cli(*GPU).out == cli(*GPU, "--emit", "ir:waits").out
    found = cli(*GPU, "--emit", "ir:fold")
    assert (found.code, found.out) == (2, "")
    assert found.err == (
        f"tileprof: there is no pass `fold`\nPasses are: {', '.join(COMMON)}, choose, waits.\n"
    )


def test_a_kernel_that_a_later_pass_refuses(
    cli: Any, calls: list[Controls], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was before can be looked at; the rest is the compiler's message."""
    module = sys.modules["tileprof.compiler.cuda.pipeline"]
    real = module.compile_cuda

    def refuse(*arguments: Any, **named: Any) -> None:
        real(*arguments, **named)
        raise KernelError("too large")

    monkeypatch.setattr(module, "compile_cuda", refuse)
    assert cli(*GPU, "--emit", "ir:choose").code == 0
    assert cli(*GPU, "--emit", "cuda").err == "tileprof: too large\n"


def test_cuda_needs_no_nvrtc(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is what NVRTC would get."""
    monkeypatch.setattr(nvrtc, "_library", None)
    found = cli(*GPU, "--emit", "cuda")
    assert (found.code, found.out, found.err) == (0, KERNELS["spill"].text, "")


@pytest.mark.spread("sm_90a")
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_ptx_and_sass(cli: Any, target: str) -> None:
    """Of the target that was asked for."""
    pytest.importorskip("cuda.bindings.nvrtc")
    arguments = (*GPU[:-1], target)
    found = cli(*arguments, "--emit", "ptx")
    assert (found.code, found.err) == (0, "")
    assert f".target {target}" in found.out
    found = cli(*arguments, "--emit", "sass")
    assert (found.code, found.err) == (0, "")
    assert "EXIT" in found.out


def test_remarks(cli: Any) -> None:
    """Of the passes, of ptxas, and the occupancy."""
    pytest.importorskip("cuda.bindings.nvrtc")
    found = cli(*GPU, "--emit", "remarks")
    assert (found.code, found.err) == (0, "")
    lines = [line for line in found.out.splitlines() if not line.startswith("  ")]
    assert lines == [
        "copy A: loads",
        "/author/kernel.py:10: ptxas: 624 bytes of registers are spilled to local memory "
        "and 624 bytes read back by each thread",
        "/author/kernel.py:10: occupancy: 2 blocks of 1024 threads per SM, limited by threads and "
        "registers (32 a thread)",
    ]


def without_nvrtc() -> Any:
    """What is called where NVRTC is not there."""
    raise MissingDependencyError("NVRTC is missing", hint="Install it.")


def test_remarks_without_nvrtc(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the passes, and what is missing."""
    monkeypatch.setattr(nvrtc, "identity", without_nvrtc)
    found = cli(*GPU, "--emit", "remarks")
    assert (found.code, found.out) == (0, f"{CHOSEN}\n")
    assert found.err == (
        "tileprof: the assembler's messages are missing: NVRTC is missing\nInstall it.\n"
    )
    found = cli(*GPU, "--emit", "ptx")
    assert (found.code, found.err) == (2, "tileprof: NVRTC is missing\nInstall it.\n")


def test_strict(cli: Any) -> None:
    """What was missed fails the command: what passes say and what ptxas says."""
    pytest.importorskip("cuda.bindings.nvrtc")
    found = cli(*GPU, "--strict")
    assert (found.code, found.out) == (1, "")
    first, *lines = found.err.splitlines()
    assert first == (
        "tileprof: /author/kernel.py:10: 2 faster forms are missed, which `strict` does not allow"
    )
    assert lines[0] == "copy A: loads"
    assert "bytes of registers are spilled" in found.err


def test_timing(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stages in their order up to the cubin; without NVRTC up to the text."""
    pytest.importorskip("cuda.bindings.nvrtc")
    for nvrtc_there in (True, False):
        found = cli(*GPU, "--timing")
        rows = [re.fullmatch(r"(\S+) +(\d+\.\d\d) ms", line) for line in found.out.splitlines()]
        names = [row[1] if row else None for row in rows]
        last = ["nvrtc"] if nvrtc_there else []
        assert names == [*COMMON, "choose", "waits", "emit", *last, "total"]
        assert ("11.00 ms" in found.out) is nvrtc_there
        assert ("NVRTC's time is missing" in found.err) is not nvrtc_there
        monkeypatch.setattr(nvrtc, "version", without_nvrtc)


def test_controls(cli: Any, calls: list[Controls]) -> None:
    """Switches, numbers, none; the last of several wins."""
    given = ("tma=off", "stages=3", "stages=2", "persistent=none", "cluster=2", "wgmma=true")
    arguments = [part for each in given for part in ("--control", each)]
    assert cli(*GPU, *arguments).code == 0
    assert calls[-1] == Controls(tma=False, stages=2, persistent=None, cluster=2)
    assert cli(*GPU, "--control", "persistent=on").code == 0
    assert calls[-1] == Controls(persistent=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--target sm_90a --control tmaa=off",
            "there is no control `tmaa`\nDid you mean `tma`? Controls are: registers, stages, ",
        ),
        ("--target sm_90a --control tma=3", "`--control tma=3` gives no value\nIt is true or f"),
        (
            "--target sm_90a --control stages=0",
            "`--control stages=0` gives no value\nIt is a positive whole number or none.\n",
        ),
        ("--target sm_90a --control stages", "`--control stages` gives no value\n"),
        (
            "--target sm_90a --control persistent=2",
            "`--control persistent=2` gives no value\nIt is true or false or none.\n",
        ),
        ("--control tma=off", "`--control` is for a GPU\nAdd --target sm_90a or sm_80.\n"),
        ("--emit cuda", "`--emit cuda` is for a GPU\nAdd --target sm_90a or sm_80.\n"),
        ("--emit sass", "`--emit sass` is for a GPU\n"),
        (
            "--target sm_80 --emit cpp",
            "`--emit cpp` is for the cpu, not for sm_80\nUse --emit cuda.\n",
        ),
        (
            "--target sm_90",
            "there is no target `sm_90`\nDid you mean `sm_90a`? Targets are: cpu, sm_90a, sm_80.\n",
        ),
    ],
)
def test_wrong_use(cli: Any, arguments: str, message: str) -> None:
    """Nothing is printed, the sentence says what there is, exit code 2."""
    found = cli("compile", "prog.py:row_sums", *BOUND, *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {message}")


@pytest.mark.parametrize("mode", ["scopes", "stages", "ops", "sample"])
def test_what_is_measured_reaches_the_lowering(cli: Any, mode: str) -> None:
    """And leaves the passes before it alone: a GPU has marks of its own."""
    measured = cli(*GPU, "--instrument", mode)
    assert (measured.code, measured.err) == (0, "")
    assert measured.out == cli(*GPU).out.replace("@row_sums_", f"@row_sums_{mode}_")
    assert cli(*GPU, "--instrument", mode, "--emit", "ir:bounds").out == (
        cli(*GPU, "--emit", "ir:bounds").out
    )
