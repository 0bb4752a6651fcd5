"""Refused calls as they are listed: who wanted what, what it needed, and when. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from billing.refusals.refusal import Refusal
from gateway.console.formatting import SECOND_US, DisplayTime, instant, short_id, since

Name = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class RefusalView:
    rid: str
    short: str
    at: DisplayTime
    until: DisplayTime
    calls: int
    """Of one key, refused alike in one minute. The others of them have no page."""
    organization: str
    organization_id: str
    key: str
    model: str
    tier: str
    reason: str
    code: str
    message: str
    """What would have been needed."""
    again: str
    """How long after it such a call may be taken; empty where time cures nothing."""
    rule: str
    policy_revision: int
    side: str
    """Of the rule's canary; empty where it has none."""


def refusal_views(rows: Sequence[Refusal], name: Name, *, now_us: int) -> tuple[RefusalView, ...]:
    """`name` gives the name of an organization or key by its id."""
    return tuple([refusal_view(row, name, now_us=now_us) for row in rows])


def refusal_view(row: Refusal, name: Name, *, now_us: int) -> RefusalView:
    after_s = row.retry_after_s
    return RefusalView(
        rid=row.rid,
        short=short_id(row.rid),
        at=instant(row.at_us, now_us),
        until=instant(row.until_us, now_us),
        calls=row.calls,
        organization=name(row.org),
        organization_id=row.org,
        key=name(row.key),
        model=row.model,
        tier=row.tier,
        reason=reason_words(row.reason),
        code=row.error_code,
        message=row.message,
        again="" if after_s is None else since(ceil(after_s) * SECOND_US),
        rule=row.rule,
        policy_revision=row.policy_revision,
        side={True: "canary", False: "not its canary", None: ""}[row.is_canary],
    )


def reason_words(reason: str) -> str:
    return reason.replace("_", " ")
