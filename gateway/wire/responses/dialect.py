"""What `/v1/responses` says otherwise than OpenAI's other routes: the event of an error, and the
names of its fields in errors that concern a conversation."""

import msgspec

from gateway.errors import ApiError
from gateway.wire.dialect import OpenAIDialect
from gateway.wire.origins import by_origin
from gateway.wire.responses.stream import error_fields
from gateway.wire.sse import named_event

ORIGINS = {"messages": "input", "max_tokens": "max_output_tokens"}


class ResponsesDialect(OpenAIDialect):
    def refusal(self, error: ApiError, request_id: str) -> bytes:
        return by_origin(error, ORIGINS).body()

    def failed(self, error: ApiError, request_id: str) -> bytes:
        told = {"type": "error", "sequence_number": 0} | error_fields(error)
        return named_event("error", msgspec.json.encode(told))


RESPONSES = ResponsesDialect()
