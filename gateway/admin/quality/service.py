"""Documents of learned quality as an administrator keeps them."""

from typing import Annotated

from fastapi import Depends, Request

from gateway.admin.use_cases import admin_store, attempt
from gateway.admin.versions.service import VersionService
from gateway.api.dependencies import parts_of
from gateway.errors import ApiError
from gateway.quality.tables import QUALITIES
from gateway.versions.store import VersionStore
from routing.quality.document import BadQualityDocument, read


async def require_valid(document: str) -> object:
    """Raises ApiError 400, which names every mistake. A document is one line: its fields are their
    place."""
    try:
        return await attempt(lambda: read(document))
    except BadQualityDocument as bad:
        raise ApiError(
            400,
            f"document: {bad}",
            param="document",
            code="invalid_quality",
            errors=[{"line": 1, "column": 1, "message": each} for each in bad.mistakes],
        ) from bad


async def qualities_of(request: Request) -> VersionService:
    parts = parts_of(request)
    return VersionService(
        kind=QUALITIES,
        store=admin_store(parts),
        versions=VersionStore(parts.ledger, QUALITIES),
        keeper=parts.quality_keeper,
        require_valid=require_valid,
    )


Qualities = Annotated[VersionService, Depends(qualities_of)]
