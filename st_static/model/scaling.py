"""Scaling of summed rows: to length 1, or each segment of a fused ensemble to its own length."""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray

from st_static.model.static_model import Segment, StaticModel

_SMALLEST_NORM = 1e-12  # as torch's normalize has it
# Narrower parts than this take longer than segments one by one.
_NARROWEST_PART = 64


class Scaling:
    """What a model does to the sums of its rows.

    Sums of many texts come in parts of the same width, of which each segment has one or more:
    fewer bytes of a row are then read at a time, and more rows stay in the cache.

    Args:
        model: Its segments and whether it normalises count, its rows do not.

    Attributes:
        segments: The dimensions that are scaled together, and the length that they are scaled to;
            empty if nothing is scaled.
        n_parts: Number of parts P; 1 if segments have no common width.
    """

    def __init__(self, model: StaticModel) -> None:
        segments = model.segments
        dimension = model.table.shape[1]
        if model.normalize:
            segments = (Segment(dimension, 1.0),)
        total = math.hypot(*(segment.weight for segment in segments))
        ends = list(accumulate(segment.width for segment in segments))
        self.segments = [
            (slice(end - segment.width, end), segment.weight / total)
            for end, segment in zip(ends, segments, strict=True)
        ]
        width = math.gcd(*(segment.width for segment in segments))
        self.n_parts = 1
        if width >= _NARROWEST_PART:
            self.n_parts = dimension // width
            segment_of_part = np.repeat(
                np.arange(len(segments)), [segment.width // width for segment in segments]
            )
            lengths = np.array([length for _, length in self.segments], dtype=np.float32)
            same_segment = np.equal.outer(segment_of_part, segment_of_part)
            self._lengths = torch.from_numpy(lengths[segment_of_part]).unsqueeze(1)
            self._same_segment = torch.from_numpy(same_segment.astype(np.float32))

    def write(self, sums: torch.Tensor, out: torch.Tensor) -> None:
        """Scale many vectors.

        Args:
            sums: [P, B, W] in float32, used up: what it holds afterwards is undefined.
            out: Where the first dimensions of the scaled vectors are written, [B, D].
        """
        if len(sums) == 1:
            self._scale_segments(sums[0])
            out.copy_(sums[0, :, : out.shape[1]])
            return
        squares = self._same_segment @ torch.linalg.vector_norm(sums, dim=2).square_()
        scale = (self._lengths / squares.sqrt_().clamp_min_(_SMALLEST_NORM)).unsqueeze(2)
        parts = out.view(len(out), len(sums), sums.shape[2]).transpose(0, 1)
        if out.dtype == sums.dtype:
            torch.mul(sums, scale, out=parts)
        else:  # a product in float32 written to float16 would take longer
            parts.copy_(sums.mul_(scale))

    def _scale_segments(self, sums: torch.Tensor) -> None:
        """Scale many vectors [B, W] in place, one segment after the other."""
        for dimensions, length in self.segments:
            segment = sums[:, dimensions]
            norms = torch.linalg.vector_norm(segment, dim=1, keepdim=True)
            segment.mul_(length / norms.clamp_min_(_SMALLEST_NORM))

    def scale_one(self, vector: NDArray[np.float32]) -> None:
        """Scale one vector [W] in place."""
        for dimensions, length in self.segments:
            segment = vector[dimensions]
            segment *= length / max(math.sqrt(segment.dot(segment)), _SMALLEST_NORM)
