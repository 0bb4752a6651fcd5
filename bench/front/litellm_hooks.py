"""What LiteLLM is given for a comparison: a key with limits, and a usage record for each call.

Runs inside LiteLLM's own environment (see peers.py).
"""

import os

from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import UserAPIKeyAuth
from redis.asyncio import Redis


async def authenticate(request, api_key: str):  # type: ignore[no-untyped-def]
    if api_key != os.environ["BENCH_KEY"]:
        raise PermissionError("unknown key")
    return UserAPIKeyAuth(
        api_key=api_key,
        user_id="tenant",
        team_id="team",
        rpm_limit=10**8,
        tpm_limit=10**10,
        max_parallel_requests=10**5,
    )


class Meter(CustomLogger):
    def __init__(self) -> None:
        super().__init__()
        self._redis = Redis(port=int(os.environ["BENCH_REDIS_PORT"]))

    async def async_log_success_event(self, kwargs, response, begun, ended):  # type: ignore[no-untyped-def]
        usage = getattr(response, "usage", None)
        record = {"model": kwargs.get("model") or "", "usage": str(usage)}
        await self._redis.xadd("usage", record, maxlen=10_000)  # type: ignore[arg-type]


meter = Meter()
