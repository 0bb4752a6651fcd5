"""What can be said of a model, declared once: for settings, declarations, the admin API, the row in
SQL and the OpenAPI document."""

from typing import Annotated, Self

from pydantic import Field, model_validator
from sqlalchemy import Dialect, String, TypeDecorator
from sqlmodel import Field as Column
from sqlmodel import SQLModel
from sqlmodel._compat import SQLModelConfig

from gateway.fields import Count, Several
from routing.types import Task

IMAGE_TOKENS_MAX = 1_000_000

ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
Quality = Annotated[float, Field(strict=True, ge=0, le=1)]
ImageTokens = Annotated[int, Field(strict=True, ge=1, le=IMAGE_TOKENS_MAX)]


class TaskText(TypeDecorator[Task]):
    """A task as the text that it is."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Dialect) -> Task | None:
        return None if value is None else Task(value)


class ModelFields(SQLModel):
    """A model, and what the router needs to know of it."""

    model_config = SQLModelConfig(extra="forbid", frozen=True, allow_inf_nan=False)

    path: str | None = Field(None, description="checkpoint folder; null for an external model")
    context_tokens: Several
    max_output_tokens: Several
    size_rank: Count
    quality: Quality
    task: Task = Column(default=Task.GENERATE, sa_type=TaskText)
    image_tokens: ImageTokens | None = Field(
        None, description="the most prompt tokens one image may cost; null: it takes none"
    )

    @property
    def is_external(self) -> bool:
        return self.path is None

    @model_validator(mode="after")
    def _images_are_seen_outside(self) -> Self:
        if self.image_tokens is not None and not self.is_external:
            raise ValueError("image_tokens is for models of external servers alone")
        return self

    @model_validator(mode="after")
    def _others_do_what_workers_do_not(self) -> Self:
        if self.task is not None and self.task.is_outside and not self.is_external:
            raise ValueError(f"no worker of ours can {self.task.verb}: leave out path")
        return self
