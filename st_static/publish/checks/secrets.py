"""Finding passwords and keys in text that is about to be published."""

from __future__ import annotations

import re
from pathlib import Path

# What providers say that their secrets look like; group 0 is never shown to anybody.
_KINDS = {
    "a token of the Hugging Face Hub": rb"\b(?:hf|api_org)_[A-Za-z0-9]{30,}\b",
    "a token of GitHub": rb"\bgh[opsru]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{22,}\b",
    "a key of AWS": rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a key of Google": rb"\bAIza[A-Za-z0-9_-]{35}",
    "a key of OpenAI or Anthropic": rb"\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}",
    "a token of Slack": rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "a private key": rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
}
_PATTERNS = {kind: re.compile(pattern) for kind, pattern in _KINDS.items()}


def find_secrets(path: Path) -> list[str]:
    """Say where a file holds something that looks like a secret.

    Args:
        path: A file, read as bytes.

    Returns:
        A line and a kind for each, `line 3 looks like a key of AWS`; never the secret.
    """
    content = path.read_bytes()
    found = [
        (1 + content.count(b"\n", 0, match.start()), kind)
        for kind, pattern in _PATTERNS.items()
        for match in pattern.finditer(content)
    ]
    return [f"line {line} looks like {kind}" for line, kind in sorted(set(found))]
