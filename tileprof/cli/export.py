"""`tileprof export`: a profile for other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tileprof.errors import OutputError, UsageError
from tileprof.files import replace_bytes

from . import terminal
from .parsing import Command, Parser


def _parser() -> Parser:
    from tileprof.viewer import EXPORTS, FOLDER_EXPORTS

    description = "Write a profile in another tool's format."
    parser = Parser("export", "FILE… --to FORMAT -o OUT", description)
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help=".tprof file; parquet takes several")
    formats = ", ".join([*EXPORTS, *(f"{each} (a folder)" for each in FOLDER_EXPORTS)])
    add("--to", required=True, metavar="FORMAT", help=formats)
    out = "output file, - for stdout; for parquet a folder"
    add("-o", dest="output", required=True, metavar="OUT", help=out)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Write the file, or the files of the folder."""
    args = _parser().parse_args(arguments)
    from tileprof.viewer import FOLDER_EXPORTS

    if args.to in FOLDER_EXPORTS:
        _write_folder(args.files, args.to, args.output)
    else:
        _write_file(args.files, args.to, args.output)
    return 0


def _write_file(files: list[str], format_name: str, output: str) -> None:
    from tileprof.profile import load
    from tileprof.viewer import export

    if len(files) > 1:
        raise UsageError(
            f"`--to {format_name}` takes one FILE, not {len(files)}",
            hint="Export them one by one, or all of them with `--to parquet`.",
        )
    content = export(load(files[0]), format_name)
    if output == "-":
        if isinstance(content, str):
            terminal.show(content)
        else:
            terminal.write(content)
        return
    with _writing(output):
        replace_bytes(output, content.encode() if isinstance(content, str) else content)


def _write_folder(files: list[str], format_name: str, output: str) -> None:
    from tileprof.profile import load
    from tileprof.viewer import export_folder

    folder = Path(output)
    if output == "-" or (folder.exists() and not folder.is_dir()):
        raise OutputError(
            f"{output} is not a folder, and `--to {format_name}` writes one",
            hint="Name a folder, which may be new, with `-o DIR`.",
        )
    names = _names(files)
    content = export_folder({name: load(file) for name, file in names.items()}, format_name)
    for path, text in content.items():
        with _writing(output):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            replace_bytes(folder / path, text)


def _names(files: list[str]) -> dict[str, str]:
    """Return the files by what their rows are called: the name of the file without `.tprof`."""
    names: dict[str, str] = {}
    for file in files:
        name = Path(file).name.removesuffix(".tprof")
        if names.setdefault(name, file) != file:
            raise UsageError(
                f"{names[name]} and {file} would both be called `{name}`",
                hint="Rename one of them, or export them to two folders.",
            )
    return names


@contextmanager
def _writing(output: str) -> Iterator[None]:
    """Say so where the place that was asked for cannot be written."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{output} cannot be written: {error.strerror}",
            hint="Choose another place with `-o`.",
        ) from None


COMMAND = Command("export", "write a profile in another tool's format", main, _parser)
