"""Decompression of what a profile file holds, within a limit."""

from __future__ import annotations

import zlib

from tileprof.errors import ProfileFileError
from tileprof.profile.storage.limits import INFLATED_BYTES


def inflated(content: bytes, what: str, limit: int = INFLATED_BYTES) -> bytes:
    """Return the decompressed bytes of `what`, which an error names.

    Raises `ProfileFileError` where the bytes are damaged, or would take more than `limit` bytes.
    """
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(content, limit + 1)
    except zlib.error:
        raise ProfileFileError(f"{what} cannot be decompressed") from None
    if len(found) > limit:
        raise ProfileFileError(f"{what} takes more than {limit:,} bytes when decompressed")
    if not stream.eof or stream.unused_data:
        raise ProfileFileError(f"{what} cannot be decompressed")
    return found
