"""Decompress .xz files to their end."""

from __future__ import annotations

import io
import lzma
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 2**16  # bytes
_PADDING = 4  # bytes, of which all padding is a multiple


class XzStreams(io.RawIOBase):
    """What a .xz file holds: a stream or several, each with padding of zeros behind it.

    `lzma.open` refuses padding. Where a further stream is damaged, it ends as a whole file does.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        self._rest = b""  # of what was read, for the next stream's decoder

    def readable(self) -> bool:
        """Tell that this can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Decompress some bytes, 0 at the end; EOFError or LZMAError if the file is damaged."""
        target = memoryview(buffer).cast("B")
        data = b""
        while not data:
            if self._decoder.eof:
                self._rest = self._behind_padding()
                if not self._rest:
                    return 0
                self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
            given = b""
            if self._decoder.needs_input:
                given, self._rest = self._rest or self._stream.read(_CHUNK), b""
                if not given:
                    raise EOFError("it ends inside a stream")
            data = self._decoder.decompress(given, len(target))
        target[: len(data)] = data
        return len(data)

    def _behind_padding(self) -> bytes:
        """Read on behind a stream; return what begins with the next byte that is not zero."""
        n_zeros, further = 0, b""
        rest = self._decoder.unused_data or self._stream.read(_CHUNK)
        while rest:
            further = rest.lstrip(b"\0")
            n_zeros += len(rest) - len(further)
            if further:
                break
            rest = self._stream.read(_CHUNK)
        if n_zeros % _PADDING:
            raise lzma.LZMAError(f"{n_zeros} zeros behind a stream, no multiple of {_PADDING}")
        return further
