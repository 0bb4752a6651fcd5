"""litellm, as this process uses it: offline, without retries, caches, callbacks or redirects.

The one file that imports it. Its map of prices is the one of its package, pinned by hash: it is
never fetched, and no money is reckoned from it.
"""

import asyncio
import json
import logging
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from providers.account import Account
from providers.cohere import CohereEvents
from providers.fields import EMBEDDINGS, fields_for, refuse_what_is_elsewhere
from providers.refused import CallRefused
from providers.usage import usage_of

OFFLINE = ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS")
OFFLINE_ALSO = ("LITELLM_LOCAL_BLOG_POSTS", "LITELLM_LOCAL_POLICY_TEMPLATES")
CLOSE_S = 1.0
CHOICE = ("index", "delta", "message", "finish_reason", "logprobs")
SPOKEN = ("role", "content", "refusal", "reasoning_content", "tool_calls")
STATUSES_OF_CALLS = frozenset({400, 413, 422})
WORDS_MAX = 500
_CLASSES = re.compile(r"^(?:[\w.]*(?:Error|Exception)\b:? ?-? ?)+")
"""What the library puts in front of a provider's words."""
_responses: ContextVar[list[Any] | None] = ContextVar("responses", default=None)
"""What was opened for the call of this context."""


class Library:
    """Imports litellm when it is made: about three seconds, and 160 MB."""

    def __init__(self) -> None:
        os.environ.update(dict.fromkeys((*OFFLINE, *OFFLINE_ALSO), "True"))
        import litellm
        from litellm.llms.cohere.chat import v2_transformation as transformation
        from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # it may quote prompts
        litellm.suppress_debug_info = True
        litellm.drop_params = litellm.modify_params = False
        litellm.num_retries = 0
        _mind_connections(AsyncHTTPHandler)
        transformation.CohereV2ModelResponseIterator = CohereEvents
        self._litellm = litellm

    async def chat(self, body: Mapping[str, Any], account: Account, timeout_s: float) -> Any:
        """An opened stream, or a whole answer. Raises CallRefused."""
        _responses.set([])
        refuse_what_is_elsewhere(body.get("messages"))
        arguments = self._arguments(body, account)
        arguments["messages"] = body.get("messages")
        arguments["_skip_mcp_handler"] = True  # tools are the caller's; that package is not here
        if body.get("stream"):
            arguments |= {"stream": True, "stream_options": {"include_usage": True}}
        return await self._call(self._litellm.acompletion, body, arguments, timeout_s)

    async def embed(
        self, body: Mapping[str, Any], account: Account, timeout_s: float
    ) -> dict[str, Any]:
        """A document of vectors. Raises CallRefused."""
        # Most providers know vectors as numbers only, and the gateway reads either form.
        plain = {name: value for name, value in body.items() if name != "encoding_format"}
        arguments = self._arguments(plain, account, embeds=True)
        arguments["input"] = body.get("input")
        answer = await self._call(self._litellm.aembedding, body, arguments, timeout_s)
        document: dict[str, Any] = answer.model_dump(exclude_none=True)
        used = usage_of(document.get("usage") or {})
        return {"object": "list", "data": document.get("data"), "usage": used}

    async def _call(
        self, function: Any, body: Mapping[str, Any], arguments: Mapping[str, Any], timeout_s: float
    ) -> Any:
        try:
            return await function(
                **arguments,
                model=body["model"],
                timeout=timeout_s,
                max_retries=0,
                num_retries=0,
                no_log=True,
            )
        except CallRefused:
            raise
        except Exception as failed:  # its classes have no common ancestor of their own
            raise refusal_of(failed) from failed

    def _arguments(
        self, body: Mapping[str, Any], account: Account, *, embeds: bool = False
    ) -> dict[str, Any]:
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
        known = {"known": EMBEDDINGS} if embeds else {}
        fields = fields_for(provider, supported or (), body, **known)
        return {**fields, **account.arguments(provider, "embed" if embeds else "chat")}


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
    if document.get("usage"):
        out["usage"] = usage_of(document["usage"])
    return out


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


def _mind_connections(handler: Any) -> None:
    """Redirects are not followed: a key goes where the pool says and nowhere else. What is opened
    for a call is known to it, to be closed when its caller leaves: not every reader does that."""
    create = handler.create_client

    def create_client(self: Any, *arguments: Any, **named: Any) -> Any:
        client = create(self, *arguments, **named)
        client.follow_redirects = False
        hooks = client.event_hooks
        client.event_hooks = hooks | {"response": [*hooks["response"], _note_response]}
        return client

    handler.create_client = create_client


async def _note_response(response: Any) -> None:
    if (responses := _responses.get()) is not None:
        responses.append(response)
