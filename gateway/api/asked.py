"""What `/v1/organization` may be asked: OpenAI's parameters, each checked, none ignored.

A list comes as `name=a&name=b`, or with `name[]` for name, as OpenAI's own clients send it.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from billing.queries import GroupBy
from gateway.api.buckets import Width
from gateway.api.fields import EpochS, Label
from gateway.errors import bad_request

LIMITS = {Width.MINUTE: (60, 1440), Width.HOUR: (24, 168), Width.DAY: (7, 31)}
"""By width how many buckets a page has, and how many at most."""
COST_DAYS_MAX = 180
OTHERS = (
    "audio_speeches",
    "audio_transcriptions",
    "code_interpreter_sessions",
    "file_search_calls",
    "images",
    "moderations",
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


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")
    start_time: EpochS = Field(description="epoch seconds, inclusive")
    end_time: EpochS | None = Field(None, description="epoch seconds, exclusive; default: now")
    project_ids: Values = []
    project_ids_: Values = Field([], alias="project_ids[]")
    api_key_ids: Values = []
    api_key_ids_: Values = Field([], alias="api_key_ids[]")
    page: str | None = Field(None, max_length=64, description="next_page of the page before")
    organization: Label | None = Field(None, description="for the admin key: only this one")

    def only(self) -> dict[GroupBy, Sequence[Any]]:
        """What counts, by dimension."""
        return _given(
            {
                GroupBy.PROJECT: self.project_ids + self.project_ids_,
                GroupBy.KEY: self.api_key_ids + self.api_key_ids_,
            }
        )


class AskedUsage(Asked):
    bucket_width: Width = Width.DAY
    user_ids: Values = Field([], description="keys belong to projects: no usage is a user's")
    user_ids_: Values = Field([], alias="user_ids[]")
    models: Values = []
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
        return super().only() | _given({GroupBy.MODEL: self.models + self.models_})

    @property
    def buckets_max(self) -> int:
        """Raises ApiError 400 for more than a page may have."""
        usual, most = LIMITS[self.bucket_width]
        if self.limit is not None and self.limit > most:
            message = f"limit: At most {most} buckets of {self.bucket_width} to a page."
            raise bad_request(message, "limit")
        return self.limit or usual


class AskedEmbeddings(AskedUsage):
    group_by: list[EmbeddingsGroup] = []
    group_by_: list[EmbeddingsGroup] = Field([], alias="group_by[]")

    @property
    def groups(self) -> list[str]:
        return [*dict.fromkeys((*self.group_by, *self.group_by_))]


class AskedCompletions(AskedUsage):
    batch: bool | None = None
    group_by: list[CompletionsGroup] = []
    group_by_: list[CompletionsGroup] = Field([], alias="group_by[]")

    @property
    def groups(self) -> list[str]:
        return [*dict.fromkeys((*self.group_by, *self.group_by_))]

    def only(self) -> dict[GroupBy, Sequence[Any]]:
        return super().only() | ({} if self.batch is None else {GroupBy.BATCH: [self.batch]})


class AskedOther(AskedUsage):
    """Of what is not to be had here: each of OpenAI's filters leaves nothing of nothing."""

    sources: Values = []
    sources_: Values = Field([], alias="sources[]")
    sizes: Values = []
    sizes_: Values = Field([], alias="sizes[]")
    vector_store_ids: Values = []
    vector_store_ids_: Values = Field([], alias="vector_store_ids[]")
    context_levels: Values = []
    context_levels_: Values = Field([], alias="context_levels[]")
    group_by: list[OtherGroup] = []
    group_by_: list[OtherGroup] = Field([], alias="group_by[]")


class AskedCosts(Asked):
    bucket_width: Literal["1d"] = "1d"
    limit: int = Field(7, ge=1, le=COST_DAYS_MAX, description="days")
    group_by: list[CostsGroup] = []
    group_by_: list[CostsGroup] = Field([], alias="group_by[]")

    @property
    def groups(self) -> list[str]:
        return [*dict.fromkeys((*self.group_by, *self.group_by_))]


def _given(wanted: dict[GroupBy, list[str]]) -> dict[GroupBy, Sequence[Any]]:
    return {dimension: values for dimension, values in wanted.items() if values}
