"""What the leading controller writes, by way of the cluster's one writer.

Claims the lead before the first write, so that an earlier leader that wakes up is refused. Without
an answer of the writer nothing is written, and replicas serve on as they are.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import aiohttp

from workers.ray.file import RayFile
from workers.ray.serve_api import RayRefused, RayUnavailable
from workers.settings import WorkersSettings
from workers.writer.client import WriterApi
from workers.writer.writes import Lead, Leader, Write

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`is_known`: Ray has it, or refused it. `refusal`: in its words."""

    is_known: bool
    refusal: str = ""


class ControllerWrites:
    """`leader` is this controller while it leads. Raises LeaderRefused when another one does.

    A lead that ended is never gone on with, not even under a later lease of the same controller:
    what it decided is old.
    """

    def __init__(
        self,
        settings: WorkersSettings,
        session: aiohttp.ClientSession,
        leader: Callable[[], Leader | None],
    ) -> None:
        self._settings = settings
        self._session = session
        self._leader = leader
        self._lead: Leader | None = None
        self._url: str | None = None
        self._api: WriterApi | None = None
        self._trouble = ""

    def begin(self, leader: Leader) -> None:
        self._lead, self._api, self._url = leader, None, None

    @property
    def leads(self) -> bool:
        return self._lead is not None and self._leader() == self._lead

    @property
    def epoch(self) -> int:
        return 0 if self._lead is None else self._lead.epoch

    async def claim(self, place: RayFile | None) -> None:
        """Claim the lead at the writer of this cluster, once. Nothing is written before that."""
        url = None if place is None else place.writer_url
        if url == self._url:
            return
        self._url, self._api = None, None if url is None else self._writer(url)
        error = await self._do(Lead())
        self._note(error)
        if error is None:
            self._url = url
        else:
            self._api = None

    async def do(self, write: Write) -> Outcome:
        """While the writer is away the write is not done: the next round decides anew."""
        error = await self._do(write)
        if isinstance(error, RayRefused):
            log.warning("%s: %s", type(write).__name__, error)
            return Outcome(True, str(error))
        self._note(error)
        return Outcome(error is None)

    async def do_all(self, writes: Iterable[Write]) -> None:
        """An error of one does not stop the others."""
        for write in writes:
            await self.do(write)

    async def _do(self, write: Write) -> RayRefused | RayUnavailable | None:
        if self._lead is None or self._api is None or not self.leads:
            return RayUnavailable(self._trouble)
        try:
            await self._api.do(self._lead, write)
        except (RayRefused, RayUnavailable) as error:
            return error
        return None

    def _writer(self, url: str) -> WriterApi:
        return WriterApi(
            self._session,
            url=url,
            secret=self._settings.worker_secret.get_secret_value(),
            timeout_s=self._settings.controller.ray_timeout_s,
        )

    def _note(self, error: Exception | None) -> None:
        """Log an error of the writer once, not in every round."""
        trouble = "" if error is None else str(error)
        if trouble and trouble != self._trouble:
            log.warning("%s", trouble)
        self._trouble = trouble
