"""Addresses that users give, as they may be shown."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

_SECRET_OPTION = re.compile("key|secret|token|password|^sig$", re.IGNORECASE)


def without_secrets(address: str) -> str:
    """Strip the user's name, the password and the options from an address; keep a path as it is.

    Example:
        >>> without_secrets("s3://key:se/cr@et@bucket/lake?endpoint_override=localhost")
        's3://bucket/lake'
    """
    kind, mark, rest = address.partition("://")
    if not mark:
        return address
    return f"{kind}{mark}{rest.partition('?')[0].rpartition('@')[2]}"


def has_secrets(address: str) -> bool:
    """Tell whether an address has a password, an S3 user, or options that are named like secrets.

    Other users are not secret, such as `anonymous` in gs:// and the container in abfs://.

    Example:
        >>> has_secrets("s3://key:secret@bucket/lake"), has_secrets("s3://bucket/a@b")
        (True, False)
    """
    kind, mark, rest = address.partition("://")
    plain, _, options = rest.partition("?")
    if not mark:
        return False
    host = plain.partition("/")[0]
    if kind.lower() == "s3":
        # A bucket has no port: what looks like one is the beginning of a password with a slash.
        has_password = "@" in host or ":" in host
    else:
        has_password = ":" in host.rpartition("@")[0]
    named = (name for name, _ in parse_qsl(options, keep_blank_values=True))
    return has_password or any(map(_SECRET_OPTION.search, named))
