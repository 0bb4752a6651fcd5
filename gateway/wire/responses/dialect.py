"""What `/v1/responses` says otherwise than OpenAI's other routes: the event of an error, and the
names of its fields in what is found wrong with a conversation later on, by a worker say."""

import msgspec

from gateway.errors import ApiError
from gateway.wire.bodies.origins import by_origin
from gateway.wire.dialect import OpenAIDialect
from gateway.wire.responses.body import ORIGINS
from gateway.wire.responses.stream import error_fields
from gateway.wire.sse import named_event


class ResponsesDialect(OpenAIDialect):
    def refusal(self, error: ApiError, request_id: str) -> bytes:
        return by_origin(error, ORIGINS).body()

    def failed(self, error: ApiError, request_id: str) -> bytes:
        fields = {"type": "error", "sequence_number": 0} | error_fields(by_origin(error, ORIGINS))
        return named_event("error", msgspec.json.encode(fields))


RESPONSES = ResponsesDialect()
