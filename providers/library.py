"""litellm, as this process uses it: offline, without retries, caches, callbacks or redirects.

The one file that imports it. Its map of prices is the one of its package, pinned by hash: it is
never fetched, and no money is reckoned from it.
"""

import asyncio
import json
import logging
import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from providers.account import Account
from providers.cohere import CohereEvents
from providers.fields import (
    CHAT,
    EMBEDDINGS,
    TEXT,
    fields_for,
    refuse_all_but_one_text,
    refuse_what_is_elsewhere,
)
from providers.refused import CallRefused
from providers.usage import usage_of

OFFLINE = ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS")
OFFLINE_ALSO = ("LITELLM_LOCAL_BLOG_POSTS", "LITELLM_LOCAL_POLICY_TEMPLATES")
CLOSE_S = 1.0
NO_REDIRECT = {"follow_redirects": False}
TEXT_PROVIDER = "text-completion-openai"
"""What the library sends to `/completions`, beside the providers of its own list. To others it
would send a prompt as what somebody said."""
CHOICE = ("index", "delta", "message", "text", "finish_reason", "logprobs")
SPOKEN = ("role", "content", "refusal", "reasoning_content", "tool_calls")
STATUSES_OF_CALLS = frozenset({400, 413, 422})
WORDS_MAX = 500
_CLASSES = re.compile(r"^(?:[\w.]*(?:Error|Exception)\b:? ?-? ?)+")
"""What the library puts in front of a provider's words."""
_responses: ContextVar[list[Any] | None] = ContextVar("responses", default=None)
"""What was opened for the call of this context."""
_guesses: ContextVar[list[str] | None] = ContextVar("guesses", default=None)
"""What the library would have guessed of this context's call."""


class Library:
    """Imports litellm when it is made: about three seconds, and 160 MB."""

    def __init__(self) -> None:
        os.environ.update(dict.fromkeys((*OFFLINE, *OFFLINE_ALSO), "True"))
        import httpx
        import litellm
        from litellm.litellm_core_utils import streaming_chunk_builder_utils as counting
        from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
        from litellm.llms.anthropic.chat import transformation as anthropic
        from litellm.llms.bedrock.chat import converse_transformation as bedrock
        from litellm.llms.cohere.chat import v2_transformation as cohere
        from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler
        from litellm.llms.vertex_ai.gemini import vertex_and_google_ai_studio_gemini as google

        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # it may quote prompts
        litellm.suppress_debug_info = True
        litellm.drop_params = litellm.modify_params = False
        litellm.num_retries = 0
        litellm.REPEATED_STREAMING_CHUNK_LIMIT = sys.maxsize  # an answer may repeat itself
        _mind_connections(httpx, AsyncHTTPHandler)
        for guessing in (counting, anthropic, bedrock):
            guessing.token_counter = _guess_nothing
        cohere.CohereV2ModelResponseIterator = CohereEvents
        _invent_no_end(CustomStreamWrapper, google.VertexGeminiConfig)
        self._litellm = litellm

    async def chat(self, body: Mapping[str, Any], account: Account, timeout_s: float) -> Any:
        """An opened stream, or a whole answer. Raises CallRefused."""
        refuse_what_is_elsewhere(body.get("messages"))
        provider, supported = self._provider(body)
        arguments = fields_for(provider, supported, body, CHAT) | account.arguments(provider)
        arguments |= _streamed(body) | {"messages": body.get("messages")}
        arguments["_skip_mcp_handler"] = True  # tools are the caller's; that package is not here
        return await self._call(self._litellm.acompletion, body, arguments, timeout_s)

    async def complete(self, body: Mapping[str, Any], account: Account, timeout_s: float) -> Any:
        """The same of a text to go on with. Raises CallRefused."""
        provider, supported = self._provider(body)
        compatible = self._litellm.openai_text_completion_compatible_providers
        if provider != TEXT_PROVIDER and provider not in compatible:
            words = f"The provider {provider} answers conversations, and goes on with no text."
            raise CallRefused(400, words, param="prompt", code="unsupported_parameter")
        refuse_all_but_one_text(body.get("prompt"))
        arguments = fields_for(provider, supported, body, TEXT) | account.arguments(provider)
        arguments |= _streamed(body) | {"prompt": body.get("prompt")}
        return await self._call(self._litellm.atext_completion, body, arguments, timeout_s)

    async def embed(
        self, body: Mapping[str, Any], account: Account, timeout_s: float
    ) -> dict[str, Any]:
        """A document of vectors. Raises CallRefused."""
        # Most providers know vectors as numbers only, and the gateway reads either form.
        plain = {name: value for name, value in body.items() if name != "encoding_format"}
        provider, supported = self._provider(body, embeds=True)
        arguments = fields_for(provider, supported, plain, EMBEDDINGS)
        arguments |= account.arguments(provider, "embed") | {"input": body.get("input")}
        answer = await self._call(self._litellm.aembedding, body, arguments, timeout_s)
        document: dict[str, Any] = answer.model_dump(exclude_none=True)
        vectors = {"object": "list", "data": document.get("data")}
        return vectors | _used(document)

    async def _call(
        self, function: Any, body: Mapping[str, Any], arguments: Mapping[str, Any], timeout_s: float
    ) -> Any:
        _responses.set([])
        _guesses.set([])
        try:
            return await function(
                **arguments,
                model=body["model"],
                timeout=timeout_s,
                max_retries=0,
                num_retries=0,
                **{"no-log": True},
            )
        except CallRefused:
            raise
        except Exception as failed:  # its classes have no common ancestor of their own
            raise refusal_of(failed) from failed

    def _provider(self, body: Mapping[str, Any], *, embeds: bool = False) -> tuple[str, list[str]]:
        """Of a model, and which of OpenAI's fields the library maps for it. Raises CallRefused."""
        model = body.get("model")
        if not isinstance(model, str) or "/" not in model:
            raise CallRefused(
                404, f"'{model}' names no provider: write anthropic/MODEL or the like"
            )
        try:
            _, provider, *_ = self._litellm.get_llm_provider(model)
            kind = {"request_type": "embeddings"} if embeds else {}
            supported = self._litellm.get_supported_openai_params(model, provider, **kind)
        except Exception as unknown:
            raise CallRefused(
                404, f"no adapter has the model '{model}'", param="model", code="model_not_found"
            ) from unknown
        return provider, supported or []


