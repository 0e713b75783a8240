"""Load a model with sentence-transformers alone, and write its vectors: this file is run in its own
process that cannot import `st_static`. The request comes as JSON on stdin."""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Read the request, load the model, and write the vectors of the request's texts."""
    request = json.load(sys.stdin)
    sys.modules["st_static"] = None  # type: ignore[assignment]  # makes its import fail
    import numpy as np
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(request["model"], device="cpu", **request["options"])
    vectors = model.encode(request["texts"], show_progress_bar=False)
    np.save(request["output"], vectors, allow_pickle=False)


if __name__ == "__main__":
    main()
