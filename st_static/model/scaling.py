"""Scaling of summed rows: to length 1, or each segment of a fused ensemble to its own length."""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray

from st_static.model.static_model import Segment, StaticModel

_SMALLEST_NORM = 1e-12  # as torch's normalize has it
# Narrower parts than this are scaled slower than segments one by one.
_NARROWEST_PART = 16


class Scaling:
    """What a model does to the sums of its rows.

    Args:
        model: Its segments and whether it normalises count, its rows do not.

    Attributes:
        segments: The dimensions that are scaled together, and the length that they are scaled to;
            empty if nothing is scaled.
    """

    def __init__(self, model: StaticModel) -> None:
        parts = model.segments
        if model.normalize:
            parts = (Segment(model.table.shape[1], 1.0),)
        total = math.hypot(*(part.weight for part in parts))
        ends = list(accumulate(part.width for part in parts))
        self.segments = [
            (slice(e - p.width, e), p.weight / total) for e, p in zip(ends, parts, strict=True)
        ]
        # All segments are scaled at once, in parts of a width that divides each of them.
        self._width = math.gcd(*(part.width for part in parts))
        if self._width >= _NARROWEST_PART:
            segment_of_part = np.repeat(
                np.arange(len(parts)), [part.width // self._width for part in parts]
            )
            lengths = np.array([length for _, length in self.segments], dtype=np.float32)
            same_segment = np.equal.outer(segment_of_part, segment_of_part)
            self._lengths = torch.from_numpy(lengths[segment_of_part])
            self._same_segment = torch.from_numpy(same_segment.astype(np.float32))

    def write(self, sums: torch.Tensor, out: torch.Tensor) -> None:
        """Scale many vectors.

        Args:
            sums: [B, W] in float32, used up: what it holds afterwards is undefined.
            out: Where the first dimensions of the scaled vectors are written, [B, D].
        """
        if self._width >= _NARROWEST_PART and out.shape == sums.shape:
            self._write_parts(sums.view(len(sums), len(self._lengths), self._width), out)
            return
        for dimensions, length in self.segments:
            segment = sums[:, dimensions]
            norms = torch.linalg.vector_norm(segment, dim=1, keepdim=True)
            segment.mul_(length / norms.clamp_min_(_SMALLEST_NORM))
        out.copy_(sums[:, : out.shape[1]])

    def _write_parts(self, parts: torch.Tensor, out: torch.Tensor) -> None:
        """The same in one pass over the memory, for parts [B, W / width, width]."""
        squares = torch.linalg.vector_norm(parts, dim=2).square_() @ self._same_segment
        scale = self._lengths / squares.sqrt_().clamp_min_(_SMALLEST_NORM)
        if out.dtype == parts.dtype:
            torch.mul(parts, scale.unsqueeze(2), out=out.view(parts.shape))
        else:  # a product in float32 written to float16 would take longer
            out.view(parts.shape).copy_(parts.mul_(scale.unsqueeze(2)))

    def scale_one(self, vector: NDArray[np.float32]) -> None:
        """Scale one vector [W] in place."""
        for dimensions, length in self.segments:
            segment = vector[dimensions]
            segment *= length / max(math.sqrt(segment.dot(segment)), _SMALLEST_NORM)
