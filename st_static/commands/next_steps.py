"""What can be done with a model that was just built: commands, to be copied as they are."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from st_static.examples import usage_in
from st_static.publish.card.benchmarks import options_to_score


def next_steps(output: Path, work_dir: Path, languages: Sequence[str] = ()) -> str:
    """The commands that one gives after a build.

    Args:
        output: The model.
        work_dir: The recipe's work_dir.
        languages: The model's, without script and region; none is English.
    """
    model, work = shlex.quote(str(output)), shlex.quote(str(work_dir))
    results = shlex.quote(f"results/local__{output.resolve().name}")
    # Where we have no sentence of the language, the user puts one in.
    texts = usage_in(languages) or ("A TEXT", "ANOTHER TEXT")
    shown = json.dumps(texts, ensure_ascii=False)
    return "\n".join(
        [
            "Next, in Python:",
            "  from sentence_transformers import SentenceTransformer",
            f"  model = SentenceTransformer({str(output)!r})",
            f"  embeddings = model.encode({shown})",
            "On the command line:",
            f"  st-static evaluate {model} {shlex.join(options_to_score(languages))}",
            f"  st-static card {model} --results {results}/* --work_dir {work}",
        ]
    )
