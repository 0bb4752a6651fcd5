"""The history of an invoice as it is read. Pure."""

from dataclasses import dataclass

from billing.history.event import HistoryEvent, HistoryKind
from gateway.console.formatting import DisplayTime, Money, instant, money, plural

WORDS = {
    HistoryKind.DRAFTED: "Draft written",
    HistoryKind.HELD: "Held back",
    HistoryKind.APPROVED: "Approved",
    HistoryKind.ISSUED: "Issued as",
    HistoryKind.DUNNED: "Dunning:",
    HistoryKind.SUSPENDED: "Organization suspended",
    HistoryKind.CREDITED: "Credit note",
    HistoryKind.VOIDED: "Voided",
    HistoryKind.WRITTEN_OFF: "Written off",
    HistoryKind.PAID: "Payment",
    HistoryKind.PAID_BACK: "Payment taken back:",
    HistoryKind.REINSTATED: "Organization reinstated",
    HistoryKind.REPLACED: "Replaced by",
}
LINKS = {
    HistoryKind.PAID: "#{reference}",
    HistoryKind.PAID_BACK: "#{reference}",
    HistoryKind.CREDITED: "#{reference}",
    HistoryKind.REPLACED: "/console/invoices/{reference}",
}
BAD = (HistoryKind.SUSPENDED, HistoryKind.VOIDED, HistoryKind.WRITTEN_OFF, HistoryKind.PAID_BACK)


@dataclass(frozen=True, slots=True)
class EventView:
    """`name` may be a link. `under` says why, or how a delivery went."""

    at: DisplayTime
    words: str
    name: str
    link: str
    under: str
    actor: str
    is_ours: bool
    """Whether Sluice did it of itself. Who wrote a one-off draft is not kept."""
    amount: Money | None
    is_bad: bool


def event_view(event: HistoryEvent, now_us: int) -> EventView:
    kind = event.kind
    words, name, under = WORDS.get(kind, ""), event.name, event.reason
    delivery = event.delivery
    is_bad = kind in BAD
    if delivery is not None:
        words = "Mail:" if delivery.is_mailed else "Webhook:"
        name = delivery.event.value
        tries = plural(delivery.tries, "try").replace("trys", "tries")
        outcome = delivery.problem or (f"status {delivery.status}" if delivery.status else "")
        told = ", ".join(filter(None, (f"{delivery.state}, {tries}", outcome)))
        under = f"{told}; to {event.reference}"
        is_bad = delivery.state == "failed"
    elif kind is HistoryKind.REPLACED:
        name = event.name or event.reference
    amount = event.amount_nanousd
    return EventView(
        at=instant(event.at_us, now_us),
        words=words,
        name=name.replace("_", " ") if kind is HistoryKind.DUNNED else name,
        link=LINKS.get(kind, "").format(reference=event.reference),
        under=under,
        actor=event.actor,
        is_ours=not event.actor and kind is not HistoryKind.DRAFTED,
        amount=None if amount is None else money(amount),
        is_bad=is_bad,
    )
