"""Encode texts, fast.

In come a static model and texts, in memory or in a file; out come their vectors [B, D], in memory
or in a file.
"""

from st_static.dependencies import lazy_names

# Loaded when first used: it needs pyarrow, but single texts do not.
__getattr__ = lazy_names(__name__, {"ArrowEncoder": "st_static.encode.arrow_encoder"})
