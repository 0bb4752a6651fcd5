"""Reads what is kept of decisions, for the API and the console. Blocking."""

import logging
from collections.abc import Iterator

from billing import queries
from billing.db.engine import Store
from billing.decisions.batch import DecisionBytes
from billing.queries import CallRecord, DecidedCall
from billing.refusals.refusal import Refusal
from billing.types import CallStatus, UsageSource, utc_month
from billing.usage.tables import UsageRecord
from gateway.decisions.explained import ExplainedDecision, explained, in_older_words
from gateway.decisions.record import DecisionRecord, PartsDecoder, UnreadableRecord
from gateway.decisions.refusals import refused_call
from gateway.decisions.versions import PolicyVersions
from routing.policy.rules import RoutingPolicy

log = logging.getLogger(__name__)


class DecisionReader:
    """Makes decisions again from their records, each by the version that decided."""

    def __init__(self, ledger: Store, versions: PolicyVersions) -> None:
        self._ledger = ledger
        self.versions = versions

    def explained(self, call: DecidedCall) -> ExplainedDecision:
        """Empty where nothing is kept."""
        record = _record(call.made_from)
        if record is None:
            return in_older_words(call.decision)
        return explained(record, self.versions.of(record.outcome.policy_revision))

    def under(self, rid: str, policy: RoutingPolicy) -> ExplainedDecision | None:
        """What this policy would have decided of a call, from what its decision was made from. None
        where that is not kept."""
        record = _record(queries.decision_made(self._ledger, rid))
        return None if record is None else explained(record, policy)

    def newest(self, since_us: int) -> Iterator[DecisionRecord]:
        """What decisions since an instant were made from, about the newest first. What cannot be
        read is left out."""
        decoder = PartsDecoder()
        for made_from in queries.newest_decisions(self._ledger, since_us):
            try:
                yield decoder.decode(made_from)
            except UnreadableRecord as broken:
                log.error("a decision cannot be explained: %s", broken)

    def call(self, rid: str, organization: str | None = None) -> CallRecord | None:
        """A call as the ledger has it; else one that was refused, as long as its record is kept.
        None where it belongs to another organization than this one."""
        record = queries.call_by_rid(self._ledger, rid, org=organization)
        return record or self._refused(rid, organization)

    def _refused(self, rid: str, organization: str | None) -> CallRecord | None:
        refusal, made_from = queries.refused_call(self._ledger, rid)
        record = _record(made_from)
        if record is not None and record.error is not None:
            refusal = refusal or _refusal(record)
        if refusal is None or organization not in (None, refusal.org):
            return None
        used = _unserved(refusal, record)
        return CallRecord(used, {}, made_from, attempts=[], transfers=[], refusal=refusal)


def _record(made_from: DecisionBytes | None) -> DecisionRecord | None:
    if made_from is None:
        return None
    try:
        return PartsDecoder().decode(made_from)
    except UnreadableRecord as broken:
        log.error("a decision cannot be explained: %s", broken)
        return None


def _refusal(record: DecisionRecord) -> Refusal:
    """Of a call that has no row of its own in the list."""
    outcome, at_us = record.outcome, round(record.snapshot.at_s * 1e6)
    return refused_call(record.call, outcome, at_us, outcome.refused, record.error)


def _unserved(refusal: Refusal, record: DecisionRecord | None) -> UsageRecord:
    """A call that was refused before anything was taken for it: it used and cost nothing."""
    at_us = refusal.at_us
    return UsageRecord.model_construct(
        rid=refusal.rid,
        org=refusal.org,
        project=refusal.project,
        key=refusal.key,
        gateway="",
        model_requested=refusal.model,
        model=refusal.model,
        variant="",
        pool="",
        capacity_class="",
        tier=refusal.tier,
        status=CallStatus.REFUSED,
        error_code=refusal.error_code,
        source=UsageSource.EXACT,
        price_version="",
        rule=refusal.rule,
        policy_revision=refusal.policy_revision,
        is_canary=refusal.is_canary,
        reason=refusal.message or None,
        amount_nanousd=0,
        month=utc_month(at_us),
        admitted_us=at_us if record is None else round(record.call.arrived_s * 1e6),
        ended_us=at_us,
        ingested_us=at_us,
    )
