"""What kind of body a request says it has: JSON, or something that nothing here reads."""

from collections.abc import Mapping

from gateway.errors import unsupported_media_type

JSON_TYPES = ("application/json", "")
"""Nothing is said by many a script, whose body is JSON all the same."""


def refuse_other_media(headers: Mapping[str, str]) -> None:
    """Raises ApiError 415 unless `content-type` is JSON's, or missing."""
    content_type = headers.get("content-type", "")
    if content_type in JSON_TYPES:
        return
    media = content_type.partition(";")[0].strip().lower()
    if media not in JSON_TYPES and not (
        media.startswith("application/") and media.endswith("+json")
    ):
        raise unsupported_media_type(content_type)
