"""docs/images/interactive.svg: a picture of the interactive view, of a profile in tests/data.

    python benchmarks/page_interactive.py

In: sixteen small kernels that were sampled on an H200.  Out: the picture, with no font or script
from elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tileprof.profile import load
from tileprof.tui import Browser, OneProfile
from tileprof.viewer import ViewOptions

ROOT = Path(__file__).parent.parent
PROFILE = ROOT / "tests" / "data" / "h200-stalls.tprof"
PICTURE = ROOT / "docs" / "images" / "interactive.svg"
KEYS = ("1", "down", "down", "down", "down")
SIZE = (110, 34)


async def picture() -> str:
    """Return the picture as SVG."""
    view = Browser(OneProfile(load(PROFILE)), ViewOptions())
    async with view.run_test(size=SIZE) as pilot:
        for key in (None, *KEYS):
            if key is not None:
                await pilot.press(key)
            await pilot.pause()
            while view.is_busy:
                await asyncio.sleep(0.01)
        await pilot.pause()
        return view.export_screenshot(title="tileprof view h200-stalls.tprof --interactive")


def own_fonts(svg: str) -> str:
    """Return the picture with the reader's fonts in place of those it would fetch."""
    without = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return without.replace("font-family: Fira Code,", "font-family:")


def main() -> None:
    """Write the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(own_fonts(asyncio.run(picture())))


if __name__ == "__main__":
    main()
