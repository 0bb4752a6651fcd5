"""Names of our applications of Serve: the pool, a digest of all that it is made of, and on a
cluster of somebody else's whose it is. An application with another name is not ours.

Needs nothing but Python, because a process on such a cluster reads it.
"""

import re
from hashlib import sha256

DIGEST_CHARS = 8
OWN = ""
"""The owner on a cluster of our own."""
_NAME = re.compile(
    rf"pool-(?P<pool>.+)\.[0-9a-f]{{{DIGEST_CHARS}}}(-(?P<owner>[0-9a-f]{{{DIGEST_CHARS}}}))?"
)


def owner_of_secret(secret: str) -> str:
    """Those who share the workers' secret are one Sluice."""
    return sha256(f"owner {secret}".encode()).hexdigest()[:DIGEST_CHARS]


def name_of_app(pool: str, digest: str, owner: str) -> str:
    return "-".join(filter(None, (f"pool-{pool}.{digest}", owner)))


def pool_of(name: str) -> str | None:
    """The pool that an application of this name runs, where it is one of a Sluice."""
    match = _NAME.fullmatch(name)
    return None if match is None else match["pool"]


def owner_of(name: str) -> str | None:
    """Whose application it is; None where it is of no Sluice."""
    match = _NAME.fullmatch(name)
    return None if match is None else match["owner"] or OWN
