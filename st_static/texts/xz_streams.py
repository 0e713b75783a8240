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
        self._unread = b""  # of what was read, for the next stream's decoder

    def readable(self) -> bool:
        """Tell that this can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Decompress some bytes, 0 at the end; EOFError or LZMAError if the file is damaged."""
        target = memoryview(buffer).cast("B")
        data = b""
        while not data:
            if self._decoder.eof:
                self._unread = self._behind_padding()
                if not self._unread:
                    return 0
                self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
            compressed = b""
            if self._decoder.needs_input:
                compressed, self._unread = self._unread or self._stream.read(_CHUNK), b""
                if not compressed:
                    raise EOFError("it ends inside a stream")
            data = self._decoder.decompress(compressed, len(target))
        target[: len(data)] = data
        return len(data)

    def _behind_padding(self) -> bytes:
        """Skip the padding behind a stream; return the data from the next byte that is not zero."""
        n_zeros, further = 0, b""
        data = self._decoder.unused_data or self._stream.read(_CHUNK)
        while data:
            further = data.lstrip(b"\0")
            n_zeros += len(data) - len(further)
            if further:
                break
            data = self._stream.read(_CHUNK)
        if n_zeros % _PADDING:
            raise lzma.LZMAError(f"{n_zeros} zeros behind a stream, no multiple of {_PADDING}")
        return further
