"""Messages to prompt token ids, by the checkpoint's own tokenizer and chat template.

A control token that a message spells stays text (`workers/prompts/control_tokens.py`). The gateway
counts in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.engines.base import PromptInvalid, UnsupportedParameter
from workers.prompts.control_tokens import ChatEncoder
from workers.prompts.templates import Message, ToolsUnsupported
from workers.sampling import RENDERING, Rendering


class TemplateChat:
    """A checkpoint without a template takes no conversations. It may still complete prompts."""

    def __init__(self, model_path: Path) -> None:
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(model_path, local_files_only=True)
        self._encoder: ChatEncoder | None = None
        if self._tokenizer.chat_template:
            template = self._tokenizer.get_chat_template()
            self._encoder = ChatEncoder(self._tokenizer.backend_tokenizer, template)

    def prompt_token_ids(
        self,
        messages: Iterable[object],
        tools: Sequence[Message] = (),
        rendering: Rendering = RENDERING,
    ) -> tuple[int, ...]:
        if self._encoder is None:
            raise PromptInvalid("the model has no chat template")
        conversation = [plain_message(message) for message in messages]
        if not conversation:
            raise PromptInvalid("messages is empty")
        try:
            ids = self._encoder.prompt_ids(conversation, self._rendered, tools, rendering)
        except ToolsUnsupported as error:
            raise UnsupportedParameter(str(error), param=error.param) from error
        except Exception as error:  # a template raises whatever it likes
            raise PromptInvalid(
                f"the model's chat template refused the messages: {error}"
            ) from error
        return tuple(ids)

    def _rendered(
        self, messages: Sequence[Message], tools: Sequence[Message], rendering: Rendering
    ) -> str:
        text: str = self._tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) or None,
            add_generation_prompt=rendering.add_generation_prompt,
            tokenize=False,
            **rendering.chat_template_kwargs,
        )
        return text


def plain_message(message: object) -> Message:
    """The message with its content as one string. Parts that are not text are refused, not
    dropped."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise PromptInvalid("every message needs a role")
    return {**message, "content": _text(message.get("content"))}


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(map(_is_text_part, content)):
        return "".join(part["text"] for part in content)
    raise PromptInvalid("content must be a string or a list of text parts")


def _is_text_part(part: object) -> bool:
    return (
        isinstance(part, Mapping)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    )
