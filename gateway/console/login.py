"""Who may come in: the session of a request, the admin key at the door, and the way out.

Only signing in and out are POST, and both answer to our own pages alone.
"""

import asyncio
import re
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from gateway.console import session
from gateway.console.context import ConsoleContext, context_of
from gateway.console.forms import came_from_us, read_form
from gateway.console.render import guarded, page

router = APIRouter(prefix="/console", include_in_schema=False)
front = APIRouter(include_in_schema=False)

HOME = "/console"
DOOR = "/console/login"
WRONG_KEY_DELAY_S = 0.5
FORM_BYTES_MAX = 4096
_OWN_PAGE = re.compile(
    r"/console(/catalogue|/policies(/edit|/[0-9]{1,10})?|/(calls|invoices)/[A-Za-z0-9_-]{1,80}"
    r"|/invoices|/top-ups)?",
    re.ASCII,
)


async def is_signed_in(request: Request) -> bool:
    desk = context_of(request)
    key, now_s = desk.parts.settings.admin_key, desk.parts.outside.clock()
    cookie = request.cookies.get(session.COOKIE, "")
    return session.is_valid(key, cookie, now_s=now_s) and not await desk.ended.has(cookie)


def door_of(request: Request) -> Response:
    """To the login page, and back from there."""
    query = "" if request.url.path == HOME else "?" + urlencode({"next": request.url.path})
    return guarded(RedirectResponse(DOOR + query, status_code=303))


@front.get("/")
async def front_page() -> Response:
    """Whoever opens the address in a browser."""
    return RedirectResponse(HOME, status_code=307)


@router.get("/")
async def home() -> Response:
    """Typed with a slash too many."""
    return guarded(RedirectResponse(HOME, status_code=308))


@router.get("/login")
async def ask(request: Request, next: str = HOME) -> Response:
    if await is_signed_in(request):
        return guarded(RedirectResponse(_own(next), status_code=303))
    return _form(request, next)


@router.post("/login")
async def enter(request: Request) -> Response:
    desk = context_of(request)
    if not came_from_us(request):
        return _form(request, HOME, 403, "That form was sent from another site. Try it here.")
    fields = await read_form(request, bytes_max=FORM_BYTES_MAX)
    next_page, key = fields.get("next", HOME), fields.get("key", "").strip()
    address = request.client.host if request.client else ""
    wait_s = desk.guesses.take(address, desk.parts.outside.clock())
    if wait_s > 0:
        answer = _form(
            request,
            next_page,
            429,
            f"Too many wrong keys. Wait {wait_s + 1:.0f} s, then try again.",
        )
        answer.headers["retry-after"] = f"{wait_s + 1:.0f}"
        return answer
    if not session.is_admin_key(desk.parts.settings.admin_key, key):
        await asyncio.sleep(WRONG_KEY_DELAY_S)
        return _form(request, next_page, 401, "That is not the admin key.")
    desk.guesses.forgive(address)
    return _let_in(request, desk, _own(next_page))


@router.post("/logout")
async def leave(request: Request) -> Response:
    if not came_from_us(request):
        return door_of(request)
    desk = context_of(request)
    await desk.ended.end(request.cookies.get(session.COOKIE, ""), desk.parts.outside.clock())
    response = guarded(RedirectResponse(DOOR, status_code=303))
    response.delete_cookie(session.COOKIE, path=HOME, httponly=True, samesite="strict")
    return response


def _let_in(request: Request, desk: ConsoleContext, to: str) -> Response:
    outside, key = desk.parts.outside, desk.parts.settings.admin_key
    assert key is not None, "nobody knows a key that there is not"
    cookie = session.issue(key, now_s=outside.clock(), nonce=outside.entropy(session.NONCE_BYTES))
    response = guarded(RedirectResponse(to, status_code=303))
    response.set_cookie(
        session.COOKIE,
        cookie,
        max_age=session.LIFETIME_S,
        path=HOME,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


def _form(request: Request, next_page: str, status: int = 200, problem: str = "") -> Response:
    has_key = bool(context_of(request).parts.settings.admin_key)
    return page("login.html", status, next_page=_own(next_page), problem=problem, has_key=has_key)


def _own(path: str) -> str:
    """A page of ours, so that a link to the login page leads nowhere else."""
    return path if _OWN_PAGE.fullmatch(path) else HOME
