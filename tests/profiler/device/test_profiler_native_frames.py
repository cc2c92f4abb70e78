"""Profiles with native frames: recorded on a played CUPTI, written, read and shown."""

from __future__ import annotations

import ctypes as C
from pathlib import Path
from typing import Any

import pytest

import tileprof
from tests.native.cupti_programs import compile_cpp
from tests.profiler_programs import as_ours, run
from tileprof.profile import Profile, load, save
from tileprof.viewer import ViewOptions, render_view

recorder = pytest.importorskip("tileprof.native._recorder")

CHAIN = Path(__file__).parents[2] / "native" / "stacks" / "chain.cpp"
RUN = ["chain_run", "chain::sized", "chain::aligned", "chain::Box<int>::middle",
       "chain::inlined", "chain::innermost"]  # fmt: skip
PROGRAM = """
    def step():
        kernel("gemm", 1000, 1600, chain("run"))
    def on_a_thread():
        kernel("gemm", 2000, 2600, chain("thread"))
    with scope("forward"):
        op("aten::mm", step)
    on_a_thread()
    deliver()
"""


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the chains of calls, optimised and with debugging information."""
    built = tmp_path_factory.mktemp("chains") / "libchain.so"
    compile_cpp([CHAIN], built, "-O2", "-g", "-fPIC", "-shared")
    return built


def record(names: dict[str, Any], library: Path, played: Path, context: str = "native") -> Profile:
    """Run the program, whose launches are made by the library."""
    chained, driver = C.CDLL(str(library)), C.CDLL(str(played))
    launch = C.cast(driver.fake_call, C.c_void_p)

    @as_ours
    def chain(which: str) -> int:
        getattr(chained, f"chain_{which}")(launch)
        return int(chained.chain_launched())

    return run(PROGRAM, native=True, names={**names, "chain": chain}, context=context)


def above(profile: Profile, node: int) -> list[int]:
    """Return the nodes that lead to a node, outermost first."""
    found = []
    while (node := int(profile.parents[node])) >= 0:
        found.append(node)
    return found[::-1]


def test_native_frames_lead_from_python_to_the_launch(
    names: dict[str, Any], library: Path, chains: Path, tmp_path: Path
) -> None:
    """With lines and inlined functions, also in a file; without the option the tree has none."""
    profile = record(names, chains, library)
    save(profile, tmp_path / "out.tprof")
    profile = load(tmp_path / "out.tprof")
    in_operation, on_thread = profile.find("gemm")
    for kernel in (in_operation, on_thread):
        nodes = above(profile, kernel)
        own = [each for each in nodes if (profile.locations[each] or 0) and "chain" in
               profile.locations[each].file]  # type: ignore[union-attr] # fmt: skip
        assert [profile.names[each] for each in own][-len(RUN) :] == RUN
        assert {profile.kinds[each] for each in own} == {"frame"}
        assert profile.kinds[nodes[-1]] == "api"
    found = [profile.names[each] for each in above(profile, in_operation)]
    assert found.index("step") < found.index("chain_run")
    (module,) = [each for each in profile.tables.native_modules if each.path == str(chains)]
    assert len(module.build_id) in (0, 40)
    assert CHAIN.read_text() in profile.tables.sources.values()
    assert profile.total("time")[profile.find("chain_run")[0]] == 600

    plain = record(names, chains, library, context="full")
    assert not plain.find("chain_run")
    assert not plain.tables.native_modules


def test_views_show_native_frames_as_they_show_pythons(
    names: dict[str, Any], library: Path, chains: Path
) -> None:
    """The user's own with their lines, those of libraries where they are asked for."""
    profile = record(names, chains, library)
    shown = {
        frames: render_view(profile, ViewOptions(threshold=0, frames=frames), width=400)
        for frames in ("user", "library", "all")
    }
    line = 1 + CHAIN.read_text().splitlines().index("  launched = launch(307);  // launch")
    for text in shown.values():
        assert f"chain::innermost chain.cpp:{line}" in " ".join(text.split())
    assert "ffi_call" not in shown["user"]
    assert "_ctypes" not in shown["user"]
    assert shown["all"].count("_ctypes") > shown["library"].count("_ctypes")


def test_each_session_has_the_frames_that_it_asked_for(
    names: dict[str, Any], library: Path, chains: Path
) -> None:
    """Beside one with native frames, another session has its kernels without them."""
    chained = C.CDLL(str(chains))
    launch = C.cast(C.CDLL(str(library)).fake_call, C.c_void_p)
    plain, native = tileprof.start(context="full"), tileprof.start(context="native")
    chained.chain_run(launch)
    names["kernel"]("gemm", 1000, 1600, int(chained.chain_launched()))
    names["deliver"]()
    profiles = [session.finalize() for session in (plain, native)]
    for profile in profiles:
        (kernel,) = profile.find("gemm")
        assert profile.node(kernel).own("time") == 600
    assert [len(profile.find("chain_run")) for profile in profiles] == [0, 1]
    assert [bool(profile.tables.native_modules) for profile in profiles] == [False, True]
