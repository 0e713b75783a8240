"""Scaling of summed rows: to length 1, or each segment of a fused ensemble to its own length."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from st_static.model.int8_table import Int8Table
from st_static.model.modules import Segment
from st_static.model.static_model import StaticModel

if TYPE_CHECKING:
    import torch

_SMALLEST_NORM = 1e-12  # as torch's normalize has it
# Parts that are narrower take longer than whole rows.
_NARROWEST_PART = 64
# So many vectors are scaled at a time: their copies in float32 stay in the cache.
_SCALED_VECTORS = 512


class Scaling:
    """What a model does to the sums of its rows; where it has no segments, they are only averaged.

    Sums of many texts come in parts of the same width, of which each segment has one or more:
    fewer bytes of a row are then read at a time, and more rows stay in the cache.

    Args:
        model: Its segments and whether it normalises count, its rows do not.

    Attributes:
        segments: The dimensions that are scaled together, and the length that they are scaled to;
            empty if nothing is scaled.
        n_parts: Number of parts P; 1, which is whole rows, unless several segments are all
            multiples of a width that is not too small, all dimensions are kept, and the table is
            not in int8.
    """

    def __init__(self, model: StaticModel) -> None:
        segments = model.segments
        dimension = model.table.shape[1]
        if model.normalize:
            segments = (Segment(dimension, 1.0),)
        # Equation 1 divides by this, so that a text that all members know has the length 1.
        total = math.hypot(*(segment.weight for segment in segments))
        ends = list(accumulate(segment.width for segment in segments))
        self.segments = [
            (slice(end - segment.width, end), segment.weight / total)
            for end, segment in zip(ends, segments, strict=True)
        ]
        self.n_parts = 1
        width = math.gcd(*(segment.width for segment in segments))
        # Parts are whole: a dimension cut off inside of one would have no place in `out`. Rows in
        # int8 are whole, too: they have few bytes.
        is_int8 = isinstance(model.table, Int8Table)
        if width >= _NARROWEST_PART and not model.truncate_dim and not is_int8:
            self.n_parts = dimension // width
            n_parts = [segment.width // width for segment in segments]
            self._segment_of_part = np.repeat(np.arange(len(segments)), n_parts)  # [P]
            lengths = [[length] for _, length in self.segments]  # [L, 1]
            self._lengths = np.array(lengths, dtype=np.float32)

    def write(self, sums: torch.Tensor, out: torch.Tensor) -> None:
        """Scale many vectors.

        Args:
            sums: [P, B, W] of parts of the width W in float32, used up: what it holds afterwards
                is undefined.
            out: Where the scaled vectors are written, [B, D]; of one part its first D dimensions.
        """
        if len(sums) == 1:
            self._scale_segments(sums[0])
            out.copy_(sums[0, :, : out.shape[1]])
            return
        import torch  # which single texts do not need

        segment_of_part = torch.from_numpy(self._segment_of_part)
        # A segment of several parts has the root of their squared lengths added up as its length.
        squares = torch.linalg.vector_norm(sums, dim=2).square_()
        norms = squares.new_zeros(len(self._lengths), len(out))
        norms.index_add_(0, segment_of_part, squares).sqrt_()
        lengths = torch.from_numpy(self._lengths)
        scale = (lengths / norms.clamp_min_(_SMALLEST_NORM))[segment_of_part]
        parts = out.view(len(out), len(sums), sums.shape[2]).transpose(0, 1)
        if out.dtype == sums.dtype:
            torch.mul(sums, scale.unsqueeze(2), out=parts)
        else:  # a product in float32 written to float16 would take longer
            parts.copy_(sums.mul_(scale.unsqueeze(2)))

    def _scale_segments(self, sums: torch.Tensor) -> None:
        """Scale many whole vectors [B, D] in place, one segment after the other."""
        import torch  # which single texts do not need

        for dimensions, length in self.segments:
            segment = sums[:, dimensions]
            norms = torch.linalg.vector_norm(segment, dim=1, keepdim=True)
            # Zeros, of a text without a known word, are divided by the smallest norm and stay.
            segment.mul_(length / norms.clamp_min_(_SMALLEST_NORM))

    def scale_one(self, vector: NDArray[np.float32]) -> None:
        """Scale one whole vector [D] in place."""
        for dimensions, length in self.segments:
            segment = vector[dimensions]
            segment *= length / max(math.sqrt(segment.dot(segment)), _SMALLEST_NORM)


def scale_to_unit(vectors: NDArray[np.floating]) -> None:
    """Scale vectors [..., D] in place to length 1; zeros stay zeros, of float16, too."""
    rows = np.atleast_2d(vectors)
    for start in range(0, len(rows), _SCALED_VECTORS):
        part = rows[start : start + _SCALED_VECTORS]
        exact = part.astype(np.float32, copy=False)
        norms = np.sqrt(np.einsum("ij,ij->i", exact, exact))
        part[:] = exact / np.maximum(norms, _SMALLEST_NORM)[:, np.newaxis]
