"""`/admin/v1`: thin routes over the use cases in `gateway/admin`, behind the door of
`admin_key`."""

from fastapi import APIRouter, Depends

from gateway.admin.books import routes as admin_books
from gateway.admin.budgets import routes as admin_budgets
from gateway.admin.calibrations import routes as admin_calibrations
from gateway.admin.credit_notes import routes as admin_credit_notes
from gateway.admin.credits import routes as admin_credits
from gateway.admin.dead_letters import routes as admin_dead_letters
from gateway.admin.documents import routes as admin_documents
from gateway.admin.entitlements import routes as admin_entitlements
from gateway.admin.exchange_rates import routes as admin_exchange_rates
from gateway.admin.hardware import routes as admin_hardware
from gateway.admin.invoice_runs import routes as admin_invoice_runs
from gateway.admin.invoices import routes as admin_invoices
from gateway.admin.keys import routes as admin_keys
from gateway.admin.ledger import routes as admin_ledger
from gateway.admin.limits import routes as admin_limits
from gateway.admin.margins import routes as admin_margins
from gateway.admin.models import routes as admin_models
from gateway.admin.nodes import routes as admin_nodes
from gateway.admin.offers import routes as admin_offers
from gateway.admin.organizations import routes as admin_organizations
from gateway.admin.outcomes import routes as admin_outcomes
from gateway.admin.parties import routes as admin_parties
from gateway.admin.payments import routes as admin_payments
from gateway.admin.policies import routes as admin_policies
from gateway.admin.pools import routes as admin_pools
from gateway.admin.price_lists import routes as admin_price_lists
from gateway.admin.prices import routes as admin_prices
from gateway.admin.providers import routes as admin_providers
from gateway.admin.quality import routes as admin_quality
from gateway.admin.reconciliations import routes as admin_reconciliations
from gateway.admin.refusals import routes as admin_refusals
from gateway.admin.requests import routes as admin_requests
from gateway.admin.route import routes as admin_route
from gateway.admin.statements import routes as admin_statements
from gateway.admin.terms import routes as admin_terms
from gateway.admin.top_ups import routes as admin_top_ups
from gateway.admin.usage import routes as admin_usage
from gateway.admin.variants import routes as admin_variants
from gateway.admin.webhooks import routes as admin_webhooks
from gateway.api.dependencies import require_json

router = APIRouter(prefix="/admin/v1", dependencies=[Depends(require_json)])
for part in (
    admin_organizations,
    admin_keys,
    admin_entitlements,
    admin_limits,
    admin_budgets,
    admin_credits,
    admin_models,
    admin_variants,
    admin_pools,
    admin_providers,
    admin_price_lists,
    admin_reconciliations,
    admin_nodes,
    admin_hardware,
    admin_calibrations,
    admin_policies,
    admin_outcomes,
    admin_offers,
    admin_quality,
    admin_prices,
    admin_requests,
    admin_refusals,
    admin_route,
    admin_usage,
    admin_margins,
    admin_ledger,
    admin_dead_letters,
    admin_documents,
    admin_invoices,
    admin_invoice_runs,
    admin_parties,
    admin_exchange_rates,
    admin_payments,
    admin_top_ups,
    admin_credit_notes,
    admin_terms,
    admin_webhooks,
    admin_books,
    admin_statements,
):
    router.include_router(part.router)
