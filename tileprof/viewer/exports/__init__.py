"""Profiles for other people's tools: one file a format, one line in `EXPORTS` or `FOLDER_EXPORTS`.

In: a profile, or several for a format that is a folder.  Out: the text of a file, or those of a
folder. To add a format, write `FORMAT.py` with one function `Profile -> str | bytes`, for a folder
`Mapping[str, Profile] -> dict[str, bytes]`, and name it in a table below.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
