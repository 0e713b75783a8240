"""Addresses that users give, as they may be shown."""

from __future__ import annotations


def without_secrets(address: str) -> str:
    """An address without a user's name and password, and without options; a path as it is.

    Example:
        >>> without_secrets("s3://key:se/cr@et@bucket/lake?endpoint_override=localhost")
        's3://bucket/lake'
    """
    kind, mark, rest = address.partition("://")
    if not mark:
        return address
    return f"{kind}{mark}{rest.partition('?')[0].rpartition('@')[2]}"
