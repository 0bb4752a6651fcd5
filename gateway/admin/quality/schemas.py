"""Documents of learned quality: versions."""

from typing import Literal

from pydantic import Field

from gateway.admin.versions.schemas import GatewayVersion, VersionAnswer, VersionBody


class QualityBody(VersionBody):
    document: str = Field(description="the JSON that `sluice quality fit` writes")


class QualityAnswer(VersionAnswer):
    object: Literal["quality"] = "quality"


class QualityWithDocument(QualityAnswer):
    document: str


class ActiveQualityAnswer(QualityAnswer):
    """The version in force, and what runs where."""

    gateways: list[GatewayVersion] = Field(validation_alias="gateways")
