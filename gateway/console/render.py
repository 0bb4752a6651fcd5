"""From view values to HTML that runs nothing but our own files.

Every response of the console leaves through here, so that none lacks the policy: no inline script
or style, nothing from elsewhere, no framing, nothing kept by a cache.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

FOLDER = Path(__file__).parent
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
GUARDS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # `no-referrer` would make the origin of our own forms null
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

_PAGES = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(template: str, status: int = 200, **values: Any) -> Response:
    return guarded(HTMLResponse(_PAGES.get_template(template).render(values), status))


def guarded(response: Response, changes: Mapping[str, str] | None = None) -> Response:
    response.headers.update(GUARDS | dict(changes or {}))
    return response
