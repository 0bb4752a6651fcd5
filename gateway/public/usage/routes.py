"""`/v1/organization`: usage and costs in OpenAI's own shapes.

OpenAI asks for an admin key here. A tenant's key reads all usage of its own organization and never
another's; the admin key reads everybody's, or with `organization` that of one. Keys belong to
projects, not to users: no usage is a user's.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from gateway.public.usage.schemas import (
    OTHERS,
    CompletionsQuery,
    CompletionsUsage,
    Costs,
    CostsQuery,
    EmbeddingsQuery,
    EmbeddingsUsage,
    ImagesUsage,
    ModerationsUsage,
    OtherQuery,
    SpeechesUsage,
    TimeBuckets,
    TranscriptionsUsage,
)
from gateway.public.usage.service import Usage
from routing.types import Task

router = APIRouter(prefix="/v1/organization", tags=["usage"])


@router.get("/usage/completions", response_model=TimeBuckets[CompletionsUsage])
async def completions(usage: Usage, query: Annotated[CompletionsQuery, Query()]) -> Any:
    """Requests and tokens of everything that has no list of its own, by bucket and group."""
    return await usage.used(query, query.groups)


@router.get("/usage/embeddings", response_model=TimeBuckets[EmbeddingsUsage])
async def embeddings(usage: Usage, query: Annotated[EmbeddingsQuery, Query()]) -> Any:
    """Requests and tokens of the models that embed, by bucket and group."""
    return await usage.used(query, query.groups, Task.EMBED)


@router.get("/usage/moderations", response_model=TimeBuckets[ModerationsUsage])
async def moderations(usage: Usage, query: Annotated[EmbeddingsQuery, Query()]) -> Any:
    """Requests and tokens of the models that moderate, by bucket and group."""
    return await usage.used(query, query.groups, Task.MODERATE)


@router.get("/usage/audio_transcriptions", response_model=TimeBuckets[TranscriptionsUsage])
async def audio_transcriptions(usage: Usage, query: Annotated[EmbeddingsQuery, Query()]) -> Any:
    """Requests, seconds and tokens of the models that transcribe, by bucket and group."""
    return await usage.used(query, query.groups, Task.TRANSCRIBE)


@router.get("/usage/audio_speeches", response_model=TimeBuckets[SpeechesUsage])
async def audio_speeches(usage: Usage, query: Annotated[EmbeddingsQuery, Query()]) -> Any:
    """Requests, characters and tokens of the models that speak, by bucket and group."""
    return await usage.used(query, query.groups, Task.SPEAK)


@router.get("/usage/images", response_model=TimeBuckets[ImagesUsage])
async def images(usage: Usage, query: Annotated[EmbeddingsQuery, Query()]) -> Any:
    """Requests, images and tokens of the models that make images, by bucket and group."""
    return await usage.used(query, query.groups, Task.IMAGE)


async def others(usage: Usage, query: Annotated[OtherQuery, Query()]) -> Any:
    """Of what OpenAI counts and nothing here does: buckets in which nothing was used."""
    return usage.unused(query)


for kind in OTHERS:
    router.add_api_route(
        f"/usage/{kind}", others, name=kind, response_model=TimeBuckets[CompletionsUsage]
    )


@router.get("/costs", response_model=TimeBuckets[Costs])
async def costs(usage: Usage, query: Annotated[CostsQuery, Query()]) -> Any:
    """What was charged, by day and group. `value` is a number, as OpenAI has it; exact amounts
    are the decimal strings of invoices."""
    return await usage.costs(query)
