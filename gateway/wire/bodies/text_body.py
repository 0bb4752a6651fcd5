"""What every body that asks for text has, whichever its prompt is."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from gateway.call.request import GeneratingRequest, Payload, Streaming
from gateway.errors import ApiError, bad_request
from gateway.wire.answer import StreamableForm
from gateway.wire.bodies.checks import CHOICES_MAX, STOP_MAX, boolean, invalid_type, unsupported
from gateway.wire.bodies.prompts import WORDS
from gateway.wire.bodies.provider import PROVIDER, preferences_of, price_max_of
from gateway.wire.bodies.rules import CallBody, in_words, own
from gateway.wire.json_schema import BOOLEAN, array, const, either, maybe, objects

STREAM_OPTIONS = {
    "include_usage": maybe(BOOLEAN),
    "include_obfuscation": maybe(const(False)),
    "continuous_usage_stats": maybe(BOOLEAN),
}
TokensMax = Annotated[int, Meta(ge=1, le=2**31)]


def _stop(name: str, value: object) -> None:
    sequences = [value] if isinstance(value, str) else value
    if not isinstance(sequences, list) or not all(isinstance(s, str) and s for s in sequences):
        raise invalid_type(name, "a string or an array of non-empty strings", value)
    if len(sequences) > STOP_MAX:
        raise bad_request(f"'{name}' takes at most {STOP_MAX} sequences.", name, "invalid_value")


def _stream_options(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    for option, setting in value.items():
        where = f"{name}.{option}"
        if option not in STREAM_OPTIONS:
            raise ApiError(400, f"Unrecognized request argument supplied: {where}", param=where)
        if setting is not None:
            boolean(where, setting)
    if value.get("include_obfuscation"):
        raise unsupported(f"{name}.include_obfuscation")


class GeneratedBody(CallBody, frozen=True, kw_only=True):
    stream: bool | None = None
    stream_options: Annotated[
        dict[str, bool | None] | None,
        own(_stream_options, objects(STREAM_OPTIONS, *STREAM_OPTIONS, closed=True)),
    ] = None
    max_tokens: TokensMax | None = None
    stop: Annotated[
        str | list[str] | None, own(_stop, either(WORDS, array(WORDS, maxItems=STOP_MAX)))
    ] = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    n: Annotated[int, Meta(ge=1, le=CHOICES_MAX)] | None = None
    provider: Annotated[dict[str, Any] | None, in_words(PROVIDER)] = None
    disable_fallbacks: bool | None = None


def require_together(fields: Any, name: str, enabler: str) -> None:
    """Raises ApiError 400 where `name` asks for something and `enabler` is not on."""
    value = getattr(fields, name)
    is_set = any(value.values()) if isinstance(value, dict) else value is not None
    if is_set and not getattr(fields, enabler):
        message = f"The '{name}' parameter is only allowed when '{enabler}' is enabled."
        raise bad_request(message, name)


def generating(
    fields: GeneratedBody,
    payload: Payload,
    form: StreamableForm,
    output_tokens_max: int | None,
    *,
    end_user: str | None,
    end_user_param: str,
    prompt_cache_key: str | None = None,
    has_tools: bool = False,
    metadata: Mapping[str, str] | None = None,
) -> GeneratingRequest:
    """An answer in text, streamed on request."""
    streaming = None
    if fields.stream:
        options = fields.stream_options or {}
        includes = bool(options.get("include_usage"))
        counts = includes and bool(options.get("continuous_usage_stats"))
        streaming = Streaming(form, includes, counts)
    return GeneratingRequest(
        model=fields.model,
        payload=payload,
        form=form,
        streaming=streaming,
        output_tokens_max=output_tokens_max,
        service_tier=fields.service_tier or "auto",
        end_user=end_user,
        end_user_param=end_user_param,
        prompt_cache_key=prompt_cache_key,
        has_tools=has_tools,
        metadata=metadata or {},
        preferences=preferences_of(fields.provider, no_fallbacks=bool(fields.disable_fallbacks)),
        price_max=price_max_of(fields.provider),
    )
