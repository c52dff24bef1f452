"""The body of a request: one JSON object."""

from __future__ import annotations

import json
import re
from typing import Any

from dragoman.errors import UsageError

_HALF_A_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


def read_body(data: bytes) -> dict[str, Any]:
    """The JSON object of a request's body. Raises UsageError."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise UsageError("the body is nested too deep") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the body is no JSON: {error}") from error
    except ValueError:  # Python's bound for the digits of a number, 4,300
        raise UsageError("the body holds a number of too many digits") from None
    if not isinstance(value, dict):
        raise UsageError("the body must be a JSON object")
    if _HALF_A_PAIR.search(data):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise UsageError(f"the body holds half a surrogate pair ({half}), which is no character") from None
    return value
