"""What tests of several tokenizers need."""

import pytest

from st_static.tokens import fast_tokenizer


@pytest.fixture
def tiny_parts(monkeypatch):
    """Texts of a few bytes are already many, and long."""
    monkeypatch.setattr(fast_tokenizer, "_BYTES_AT_A_TIME", 25)
    monkeypatch.setattr(fast_tokenizer, "_PIECE_BYTES", 6)
