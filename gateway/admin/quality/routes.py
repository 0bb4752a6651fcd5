"""`/admin/v1/quality`: versions of what was learned of models' quality, into force and back."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.quality.schemas import (
    ActiveQualityAnswer,
    QualityAnswer,
    QualityBody,
    QualityWithDocument,
)
from gateway.admin.quality.service import Qualities
from gateway.admin.versions.schemas import Version, VersionActivationBody, VersionRollbackBody
from gateway.api.pages import Paged
from gateway.api.schemas import Page

router = APIRouter(prefix="/quality", tags=["quality"])


@router.get("", response_model=Page[QualityAnswer])
async def list_qualities(qualities: Qualities, page: Paged) -> Any:
    """Every version without its document, newest first."""
    return await qualities.page(page)


@router.post("", status_code=201, response_model=QualityAnswer)
async def create_quality(qualities: Qualities, body: QualityBody) -> Any:
    """Stores a document as a draft. What is wrong with it is refused with every mistake."""
    return await qualities.create(body)


@router.get("/active", response_model=ActiveQualityAnswer)
async def show_active_quality(qualities: Qualities) -> Any:
    """The version in force, and which one each gateway runs. 404 where none is."""
    return await qualities.in_force()


@router.post("/rollback", response_model=QualityAnswer)
async def roll_back_quality(qualities: Qualities, body: VersionRollbackBody) -> Any:
    """Puts the version into force that was before the active one, or `to`."""
    return await qualities.rollback(body)


@router.get("/{version}", response_model=QualityWithDocument)
async def show_quality(qualities: Qualities, version: Version) -> Any:
    return await qualities.version(version)


@router.post("/{version}/activate", response_model=QualityAnswer)
async def activate_quality(
    qualities: Qualities, version: Version, body: VersionActivationBody
) -> Any:
    """Puts a version into force. Calls that were decided keep what they were decided by."""
    return await qualities.activate(version, body)
