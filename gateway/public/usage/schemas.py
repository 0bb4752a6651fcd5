"""What `/v1/organization` may be asked, and its answers, in OpenAI's own shapes.

Each parameter is checked, none ignored. A list comes as `name=a&name=b`, or with `name[]` for
name, as OpenAI's own clients send it.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal

from pydantic import AliasPath, Field, NonNegativeInt

from billing.queries import GroupBy
from gateway.api.fields import EpochS
from gateway.api.schemas import Answer, Body, Item
from gateway.api.time_buckets import Width
from gateway.errors import bad_request
from gateway.fields import Label

LIMITS = {Width.MINUTE: (60, 1440), Width.HOUR: (24, 168), Width.DAY: (7, 31)}
"""By width how many buckets a page has, and how many at most."""
COST_DAYS_MAX = 180
OTHERS = (
    "code_interpreter_sessions",
    "file_search_calls",
    "vector_stores",
    "web_search_calls",
)
"""What OpenAI counts and nobody can use here."""

Values = Annotated[list[Label], Field(max_length=100)]
EmbeddingsGroup = Literal["project_id", "user_id", "api_key_id", "model"]
CompletionsGroup = Literal["project_id", "user_id", "api_key_id", "model", "batch", "service_tier"]
OtherGroup = Literal[
    "project_id",
    "user_id",
    "api_key_id",
    "model",
    "size",
    "source",
    "vector_store_id",
    "context_level",
]
CostsGroup = Literal["project_id", "api_key_id", "line_item"]


class OrganizationQuery(Body):
    start_time: EpochS = Field(description="epoch seconds, inclusive")
    end_time: EpochS | None = Field(None, description="epoch seconds, exclusive; default: now")
    project_ids: Values = Field([])
    project_ids_: Values = Field([], alias="project_ids[]")
    api_key_ids: Values = Field([])
    api_key_ids_: Values = Field([], alias="api_key_ids[]")
    page: str | None = Field(None, max_length=64, description="next_page of the page before")
    organization: Label | None = Field(None, description="for the admin key: only this one")

    def only(self) -> dict[GroupBy, Sequence[Any]]:
        """What counts, by dimension."""
        return _nonempty(
            {
                GroupBy.PROJECT: self.project_ids + self.project_ids_,
                GroupBy.KEY: self.api_key_ids + self.api_key_ids_,
            }
        )


class UsageQuery(OrganizationQuery):
    bucket_width: Width = Width.DAY
    user_ids: Values = Field([], description="keys belong to projects: no usage is a user's")
    user_ids_: Values = Field([], alias="user_ids[]")
    models: Values = Field([])
    models_: Values = Field([], alias="models[]")
    limit: int | None = Field(
        None,
        ge=1,
        description="buckets: of `1d` 7 and at most 31, of `1h` 24 and 168, of `1m` 60 and 1440",
    )

    @property
    def is_of_users(self) -> bool:
        """Whether only what users did is asked for."""
        return bool(self.user_ids or self.user_ids_)

    def only(self) -> dict[GroupBy, Sequence[Any]]:
        return super().only() | _nonempty({GroupBy.MODEL: self.models + self.models_})

    @property
    def buckets_max(self) -> int:
        """Raises ApiError 400 for more than a page may have."""
        usual, most = LIMITS[self.bucket_width]
        if self.limit is not None and self.limit > most:
            message = f"limit: At most {most} buckets of {self.bucket_width} to a page."
            raise bad_request(message, "limit")
        return self.limit or usual


class EmbeddingsQuery(UsageQuery):
    group_by: list[EmbeddingsGroup] = Field([])
    group_by_: list[EmbeddingsGroup] = Field([], alias="group_by[]")

    @property
    def groups(self) -> list[str]:
        return [*dict.fromkeys((*self.group_by, *self.group_by_))]


class CompletionsQuery(UsageQuery):
    batch: bool | None = None
    group_by: list[CompletionsGroup] = Field([])
    group_by_: list[CompletionsGroup] = Field([], alias="group_by[]")

    @property
    def groups(self) -> list[str]:
        return [*dict.fromkeys((*self.group_by, *self.group_by_))]

    def only(self) -> dict[GroupBy, Sequence[Any]]:
        return super().only() | ({} if self.batch is None else {GroupBy.BATCH: [self.batch]})


class OtherQuery(UsageQuery):
    """Of what is not to be had here: each of OpenAI's filters leaves nothing of nothing."""

    sources: Values = Field([])
    sources_: Values = Field([], alias="sources[]")
    sizes: Values = Field([])
    sizes_: Values = Field([], alias="sizes[]")
    vector_store_ids: Values = Field([])
    vector_store_ids_: Values = Field([], alias="vector_store_ids[]")
    context_levels: Values = Field([])
    context_levels_: Values = Field([], alias="context_levels[]")
    group_by: list[OtherGroup] = Field([])
    group_by_: list[OtherGroup] = Field([], alias="group_by[]")


