"""`docs/profile-format.md` is true: its tables are the file's, its questions have answers."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.profile_samples import full_profile
from tileprof.profile import save
from tileprof.profile.storage.schema import APPLICATION_ID, VERSION

PAGE = (Path(__file__).parents[2] / "docs" / "profile-format.md").read_text()
QUESTIONS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with something in every table."""
    save(full_profile(), tmp_path / "step.tprof")
    return tmp_path / "step.tprof"


def test_every_table_and_column_is_documented(path: Path) -> None:
    """The page lists all tables and views with all their columns, and no others."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", PAGE, re.MULTILINE)
    views = re.findall(r"`(tree|measurements|places)` \(([^)]+)\)", PAGE)
    documented = {name: re.findall(r"`(\w+)`", columns) for name, columns in [*rows, *views]}
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT name FROM sqlite_master WHERE type != 'index'").fetchall()
        names = {name for (name,) in found}
        assert documented.keys() == names
        for name in names:
            columns = [row[0] for row in database.execute(f"SELECT * FROM {name}").description]
            assert [c for c in documented[name] if c in columns] == columns


def test_header_is_documented(path: Path) -> None:
    """Application id and version are those of the page."""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    assert f"`{APPLICATION_ID:#x}`" in PAGE
    assert f"version of this schema: **{VERSION}**" in PAGE


(_GEMM, _) = full_profile().tables.kernels[0].remarks
TURNED_DOWN = [
    (str(_GEMM.decision), str(each.candidate), str(each.reason)) for each in _GEMM.rejected
]


@pytest.mark.parametrize(
    ("question", "answer"),
    list(
        zip(
            QUESTIONS,
            [
                [("matmul", 1500, 1)],
                [(0, "frame", "main", "m.py", 20, 1500), (1, "kernel", "matmul", "m.py", 8, 1500)],
                [("main > matmul", 1500)],
                [
                    ("matmul", "gemm", *TURNED_DOWN[0], 1500),
                    ("matmul", "gemm", *TURNED_DOWN[1], 1500),
                ],
                [("main", 100.0)],
            ],
            strict=True,
        )
    ),
    ids=["kernels", "hottest", "paths", "remarks", "shares"],
)
def test_questions_have_answers(path: Path, question: str, answer: list[object]) -> None:
    """Each SQL example of the page runs and gives what it promises."""
    with closing(sqlite3.connect(path)) as database:
        assert database.execute(question).fetchall() == answer


def test_pandas_example(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pandas example of the page makes the table it speaks of."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(path.parent)
    names: dict[str, object] = {}
    exec(code, names)
    table = names["table"]
    assert table["time"].tolist()[:2] == [1500, 1500]  # type: ignore[index]
    assert table["name"].tolist() == ["main", "matmul", "load"]  # type: ignore[index]
    names["database"].close()  # type: ignore[attr-defined]
