"""The writer as a controller sees it: one HTTP request for each write.

Raises RayUnavailable when the writer or Ray cannot answer, RayRefused when Ray refused, and
LeaderRefused when another controller leads.
"""

import aiohttp
import msgspec

from workers.ray.serve_api import RayRefused, RayUnavailable
from workers.writer.service import LeaderRefused
from workers.writer.writes import SECRET_HEADER, WRITES_PATH, Leader, Order, Write


class WriterApi:
    """The writer of one cluster. `session` is the caller's and outlives it."""

    def __init__(
        self, session: aiohttp.ClientSession, *, url: str, secret: str, timeout_s: float
    ) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._headers = {SECRET_HEADER: secret}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def do(self, leader: Leader, write: Write) -> None:
        """Returns when the cluster has it."""
        status, content = await self._post(msgspec.json.encode(Order(leader, write)))
        match status:
            case 204:
                return
            case 409:
                raise LeaderRefused(leader, msgspec.json.decode(content, type=Leader))
            case 422:
                raise RayRefused(content.decode(errors="replace"))
        raise RayUnavailable(f"writer: {status} {content[:500].decode(errors='replace')}")

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        try:
            async with self._session.post(
                self._url + WRITES_PATH, data=body, headers=self._headers, timeout=self._timeout
            ) as reply:
                return reply.status, await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as unreachable:
            reason = str(unreachable) or type(unreachable).__name__
            raise RayUnavailable(f"writer: {reason}") from unreachable