def _streamed(body: Mapping[str, Any]) -> dict[str, Any]:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    return options if body.get("stream") else {}


async def chunks_of(stream: Any) -> AsyncGenerator[dict[str, Any], None]:
    """The events of an opened stream as documents of OpenAI's shape. Closed early, it closes its
    connection to the provider. Raises CallRefused."""
    try:
        async for chunk in stream:
            yield _document(chunk)
    except Exception as failed:
        raise refusal_of(failed) from failed
    finally:
        for opened in (stream, *(_responses.get() or ())):
            with suppress(Exception):
                await asyncio.wait_for(asyncio.shield(opened.aclose()), CLOSE_S)


def whole_of(answer: Any) -> dict[str, Any]:
    return _document(answer)


def _document(answer: Any) -> dict[str, Any]:
    document: dict[str, Any] = answer.model_dump(exclude_none=True)
    out = {name: document.get(name) for name in ("id", "object", "created", "model")}
    out["choices"] = [_choice(choice) for choice in document.get("choices") or ()]
    return out | _used(document)


def _used(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the provider has counted, and nobody else."""
    usage = None if _guesses.get() else usage_of(document.get("usage"))
    return {"usage": usage} if usage else {}


def _guess_nothing(*_: Any, model: str | None = None, **__: Any) -> int:
    """In place of the library's own counter, which it asks where a provider has not counted: for a
    whole prompt or answer with its model, and without one for how much of an answer was thought."""
    if model is not None and (guesses := _guesses.get()) is not None:
        guesses.append(model)
    return 0


def _invent_no_end(wrapper: Any, gemini: Any) -> None:
    """Where a stream ends before its answer does, the library says that the answer has ended; and
    of Gemini it says so with each piece."""
    last_chunk, choice_of = wrapper.finish_reason_handler, gemini._create_streaming_choice

    def last_chunk_if_any(self: Any) -> Any:
        if not (self.received_finish_reason or self.intermittent_finish_reason):
            raise CallRefused(502, "The provider's stream ended before its answer did.")
        return last_chunk(self)

    def piece_of(*, candidate: Mapping[str, Any], **named: Any) -> Any:
        choice = choice_of(candidate=candidate, **named)
        if not candidate.get("finishReason"):
            choice.finish_reason = None
        return choice

    wrapper.finish_reason_handler = last_chunk_if_any
    gemini._create_streaming_choice = staticmethod(piece_of)


def _choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    out = {name: choice[name] for name in CHOICE if choice.get(name) is not None}
    for spoken in ("delta", "message"):
        if spoken in out:
            out[spoken] = {n: v for n, v in out[spoken].items() if n in SPOKEN and v is not None}
    return out


def refusal_of(failed: Exception) -> CallRefused:
    """The library's exceptions by their status; whatever has none is a server at fault."""
    if isinstance(failed, CallRefused):
        return failed
    while isinstance(original := getattr(failed, "original_exception", None), Exception):
        failed = original
    status = getattr(failed, "status_code", None)
    status = status if isinstance(status, int) and 400 <= status < 600 else 502
    headers = getattr(getattr(failed, "response", None), "headers", None) or {}
    return CallRefused(
        status,
        words_of(str(getattr(failed, "message", None) or failed)),
        param=getattr(failed, "param", None),
        code=getattr(failed, "code", None) if status in STATUSES_OF_CALLS else None,
        retry_after_s=headers.get("retry-after"),
    )


def words_of(message: str) -> str:
    """The provider's own words in a message of the library, or the first line of it: behind that
    it may have told where in its own source it was."""
    line = _CLASSES.sub("", message.strip()).split("\n", 1)[0]
    document = message[message.find("{") : message.rfind("}") + 1]
    with suppress(ValueError, AttributeError):
        error = json.loads(document)
        inner = error.get("error", error)
        said = inner.get("message") if isinstance(inner, dict) else inner
        if isinstance(said, str) and said:
            line = said
    return line[:WORDS_MAX]


def _mind_connections(httpx: Any, handler: Any) -> None:
    """Redirects are not followed: a key goes where the pool says and nowhere else. Nothing is sent
    twice. What is opened for a call is known to it, to be closed when its caller leaves: not every
    reader does that."""
    send, send_here = httpx.AsyncClient.send, httpx.Client.send

    async def send_once(self: Any, request: Any, **named: Any) -> Any:
        response = await send(self, request, **named | NO_REDIRECT)
        if (responses := _responses.get()) is not None:
            responses.append(response)
        return response

    def send_once_here(self: Any, request: Any, **named: Any) -> Any:
        return send_here(self, request, **named | NO_REDIRECT)

    async def not_again(self: Any, *_: Any, **__: Any) -> Any:
        raise httpx.ReadError("the connection to the provider broke")

    httpx.AsyncClient.send, httpx.Client.send = send_once, send_once_here
    handler.single_connection_post_request = not_again
