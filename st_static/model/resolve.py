"""Static models by name, of this project and of others.

| name | what it reads |
|---|---|
| `FOLDER`, `ORG/NAME` or `package:NAME/FOLDER` | a static model of sentence-transformers or \
Model2Vec |
| `wordllama:DIMENSION` | the token vectors that come inside the package `wordllama` |
| `glove:FILE` | text vectors, a word and its numbers a line |
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from st_static.model.model_folder import read_static_model
from st_static.model.model_name import ModelName, wordllama_weights
from st_static.model.static_model import StatedFacts, StaticModel
from st_static.model.text_vectors import read_word_vectors


def read_named(name: str) -> StaticModel:
    """Read a static model by its name, see above.

    Raises:
        ValueError: There is no such model.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "vectors.txt")
        ...     _ = file.write_text("hello 1 0\\nworld 0 1\\n")
        ...     read_named(f"glove:{file}").table.shape[1]
        2
    """
    parsed = ModelName.parse(name)
    if parsed.kind == "wordllama":
        return read_wordllama(parsed.rest)
    if parsed.kind == "glove":
        return read_word_vectors(Path(parsed.rest)).as_static_model(Path(parsed.rest).name)
    return read_static_model(parsed.folder_or_id() if parsed.is_folder_or_id else name)


def read_wordllama(dimension: str) -> StaticModel:
    """The token vectors that come inside the package `wordllama`.

    Its own loader looks for the tokenizer in the folder `tokenizer`, but the package has it in
    `tokenizers`, so that it would be downloaded.

    Raises:
        ValueError: The package is not installed, or has no such dimension.
    """
    weights = wordllama_weights(dimension)
    table = load_file(weights)["embedding.weight"].astype(np.float32)
    file = weights.parents[1] / "tokenizers" / "l2_supercat_tokenizer_config.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    name = f"wordllama/l2_supercat_{dimension}"
    # The package's licence; its table was made of the token vectors of larger models.
    state = partial(StatedFacts, license="mit")
    return StaticModel(tokenizer, table, normalize=False, name=name, state=state)