class CostsQuery(OrganizationQuery):
    bucket_width: Literal["1d"] = "1d"
    limit: int = Field(7, ge=1, le=COST_DAYS_MAX, description="days")
    group_by: list[CostsGroup] = Field([])
    group_by_: list[CostsGroup] = Field([], alias="group_by[]")

    @property
    def groups(self) -> list[str]:
        return [*dict.fromkeys((*self.group_by, *self.group_by_))]


def _nonempty(values_by_group: dict[GroupBy, list[str]]) -> dict[GroupBy, Sequence[Any]]:
    return {dimension: values for dimension, values in values_by_group.items() if values}


class TimeBucket(Answer, Generic[Item]):
    object: Literal["bucket"] = "bucket"
    start_time: int = Field(validation_alias=AliasPath("bucket", "from_s"))
    end_time: int = Field(validation_alias=AliasPath("bucket", "to_s"))
    results: list[Item]


class TimeBuckets(Answer, Generic[Item]):
    object: Literal["page"] = "page"
    data: list[TimeBucket[Item]]
    has_more: bool
    next_page: str | None


def of_sums(*path: str) -> Any:
    return Field(validation_alias=AliasPath("sums", *path))


def of_group(name: str) -> Any:
    """A dimension: null where nobody asked for groups by it."""
    return Field(None, validation_alias=AliasPath("group", name))


class ModelUsage(Answer):
    input_tokens: NonNegativeInt = of_sums("usage", "prompt")
    num_model_requests: NonNegativeInt = of_sums("requests")
    project_id: str | None = of_group("project_id")
    user_id: None = None
    api_key_id: str | None = of_group("api_key_id")
    model: str | None = of_group("model")


class EmbeddingsUsage(ModelUsage):
    object: Literal["organization.usage.embeddings.result"] = "organization.usage.embeddings.result"


class ModerationsUsage(ModelUsage):
    object: Literal["organization.usage.moderations.result"] = (
        "organization.usage.moderations.result"
    )


class TranscriptionsUsage(ModelUsage):
    object: Literal["organization.usage.audio_transcriptions.result"] = (
        "organization.usage.audio_transcriptions.result"
    )
    seconds: NonNegativeInt = of_sums("units")


class SpeechesUsage(ModelUsage):
    object: Literal["organization.usage.audio_speeches.result"] = (
        "organization.usage.audio_speeches.result"
    )
    characters: NonNegativeInt = of_sums("units")


class ImagesUsage(ModelUsage):
    """Images are counted where they are sold by the image. Sums know no sizes."""

    object: Literal["organization.usage.images.result"] = "organization.usage.images.result"
    images: NonNegativeInt = of_sums("units")
    source: None = None
    size: None = None


class CompletionsUsage(ModelUsage):
    object: Literal["organization.usage.completions.result"] = (
        "organization.usage.completions.result"
    )
    input_cached_tokens: NonNegativeInt = of_sums("cached_input")
    input_cache_write_tokens: NonNegativeInt = of_sums("cache_write")
    input_uncached_tokens: NonNegativeInt = of_sums("input")
    output_tokens: NonNegativeInt = of_sums("usage", "completion")
    input_text_tokens: NonNegativeInt = of_sums("input")
    input_cached_text_tokens: NonNegativeInt = of_sums("cached_input")
    output_text_tokens: NonNegativeInt = of_sums("usage", "completion")
    input_audio_tokens: NonNegativeInt = of_sums("audio_input")
    input_cached_audio_tokens: NonNegativeInt = 0
    output_audio_tokens: NonNegativeInt = of_sums("audio_output")
    input_image_tokens: NonNegativeInt = of_sums("image_input")
    input_cached_image_tokens: NonNegativeInt = 0
    output_image_tokens: NonNegativeInt = of_sums("image_output")
    batch: bool | None = of_group("batch")
    service_tier: str | None = of_group("service_tier")


class CostAmount(Answer):
    """A number, as OpenAI has it; exact amounts are the decimal strings of invoices."""

    value: float
    currency: Literal["usd"] = "usd"


class Costs(Answer):
    object: Literal["organization.costs.result"] = "organization.costs.result"
    amount: CostAmount
    line_item: str | None
    project_id: str | None = of_group("project_id")
    api_key_id: str | None = of_group("api_key_id")
    quantity: NonNegativeInt | None
    quantity_unit: Literal["tokens", "ms", "units"] | None
