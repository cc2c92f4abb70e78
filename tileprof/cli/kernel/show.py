"""`tileprof show`: a page that shows what the blocks of a kernel access."""

from __future__ import annotations

from collections.abc import Sequence

from tileprof.cli import terminal
from tileprof.cli.parsing import Command, Parser

from .events import add_blocks, add_kernel
from .inputs import arguments as inputs
from .kernels import bindings, compiled, find

USAGE = (
    "FILE:KERNEL [--set NAME=VALUE]… [--input FILE.npz] [--blocks N|I,J,…] [--target TARGET] "
    "[-o OUT.html]"
)
_BLOCKS = "show the accesses of N blocks of each launch one by one, spread over the grid"


def _parser() -> Parser:
    parser = Parser(
        "show",
        USAGE,
        "Run KERNEL of FILE in the interpreter and write an HTML page that shows what its blocks "
        "read and write: the grid and each tensor, one block step by step, bytes moved and bytes "
        "that must move, and layouts with bank conflicts on a GPU. The page is one file and needs "
        "no network. No GPU needed.",
    )
    add_kernel(parser)
    add = parser.add_argument
    add_blocks(parser, f"{_BLOCKS} (default: 6), or of the blocks with these linear indices")
    add(
        "--target",
        default="sm_90a",
        help="GPU architecture whose layouts and bank conflicts are shown (default: sm_90a)",
    )
    add("-o", dest="output", metavar="OUT.html", help="file to write (default: KERNEL.html)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the kernel and write the page."""
    args = _parser().parse_args(arguments)
    kernel = compiled(find(args.kernel), bindings(args.bindings))
    from tileprof.drawing import show

    drawing = show(kernel, blocks=args.blocks, target=args.target, **inputs(kernel, args.input))
    output = args.output or f"{kernel.__name__}.html"
    drawing.save(output)
    terminal.complain(f"{output}: {drawing.summary}; open it in a browser")
    return 0


COMMAND = Command("show", "draw what the blocks of a kernel read and write", main, _parser)
