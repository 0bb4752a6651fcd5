"""Top-ups as the console shows them, and what can be done with each. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from billing.money import NANOUSD_PER_CENT
from billing.top_ups.topping_up import TopUpState
from gateway.console.action_forms import ActionForm, FormField, RefusedAction, with_typed
from gateway.console.formatting import DisplayTime, Money, instant, money

BY_HAND = "by-hand"
REFUND = "refund"


@dataclass(frozen=True, slots=True)
class TopUpView:
    id: str
    receipt: str
    organization: str
    organization_id: str
    name: str
    source: str
    note: str
    received: DisplayTime
    amount: Money
    left: Money
    refunded: Money
    actions: tuple[ActionForm, ...]


@dataclass(frozen=True, slots=True)
class TopUpsView:
    rows: tuple[TopUpView, ...]
    organization: str
    by_hand: ActionForm
    query: str
    """Which page this is, as forms hand it on."""
    later: str
    """Where the next page is."""


def top_up_view(
    state: TopUpState, name: Callable[[str], str], refused: RefusedAction | None, now_us: int
) -> TopUpView:
    """`refused` is what was not done with this very one."""
    top_up = state.top_up
    has_left = state.left_nanousd >= NANOUSD_PER_CENT
    return TopUpView(
        id=top_up["top_up_id"],
        receipt=state.number,
        organization=name(top_up["org"]),
        organization_id=top_up["org"],
        name=top_up["external_id"],
        source=top_up["source"].replace("_", " "),
        note=top_up["note"],
        received=instant(top_up["received_us"], now_us),
        amount=money(state.amount_nanousd),
        left=money(state.left_nanousd),
        refunded=money(state.refunded_nanousd),
        actions=(with_typed(_refund(state), refused),) if has_left else (),
    )


def _refund(state: TopUpState) -> ActionForm:
    left = money(state.left_nanousd).text
    return ActionForm(
        *(REFUND, "Refund"),
        f"{left} USD is unused. Without an amount, its whole cents go back.",
        f"Yes, this of {state.number} goes back.",
        (
            FormField("amount_usd", "Amount, USD", is_required=False, is_amount=True),
            FormField("external_id", "Your name of the refund"),
            FormField("reason", "Reason, which is kept"),
        ),
        is_final=True,
    )


def by_hand(organization: str, refused: RefusedAction | None) -> ActionForm:
    form = ActionForm(
        *(BY_HAND, "Top up by hand"),
        "Money that came for no invoice becomes paid credit at once, and a receipt.",
        "Yes, this money has come.",
        (
            FormField("organization", "Organization, its id", value=organization),
            FormField("amount_usd", "Amount, USD", is_amount=True),
            FormField("external_id", "The bank's name of it"),
            FormField("note", "Note", is_required=False),
        ),
    )
    return with_typed(form, refused)
