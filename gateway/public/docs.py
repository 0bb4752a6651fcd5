"""`/docs`: the API's description as a page, by Swagger UI.

Its script and style are kept here (`swagger_ui/`, from the npm package `swagger-ui-dist`, Apache
2.0) and come from our own origin, which is the console's too: a script of somebody else's would
run beside its session.
"""

import hashlib
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

VERSION = "5.35.0"
FOLDER = Path(__file__).parent / "swagger_ui"
SHA256 = {
    "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
}
"""Of the files as they were published."""
KINDS = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "start.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice: the API</title>
<link rel="icon" href="console/static/sluice.svg">
<link rel="stylesheet" href="docs/swagger-ui.css">
<script src="docs/swagger-ui-bundle.js" defer></script>
<script src="docs/start.js" defer></script>
</head>
<body><div id="swagger-ui"></div></body>
</html>
"""
GUARDS = {
    "content-security-policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        )
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Pictures in the style sheet are `data:`; it loads none from elsewhere."""

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def docs() -> Response:
    return HTMLResponse(PAGE, headers=GUARDS)


@router.get("/docs/{name}")
def part(request: Request, name: str) -> Response:
    """Sent again only when it has changed."""
    if name not in KINDS:
        raise HTTPException(404)
    body = (FOLDER / name).read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = GUARDS | {"etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=KINDS[name], headers=headers)
