"""What documents in versions have in common: a version, its activation, and what runs where."""

from typing import Annotated

from fastapi import Path
from pydantic import AliasPath, Field, StringConstraints

from gateway.api.fields import Text
from gateway.api.schemas import Answer, At, Body, read_from
from gateway.fields import INTEGER_MAX, Several
from gateway.versions.store import VersionStatus

Version = Annotated[int, Path(ge=1, le=INTEGER_MAX)]
VersionComment = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=500, pattern=r"^[^\x00]*$"),
    Field(description="why", examples=["Long prompts go where they cost least"]),
]


class VersionBody(Body):
    """A document as text. How long one may be is a mistake of the document."""

    document: str
    comment: Text = Field("", max_length=500)


class VersionActivationBody(Body):
    comment: VersionComment
    expects: Several | None = Field(
        None, description="the version that is active now; 409 where another one is"
    )


class VersionRollbackBody(Body):
    comment: VersionComment
    to: Several | None = Field(
        None, description="a version that was active; null is the one before the active one"
    )


class VersionAnswer(Answer):
    model_config = read_from("row")
    object: str
    version: int
    status: VersionStatus = Field(validation_alias="status")
    sha256: str = Field(description="of the document in UTF-8")
    comment: str
    author: str
    created_at: At = Field(validation_alias=AliasPath("row", "created_us"))
    activated_at: At | None = Field(validation_alias="activated_us")
    activated_by: str | None = Field(validation_alias="activated_by")
    activation_comment: str | None = Field(validation_alias="activation_comment")


class BrokenVersionAnswer(Answer):
    version: int
    message: str


class GatewayVersion(Answer):
    """What a gateway runs; null where it has not said so."""

    id: str
    version: int | None
    since: At | None = Field(validation_alias="since_us")
    broken: BrokenVersionAnswer | None = Field(
        description="the active version, where this gateway cannot run it and keeps another"
    )
