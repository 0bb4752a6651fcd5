"""The conversation of a body that is not chat's, from the chat fields it was translated into."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from gateway.wire.bodies.chat_body import ChatBody, read_chat
from gateway.wire.bodies.conversation import Conversation, conversation_of
from gateway.wire.bodies.origins import Origins, by_callers_names, origin


def translated_conversation(
    chat: Mapping[str, Any], origins: Origins
) -> tuple[ChatBody, Conversation]:
    """Raises ApiError 400 naming the caller's field, now and where a model takes no images."""
    with by_callers_names(origins):
        body = read_chat(chat)
    conversation = conversation_of(body)
    if not conversation.images:
        return body, conversation
    return body, replace(
        conversation, images=tuple(origin(path, origins) for path in conversation.images)
    )
