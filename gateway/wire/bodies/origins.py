"""Where the fields of a translated body came from: errors name the caller's own fields.

Routes that are not chat's turn their bodies into chat fields and pass the same checks; whatever
those refuse is told in the words that the caller used.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gateway.errors import ApiError

Origins = Mapping[str, str]
"""Paths of chat fields, say `messages[2].tool_calls[0]`, to the caller's. The longest one that
begins a path counts; `tools[*]` stands for each of them, on both sides."""

INDEX = re.compile(r"\[\d+\]")


@contextmanager
def told_by_origin(origins: Origins) -> Iterator[None]:
    """A block whose ApiErrors leave it with the caller's names."""
    try:
        yield
    except ApiError as refused:
        raise by_origin(refused, origins) from refused


def by_origin(refused: ApiError, origins: Origins) -> ApiError:
    """The same error with its `param` in the caller's words, in its message as well."""
    if refused.param is None:
        return refused
    own = origin(refused.param, origins)
    return ApiError(
        refused.status,
        refused.message.replace(f"'{refused.param}'", f"'{own}'"),
        type=refused.type,
        code=refused.code,
        param=own,
        retry_after_s=refused.retry_after_s,
        stop_retrying=refused.stop_retrying,
        extra_headers=refused.extra_headers,
    )


def origin(path: str, origins: Origins) -> str:
    """A path in the caller's words: asks for shorter and shorter beginnings, each cut before a `.`
    or a `[`."""
    end = len(path)
    while end > 0:
        began = path[:end]
        if (own := origins.get(began)) is not None:
            return own + path[end:]
        if (own := origins.get(INDEX.sub("[*]", began))) is not None:
            for index in INDEX.findall(began):
                own = own.replace("[*]", index, 1)
            return own + path[end:]
        end = max(path.rfind(".", 0, end), path.rfind("[", 0, end))
    return path
