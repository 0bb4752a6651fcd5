"""What the routes of files say of their answers, which are sent as they are kept."""

from typing import Any, Literal

from gateway.api.schemas import Answer


class InvoiceDocument(Answer):
    """All that a document says. Amounts are decimal USD beside their cents or nano-USD."""

    object: Literal["invoice_document"] = "invoice_document"
    id: str
    kind: str
    number: str | None
    draft: bool
    issued: str | None
    due: str | None
    period: dict[str, str]
    currency: str
    language: str
    organization: str
    seller: dict[str, Any]
    buyer: dict[str, Any]
    buyer_reference: str
    purchase_order: str
    terms: str
    preceding: dict[str, str] | None
    reason: str
    notes: list[str]
    lines: list[dict[str, Any]]
    discounts: list[dict[str, Any]]
    payments_on_account: list[dict[str, Any]]
    taxes: list[dict[str, Any]]
    subtotal_usd: str
    discount_usd: str
    net_usd: str
    tax_usd: str
    total_usd: str
    paid_usd: str
    due_usd: str
    total_cents: int
    due_cents: int
    converted: dict[str, str] | None
    annexes: list[dict[str, Any]]


def answers(media: str) -> dict[int | str, dict[str, Any]]:
    """The one answer of a route that sends a file, as FastAPI's `responses`."""
    return {200: {"content": {media: {"schema": {"type": "string"}}}}}


JSON: dict[int | str, dict[str, Any]] = {200: {"model": InvoiceDocument}}
CSV, PDF, XML = answers("text/csv"), answers("application/pdf"), answers("application/xml")
