"""Versions of the policy, and what each gateway runs, as they are shown. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.console.formatting import DisplayTime, instant, since
from gateway.versions.keeper import RunningVersion
from gateway.versions.store import StoredVersion


@dataclass(frozen=True, slots=True)
class VersionRow:
    version: int
    status: str
    comment: str
    author: str
    created: DisplayTime
    activated: DisplayTime | None
    activated_by: str
    activation_comment: str
    digest: str


@dataclass(frozen=True, slots=True)
class GatewayRow:
    id: str
    version: str
    since: str
    is_current: bool
    """Whether it runs the version that is active."""
    broken: str
    """Why it cannot run the active version."""


def version_rows(stored: Sequence[StoredVersion], *, now_us: int) -> tuple[VersionRow, ...]:
    return tuple([version_row(each, now_us=now_us) for each in stored])


def version_row(stored: StoredVersion, *, now_us: int) -> VersionRow:
    row, activated_us = stored.row, stored.activated_us
    return VersionRow(
        version=row.version,
        status=stored.status.value,
        comment=row.comment,
        author=row.author,
        created=instant(row.created_us, now_us),
        activated=None if activated_us is None else instant(activated_us, now_us),
        activated_by=stored.activated_by or "",
        activation_comment=stored.activation_comment or "",
        digest=row.sha256[:12],
    )


def gateway_rows(
    running: Sequence[RunningVersion], active: int, *, now_us: int
) -> tuple[GatewayRow, ...]:
    return tuple([_gateway(each, active, now_us) for each in running])


def _gateway(gateway: RunningVersion, active: int, now_us: int) -> GatewayRow:
    return GatewayRow(
        id=gateway.id,
        version="not said yet" if gateway.version is None else str(gateway.version),
        since="" if not gateway.since_us else since(now_us - gateway.since_us),
        is_current=gateway.version == active,
        broken="" if gateway.broken is None else gateway.broken.message,
    )
