"""The outermost ASGI application: calls of models by their path, everything else by FastAPI.

A generating route passes none of FastAPI's layers: together they cost more than the call itself.
It bounds its body, names its answer and turns its own crashes into errors.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from gateway.api.openapi.document import DescribedApi

AsgiApp = Callable[..., Awaitable[None]]


class EdgeApi(DescribedApi):
    """`generating` by path; filled in once their parts are there. They stand among the routes as
    well, which answer what is no POST. HEAD is answered as GET is: the server leaves out the body,
    as its own scope still says HEAD."""

    def __init__(self, lifespan: Callable[[Any], Any]) -> None:
        super().__init__(lifespan)
        self.generating: dict[str, AsgiApp] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self.generating.get(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await super().__call__(scope, receive, send)
