"""An application of somebody else's, on the cluster that a test joins."""

from typing import Any

from ray import serve


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Foreign:
    async def __call__(self, request: Any) -> str:
        return "foreign"


app = Foreign.bind()
