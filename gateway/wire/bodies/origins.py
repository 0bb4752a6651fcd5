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
def by_callers_names(origins: Origins) -> Iterator[None]:
    """A block whose ApiErrors leave it with the caller's names."""
    try:
        yield
    except ApiError as error:
        raise by_origin(error, origins) from error


def by_origin(error: ApiError, origins: Origins) -> ApiError:
    """The same error with its `param` in the caller's words, in its message as well."""
    if error.param is None:
        return error
    own = origin(error.param, origins)
    return ApiError(
        error.status,
        error.message.replace(f"'{error.param}'", f"'{own}'"),
        type=error.type,
        code=error.code,
        param=own,
        retry_after_s=error.retry_after_s,
        stop_retrying=error.stop_retrying,
        extra_headers=error.extra_headers,
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
