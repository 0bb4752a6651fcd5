"""What servers outside answer in one document that is no text: rankings and verdicts, as frames.

Each function raises Cut for whatever is not of its shape: such an answer is none.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from billing.types import Usage
from gateway.audio.transcription import Transcription
from gateway.audio.transcripts import read_transcript
from gateway.call.frame import Frame
from gateway.call.request import Payload
from gateway.images.answers import read_images
from gateway.images.generations import Drawing
from gateway.scores.documents import count, decoded, result_frame
from gateway.scores.moderations import Suspects
from gateway.scores.rerank import RankedDocument, Ranking, search_units
from gateway.upstream.answer import Cut

ReadDocument = Callable[[bytes], Frame]


def reader_for(payload: Payload, prompt_tokens: int) -> ReadDocument | None:
    """Of the answer to such a payload. `prompt_tokens` are what is counted where a server does not
    say what it used. None: it comes as text or as vectors."""
    if isinstance(payload, Ranking):
        return partial(read_ranking, ranking=payload, prompt_tokens=prompt_tokens)
    if isinstance(payload, Suspects):
        return partial(read_verdicts, suspects=payload, prompt_tokens=prompt_tokens)
    if isinstance(payload, Transcription):
        return partial(read_transcript, transcription=payload, prompt_tokens=prompt_tokens)
    if isinstance(payload, Drawing):
        return partial(read_images, drawing=payload, prompt_tokens=prompt_tokens)
    return None


class _Tokens(msgspec.Struct):
    """OpenAI's, vLLM's and Jina's words."""

    prompt_tokens: int | None = None
    total_tokens: int | None = None


class _Billed(msgspec.Struct):
    search_units: float | None = None


class _Counted(msgspec.Struct):
    input_tokens: float | None = None


class _Meta(msgspec.Struct):
    """Cohere's words."""

    billed_units: _Billed | None = None
    tokens: _Counted | None = None


class _Result(msgspec.Struct):
    index: int
    relevance_score: float


class _Ranking(msgspec.Struct):
    results: list[_Result]
    usage: _Tokens | None = None
    meta: _Meta | None = None


def read_ranking(body: bytes, *, ranking: Ranking, prompt_tokens: int) -> Frame:
    """The most relevant documents first, each once."""
    answer = decoded(body, _Ranking)
    results = sorted(answer.results, key=lambda each: -each.relevance_score)
    places = {each.index for each in results}
    if len(places) < len(results) or not places <= set(range(len(ranking.documents))):
        raise Cut("a ranking of documents that were not sent")
    if not results or not all(math.isfinite(each.relevance_score) for each in results):
        raise Cut("a ranking without scores")
    best = [RankedDocument(each.index, each.relevance_score) for each in results[: ranking.top_n]]
    tokens = count(_tokens_of(answer), prompt_tokens)
    units = count(_units_of(answer), search_units(len(ranking.documents)))
    return result_frame(msgspec.json.encode(best), Usage(input=tokens, units=units))


class _Verdict(msgspec.Struct):
    flagged: bool
    categories: dict[str, bool | None]
    category_scores: dict[str, float | None]
    category_applied_input_types: dict[str, Any] | None = None


class _Verdicts(msgspec.Struct):
    results: list[msgspec.Raw]
    usage: _Tokens | None = None


def read_verdicts(body: bytes, *, suspects: Suspects, prompt_tokens: int) -> Frame:
    """One for each text, as it came."""
    answer = decoded(body, _Verdicts)
    if len(answer.results) != suspects.verdicts:
        raise Cut(f"{len(answer.results)} verdicts where there are {suspects.verdicts}")
    for each in answer.results:
        decoded(bytes(each), _Verdict)
    tokens = answer.usage and (answer.usage.prompt_tokens or answer.usage.total_tokens)
    return result_frame(
        msgspec.json.encode(answer.results), Usage(input=count(tokens, prompt_tokens))
    )


def _tokens_of(answer: _Ranking) -> float | None:
    if answer.usage is not None:
        return answer.usage.total_tokens or answer.usage.prompt_tokens
    tokens = answer.meta.tokens if answer.meta is not None else None
    return tokens.input_tokens if tokens is not None else None


def _units_of(answer: _Ranking) -> float | None:
    billed = answer.meta.billed_units if answer.meta is not None else None
    return billed.search_units if billed is not None else None
