"""The conversation of a body that is not chat's, from the chat fields it was translated into."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from gateway.wire.conversation import Conversation, check_conversation, conversation_of
from gateway.wire.origins import Origins, origin, told_by_origin


def translated_conversation(chat: Mapping[str, Any], origins: Origins) -> Conversation:
    """Raises ApiError 400 naming the caller's field, now and where a model takes no images."""
    with told_by_origin(origins):
        check_conversation(chat)
    wanted = conversation_of(chat)
    if not wanted.images:
        return wanted
    return replace(wanted, images=tuple(origin(path, origins) for path in wanted.images))
