"""Sound leaves as it comes, once its first piece is here. Guards law 9 where no event can tell of
an error: sound that was cut has no clean end, its connection is closed."""

from contextlib import AbstractAsyncContextManager, nullcontext

from billing.money import usd
from gateway.call import rate_headers
from gateway.call.frame import Frame, SoundChoice
from gateway.call.open_call import OpenCall
from gateway.errors import ApiError
from gateway.wire.reply import Exchange
from routing.types import Candidate


class SoundReply:
    """A reply whose cost is known when it begins."""

    def __init__(self, exchange: Exchange, content_type: str) -> None:
        self._exchange = exchange
        self._content_type = content_type
        self.is_committed = False

    def keeping_alive(self, open_call: OpenCall) -> AbstractAsyncContextManager[None]:
        """Nothing may stand before the sound."""
        return nullcontext()

    async def begin(self, open_call: OpenCall, candidate: Candidate) -> None:
        headers = rate_headers.limits(open_call) | rate_headers.route(candidate)
        headers["content-type"] = self._content_type
        headers["x-sluice-cost-usd"] = usd(open_call.charge.amount_nanousd)
        self.is_committed = True
        await self._exchange.start(200, headers)

    async def forward(self, frame: Frame, more: bool = False) -> None:
        for choice in frame.choices:
            if isinstance(choice, SoundChoice) and choice.sound:
                at_once = self._exchange.piece_at_once
                if at_once is None or not at_once(choice.sound):
                    await self._exchange.body(choice.sound, more=True)

    def start_over(self) -> bool:
        return False

    async def stop_early(self, reason: str) -> None:
        """What there was of it has left."""

    async def finish(self, open_call: OpenCall) -> None:
        await self._exchange.body(b"")

    async def fail(self, error: ApiError) -> None:
        if self.is_committed:
            await self._exchange.hang_up()
            return
        self.is_committed = True
        await self._exchange.error(error)
