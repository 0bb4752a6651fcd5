"""What can be done with an invoice in its state, and what a parked one needs. Pure."""

from collections.abc import Iterator

from billing.currencies.exchange_rate import NO_RATE
from billing.invoices.months import NO_PROFILE
from billing.invoices.result import InvoiceResult
from billing.invoices.status import InvoiceStatus
from gateway.console.action_forms import ActionForm, FormField
from gateway.console.formatting import money

UNISSUED = (InvoiceStatus.DRAFT, InvoiceStatus.PARKED)
UNPAID = (InvoiceStatus.OPEN, InvoiceStatus.OVERDUE)
ISSUED = (*UNPAID, InvoiceStatus.PAID)
REASON = FormField("reason", "Reason, which is kept")
AMOUNT = FormField("amount_usd", "Amount, USD", is_amount=True)
BANKS_NAME = FormField("external_id", "The bank's name of it")
PROFILE = "Give it one: PUT /admin/v1/organizations/{org}/billing-profile."
RULE = "Add a tax rule for its seller and its buyer: PUT /admin/v1/tax-rules/{{rule_id}}."
RATE = "Give one of today: PUT /admin/v1/exchange-rates/{{currency}}/{{date}}."
LOOK = "Look at its lines. If they are right, approve it."


def what_to_do(result: InvoiceResult, reason: str) -> str:
    """About a reason for which it is parked. What is lacking is not cleared by approving."""
    if reason not in result.lacks:
        return LOOK
    rate_or_rule = RATE if reason.startswith(NO_RATE) else RULE
    words = PROFILE if reason == NO_PROFILE else rate_or_rule
    return words.format(org=result.invoice["org"])


def actions_of(result: InvoiceResult) -> Iterator[ActionForm]:
    """Those that its state allows."""
    name = result.number or "this draft"
    if result.status in UNISSUED:
        yield from _of_draft(result, name)
    if result.status in UNPAID:
        yield from _pay(result)
    if result.status in ISSUED:
        yield from _corrections(result, name)
    if result.status in UNPAID:
        yield ActionForm(
            *("uncollectible", "Write off"),
            "What is left becomes a bad debt. The invoice is neither paid nor voided later.",
            f"Yes, nobody will pay {name}.",
            (REASON,),
            is_final=True,
        )


def _of_draft(result: InvoiceResult, name: str) -> Iterator[ActionForm]:
    yield ActionForm(
        *("approve", "Approve"),
        "Its amount is right, and nothing holds it back. The next run issues it.",
        f"Yes, {money(result.total_nanousd).text} USD is right.",
    )
    if not result.waits_because and not result.lacks:
        yield ActionForm(
            *("issue", "Issue"),
            "It is approved and gets its number now. Its lines, parties and taxes never change.",
            f"Yes, issue {name}.",
            is_final=True,
        )
    yield ActionForm(
        *("hold", "Hold back"),
        "No run issues it until somebody approves it.",
        f"Yes, hold {name} back.",
        (REASON,),
    )


def _pay(result: InvoiceResult) -> Iterator[ActionForm]:
    """In USD, and in the other currency that it shows."""
    left = money(result.due_nanousd).text
    yield ActionForm(
        *("pay", "Pay"),
        f"{left} USD is due. What is above that goes on account.",
        "Yes, this money has come.",
        (AMOUNT, BANKS_NAME),
    )
    shown = result.converted
    if shown is not None:
        currency, due = shown.conversion.currency, money(shown.due_nano).text
        yield ActionForm(
            *("pay-converted", f"Pay in {currency}"),
            f"{due} {currency} is due. It is booked in USD at the rate of the invoice.",
            "Yes, this money has come.",
            (FormField("amount", f"Amount, {currency}", is_amount=True), BANKS_NAME),
        )


def _corrections(result: InvoiceResult, name: str) -> Iterator[ActionForm]:
    noted_cents = result.invoice["noted_cents"]
    if result.payable_cents > noted_cents:
        yield ActionForm(
            *("credit", "Credit"),
            "A credit note takes back an amount with tax. An empty amount is all that is left.",
            f"Yes, credit {name}.",
            (
                FormField("amount_usd", "Amount, USD with tax", is_required=False, is_amount=True),
                FormField("external_id", "Your name of it", is_required=False),
                FormField("reason", "Reason, which stands on the note"),
            ),
            is_final=True,
        )
    if not noted_cents:
        yield ActionForm(
            *("void", "Void"),
            "It keeps its number and counts no more. What was paid goes on account, and the next"
            " run makes its month anew.",
            f"Yes, void {name}.",
            (REASON,),
            is_final=True,
        )
