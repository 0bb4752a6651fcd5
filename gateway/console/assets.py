"""The files that pages load: one style sheet, two scripts, one drawing. They hold no secret."""

import hashlib
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from gateway.console.render import FOLDER, guarded

router = APIRouter(prefix="/console", include_in_schema=False)

KINDS = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "editor.js": "text/javascript; charset=utf-8",
    "sluice.svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    kind: str

    @property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:16]}"'


def asset(name: str) -> Asset | None:
    """Read from the package; None for any other name."""
    kind = KINDS.get(name)
    return Asset((FOLDER / "static" / name).read_bytes(), kind) if kind else None


@router.get("/static/{name}")
def static(request: Request, name: str) -> Response:
    """Always asked for again, and sent again only when it has changed."""
    file = asset(name)
    if file is None:
        raise HTTPException(404)
    headers = {"cache-control": "no-cache", "etag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return guarded(Response(status_code=304), headers)
    return guarded(Response(file.body, media_type=file.kind), headers)
