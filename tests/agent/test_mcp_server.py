"""The server as a client sees it, through the SDK's client in the same process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.made import DATA
from tileprof import cli
from tileprof.agent import MOST_TOKENS, Tools, build_server, tokens

mcp: Any = pytest.importorskip("mcp")
anyio: Any = pytest.importorskip("anyio")
STALLS = "h200-stalls.tprof"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a stored profile of an H200."""
    shutil.copy(DATA / STALLS, tmp_path)
    return tmp_path


def asked(folder: Path, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Call tools one after the other and return the results."""

    async def run() -> list[Any]:
        async with mcp.Client(build_server(Tools(folder))) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    found: list[Any] = anyio.run(run)
    return found


def test_tools_are_listed_with_typed_inputs(folder: Path) -> None:
    """Eight tools; choices are enumerated; recording, tuning and trying may change something."""

    async def run() -> Any:
        async with mcp.Client(build_server(Tools(folder))) as client:
            return (await client.list_tools()).tools

    held = {each.name: each for each in anyio.run(run)}
    may_change = ["record", "tune", "try"]
    assert [*held] == [*may_change, "report", "view", "diff", "explain_line", "remarks"]
    shape = held["view"].input_schema["properties"]["shape"]
    assert shape["enum"] == ["top-down", "bottom-up", "flat", "lines", "sass"]
    assert held["view"].input_schema["required"] == ["file"]
    assert [n for n, each in held.items() if not each.annotations.read_only_hint] == may_change
    described = json.dumps([each.model_dump(mode="json") for each in held.values()])
    assert tokens(described) < 3 * MOST_TOKENS
    assert all(each.output_schema is None for each in held.values())


def test_answers_are_text_within_the_limit(folder: Path) -> None:
    """One text a call, once, with the same words as the tools give."""
    report, sass = asked(
        folder, ("report", {"file": STALLS}), ("view", {"file": STALLS, "shape": "sass"})
    )
    assert not report.is_error
    assert [each.type for each in report.content] == ["text"]
    assert report.content[0].text == Tools(folder).report(STALLS)
    assert report.structured_content is None
    assert tokens(sass.content[0].text) <= MOST_TOKENS
    assert "(page 1 of " in sass.content[0].text


def test_argument_that_a_tool_does_not_have_is_an_error(folder: Path) -> None:
    """It is not ignored: the answer would be another one than what was asked for."""
    unknown, both = asked(
        folder, ("view", {"file": STALLS, "mode": "lines"}), ("view", {"profile": STALLS})
    )
    assert unknown.is_error
    named = "Its arguments are: file, shape, "
    assert unknown.content[0].text.startswith(f"`view` has no argument `mode`\n{named}")
    assert both.content[0].text.startswith(
        f"`view` has no argument `profile`, needs the argument `file`\n{named}"
    )


def test_errors_are_sentences_for_the_agent(folder: Path) -> None:
    """A wrong file, a wrong choice and a missing argument are answers, not crashes."""
    outside, choice, missing = asked(
        folder,
        ("view", {"file": "../x.tprof"}),
        ("view", {"file": STALLS, "shape": "pie"}),
        ("explain_line", {"file": STALLS}),
    )
    assert all(each.is_error for each in (outside, choice, missing))
    assert "Use a path inside of it, or start the server with `--root DIR`." in (
        outside.content[0].text
    )
    assert "`shape`: Input should be 'top-down'" in choice.content[0].text
    assert "https://" not in choice.content[0].text
    assert "line" in missing.content[0].text


def test_command_serves_over_its_input_and_output(folder: Path) -> None:
    """A process of its own answers a client, and ends when its input does."""
    command = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "tileprof", "mcp", "--root", str(folder)],
        env={"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])},
    )

    async def run() -> str:
        # Its default is the stream of the process that has collected the tests, which is closed.
        async with mcp.Client(mcp.stdio_client(command, errlog=sys.__stderr__)) as client:
            answer = await client.call_tool("remarks", {"file": STALLS})
            return str(answer.content[0].text)

    assert anyio.run(run) == Tools(folder).remarks(STALLS)


def test_root_has_to_be_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """The command refuses it before it serves."""
    assert cli.main(["mcp", "--root", "/nowhere"]) == 2
    assert "--root: /nowhere is not a folder" in capsys.readouterr().err


def test_without_the_sdk_the_extra_is_named(tmp_path: Path) -> None:
    """One sentence and the command that installs it."""
    program = (
        "import sys; sys.modules['mcp'] = None\n"
        "from tileprof.cli import main; sys.exit(main(['mcp']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == (
        'tileprof: mcp is not installed\nInstall it: pip install "tileprof[mcp]"\n'
    )
