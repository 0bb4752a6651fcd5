"""`/internal/v1/weights`: the store of checkpoints for workers, who show their secret, and what
they say of their own stores. Nobody else is answered, and no page describes it."""

import hmac
from pathlib import Path
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import FileResponse

from gateway.api.dependencies import parts_of, whole_body
from gateway.catalog.weights.files import ELSEWHERE
from gateway.errors import ApiError, bad_request
from gateway.settings import Settings
from workers.weights.manifest import MANIFEST, is_id, is_served
from workers.weights.reports import WeightsReport, keep_report
from workers.weights.sources import SECRET_HEADER

CHUNK_BYTES = 1 << 20


class WeightsResponse(FileResponse):
    """Read by the piece, never whole."""

    chunk_size = CHUNK_BYTES


async def require_worker(request: Request) -> None:
    """Raises ApiError 401 unless the secret is that of our workers."""
    ours = parts_of(request).settings.worker_secret or ""
    given = request.headers.get(SECRET_HEADER, "")
    if not ours or not hmac.compare_digest(given.encode(), ours.encode()):
        raise ApiError(401, "The worker secret is missing or wrong.", code="invalid_worker_secret")


router = APIRouter(
    prefix="/internal/v1/weights",
    include_in_schema=False,
    dependencies=[Depends(require_worker)],
)


@router.get("/{id}/{name:path}")
async def read_weights(request: Request, id: str, name: str) -> Response:
    """One file of a checkpoint, or a range of it."""
    path = stored_file(parts_of(request).settings, id, name)
    if path is None:
        raise ApiError(404, f"There is no {name} of {id}.", code="not_found")
    return WeightsResponse(path, media_type="application/octet-stream")


@router.put("/report", status_code=204)
async def take_report(request: Request, raw: Annotated[bytes, Depends(whole_body)]) -> None:
    parts = parts_of(request)
    try:
        report = msgspec.json.decode(raw, type=WeightsReport)
    except msgspec.DecodeError as odd:
        raise bad_request(f"The report cannot be read: {odd}") from odd
    await keep_report(parts.redis, report, round(parts.outside.clock() * 1000))


def stored_file(settings: Settings, id: str, name: str) -> Path | None:
    """Nothing but the files of a checkpoint, whatever the names say."""
    if not is_id(id) or not (name == MANIFEST or is_served(name)):
        return None
    folders = (settings.weights, settings.weights / ELSEWHERE)
    places = [folder / id / name for folder in folders]
    return next((path for path in places if path.is_file()), None)
