"""Forms of our own pages: where one came from, and its fields, read within bounds.

A form's body is read here by hand: short fields that are URL-encoded need no parser of multipart.
"""

from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from fastapi import Request

FIELDS_MAX = 8


def came_from_us(request: Request) -> bool:
    """Browsers say where a form was sent from; what says nothing at all is no browser."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def read_form(request: Request, *, bytes_max: int) -> Mapping[str, str]:
    """The first value of each field. Empty for a form that is too large, or is none."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > bytes_max:
            return {}
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=FIELDS_MAX)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}
