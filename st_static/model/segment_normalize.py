"""Scaling each part of a vector by itself.

This file is copied into the repositories of fused ensembles. So it needs nothing but torch and
sentence-transformers.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.base.modules import Module
from torch import Tensor


class SegmentNormalize(Module):
    """Scales each segment of a vector to its weight (Wada et al. 2025, equation 1).

    With segments v_1, ..., v_L and weights a_1, ..., a_L the vector becomes
    [a_1 v_1 / |v_1|, ..., a_L v_L / |v_L|] / sqrt(a_1^2 + ... + a_L^2); zeros stay zeros.

    Args:
        widths: Number of dimensions of each segment, [L].
        weights: Weight of each segment, [L].
    """

    config_keys: list[str] = ["widths", "weights"]  # noqa: RUF012 (declared so by the base class)

    def __init__(self, widths: Sequence[int], weights: Sequence[float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.widths = list(widths)
        self.weights = list(weights)

    def forward(self, features: dict[str, Tensor], **kwargs: Any) -> dict[str, Tensor]:
        """Scale `sentence_embedding`, [B, D]."""
        segments = torch.split(features["sentence_embedding"], self.widths, dim=1)
        total = math.hypot(*self.weights)
        # In float32, for float16 rounds the smallest norm allowed to zero.
        scaled = [
            (F.normalize(segment.float()) * (weight / total)).to(segment.dtype)
            for segment, weight in zip(segments, self.weights, strict=True)
        ]
        features["sentence_embedding"] = torch.cat(scaled, dim=1)
        return features

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the config into a module's folder, and this file beside it, in the model's."""
        self.save_config(output_path)
        code = Path(output_path).parent / Path(__file__).name
        if not (code.exists() and code.samefile(__file__)):
            shutil.copyfile(__file__, code)

    @classmethod
    def load(  # type: ignore[override]  # its arguments pass through kwargs
        cls, model_name_or_path: str, **kwargs: Any
    ) -> SegmentNormalize:
        """Read a folder or Hub repository that `save` wrote."""
        known = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        source = {key: value for key, value in kwargs.items() if key in known}
        config = cls.load_config(model_name_or_path, **source)
        return cls(config["widths"], config["weights"])
