"""`/v1/rerank` and `/v2/rerank` on the wire: documents in the order of their relevance to a
query, in the shapes of Jina and of Cohere.

The documents of an answer are those that were sent, word for word, whatever a server says of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from billing.prices.tariff import Component
from billing.types import Usage
from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import TokenCounter
from gateway.errors import bad_request
from gateway.scores.payload import ScoredPayload
from gateway.scores.request import whole_request
from gateway.wire.answer import AnswerHead
from gateway.wire.bodies.checks import Takes, empty_array, invalid_type, takes_no_more, words
from gateway.wire.bodies.provider import PROVIDER
from gateway.wire.bodies.rules import CallBody, Reader, in_words, neutral, own
from gateway.wire.json_schema import array, either, part, text
from gateway.wire.whole_choice import WholeChoice
from routing.types import Task

DOCUMENTS_MAX = 2048
TOKENS_PER_DOC_MAX = 2**20
CHUNK_TOKENS = 500
"""Cohere counts a document that is longer, its query included, as several."""
UNIT_DOCUMENTS = 100
"""So many documents and one query are a search unit."""


def _documents(name: str, value: object) -> None:
    if not isinstance(value, list):
        raise invalid_type(name, "an array of strings or of objects with a 'text'", value)
    if not value:
        raise empty_array(name)
    if len(value) > DOCUMENTS_MAX:
        raise bad_request(
            f"Invalid '{name}': array too long. Expected an array with maximum length "
            f"{DOCUMENTS_MAX}, but got an array with length {len(value)} instead.",
            name,
            "array_above_max_length",
        )
    for index, document in enumerate(value):
        _document(f"{name}[{index}]", document)


def _document(name: str, value: object) -> None:
    if isinstance(value, dict):
        for key in value:
            if key != "text":
                where = f"{name}.{key}"
                message = f"Unsupported parameter: '{where}': documents are text here."
                raise bad_request(message, where, "unsupported_parameter")
        name, value = f"{name}.text", value.get("text")
    words(name, value)


WORDS = text(minLength=1)
DOCUMENT = either(WORDS, part({"text": WORDS}))


class RerankBody(CallBody, frozen=True, kw_only=True):
    query: Annotated[str, own(words, WORDS)]
    documents: Annotated[
        list[Any], own(_documents, array(DOCUMENT, minItems=1, maxItems=DOCUMENTS_MAX))
    ]
    top_n: Annotated[int, Meta(ge=1, le=TOKENS_PER_DOC_MAX)] | None = None
    return_documents: bool | None = None
    max_tokens_per_doc: Annotated[int, Meta(ge=1, le=TOKENS_PER_DOC_MAX)] | None = None
    provider: Annotated[dict[str, Any] | None, in_words(PROVIDER)] = None
    priority: Annotated[int | float | None, neutral(0)] = None


READER = Reader(RerankBody)


@dataclass(frozen=True, slots=True)
class Ranking(ScoredPayload):
    """A query, and documents to order by it; `top_n` of them are wanted."""

    task: ClassVar[Task] = Task.RERANK
    param: ClassVar[str] = "documents"
    path: ClassVar[str] = "/rerank"
    unit: ClassVar[str] = Component.SEARCH_UNIT
    query: str
    documents: tuple[str, ...]
    top_n: int
    max_tokens_per_doc: int | None = None
    extra: Mapping[str, Any] | None = None

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        """Of each document with the query, as a model reads them."""
        query = tokens.count_text(self.query)
        return [query + tokens.count_text(document) for document in self.documents]

    def units(self, prompts: Sequence[int]) -> int:
        """The most search units that a server may report."""
        return search_units(sum(-(-tokens // CHUNK_TOKENS) for tokens in prompts))

    def longest_characters(self) -> int:
        return len(self.query) + max(map(len, self.documents))

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        body = {"query": self.query, "documents": self.documents, "top_n": self.top_n}
        if self.max_tokens_per_doc is not None:
            body["max_tokens_per_doc"] = self.max_tokens_per_doc
        return body | dict(self.extra or {})


def search_units(documents: int) -> int:
    return -(-documents // UNIT_DOCUMENTS)


def parse_rerank(
    body: bytes, takes: Takes = takes_no_more, *, returns_documents: bool = True
) -> GeneratingRequest:
    """`returns_documents`: where the body does not say. Raises ApiError 400 naming the
    parameter."""
    fields, extra = READER.read(body, takes)
    documents = tuple(each if isinstance(each, str) else each["text"] for each in fields.documents)
    wants = returns_documents if fields.return_documents is None else fields.return_documents
    payload = Ranking(
        query=fields.query,
        documents=documents,
        top_n=min(fields.top_n or len(documents), len(documents)),
        max_tokens_per_doc=fields.max_tokens_per_doc,
        extra=extra,
    )
    return whole_request(
        fields,
        payload,
        RerankForm(documents if wants else None),
        model=fields.model,
        provider=fields.provider,
        output_tokens_max=0,
        sold_by=payload,
    )


class RankedDocument(msgspec.Struct, frozen=True):
    """The place of a document among those that were sent, and how relevant it is."""

    index: int
    relevance_score: float


@dataclass(frozen=True, slots=True)
class RerankForm:
    """`documents`: those that were sent, where they are to come back."""

    documents: Sequence[str] | None

    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes:
        ranking = msgspec.json.decode(choices[0].result, type=list[RankedDocument])
        tokens = {"prompt_tokens": usage.prompt, "total_tokens": usage.total}
        billed = {"search_units": usage.units} if usage.units else {"input_tokens": usage.prompt}
        return msgspec.json.encode(
            {
                "id": f"rerank-{head.id}",
                "object": "list",
                "model": head.model,
                "results": [self._result(each) for each in ranking],
                "usage": tokens | {"cost": cost},
                "meta": {"api_version": {"version": "2"}, "billed_units": billed},
            }
        )

    def _result(self, ranked: RankedDocument) -> dict[str, Any]:
        result: dict[str, Any] = msgspec.structs.asdict(ranked)
        if self.documents is None:
            return result
        return result | {"document": {"text": self.documents[ranked.index]}}
