"""The way to the process of adapters: where it listens, our secret with it, and what it is told of
a pool. A provider's key is never here: the process is told the name of a variable.
"""

import hmac
from dataclasses import dataclass, field

from routing.types import Pool

URL_HEADER = "x-sluice-provider-url"
KEY_HEADER = "x-sluice-provider-key"
LABEL = b"sluice providers"


@dataclass(frozen=True, slots=True)
class ProvidersLink:
    base_url: str
    secret: str = field(repr=False)

    def headers(self, pool: Pool) -> dict[str, str]:
        """Of a call of a pool that has an adapter."""
        headers = {"authorization": f"Bearer {self.secret}", URL_HEADER: pool.base_url or ""}
        return headers | ({KEY_HEADER: pool.api_key_env} if pool.api_key_env else {})


def providers_secret(worker_secret: str) -> str:
    """Made of the one that gateways and workers share, which the process of adapters is not
    told."""
    return hmac.new(worker_secret.encode(), LABEL, "sha256").hexdigest()
