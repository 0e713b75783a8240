"""Turn panics of the library tokenizers into errors.

Where its Rust code panics, Python gets a BaseException, which passes all handlers of errors.
The lines that Rust writes to standard error before that cannot be redirected without losing
what other libraries write as they end the process.
"""

from __future__ import annotations

from types import TracebackType

from tokenizers import Tokenizer

from st_static.tokens.ragged import Ragged, ragged_of

_NAME = "of_model"


class TellingPanics:
    """A block in which a panic becomes a ValueError that names the tokenizer, or its model."""

    def __init__(self, of: Tokenizer | str) -> None:
        self._of = of

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None and is_panic(error):
            name = self._of if isinstance(self._of, str) else vars(self._of).get(_NAME)
            raise ValueError(panic_told(error, name)) from None


def encode_batch(tokenizer: Tokenizer, texts: list[str]) -> Ragged:
    """Encode texts as ids [B rows] with the tokenizer itself, without special tokens."""
    with TellingPanics(tokenizer):
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return ragged_of([encoding.ids for encoding in encodings])


def is_panic(error: BaseException) -> bool:
    """Recognise a panic: its class has no module from which it could be imported."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)


def panic_told(error: BaseException, name: str | None = None) -> str:
    """Write the message for a panic in the tokenizer of the named model."""
    whose = f"The tokenizer of {name}" if name else "A tokenizer"
    reason = " ".join(str(error).split()).rstrip(".")
    return (
        f"{whose} broke down: {reason}. Its tokenizer.json asks for what cannot be done with this "
        "text. Fix it, or take another model."
    )


def named(tokenizer: Tokenizer, name: str) -> Tokenizer:
    """Note in a tokenizer the name of its model, for errors."""
    vars(tokenizer)[_NAME] = name
    return tokenizer
