"""Who bills whom: sellers, and billing profiles of organizations, as values that are checked.

Pure. A number that its issuer could not have given (a VAT id, an IBAN) is refused with the name of
its field. Whether a VAT id is in use is not known here.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from stdnum import iban as ibans
from stdnum.eu import vat as eu_vat
from stdnum.exceptions import ValidationError
from stdnum.util import get_cc_module

from billing.currencies.conversion import USD, is_currency

GREECE = "EL"
"""The country of Greek VAT ids; ISO 3166 says GR."""
VAT_COUNTRIES = frozenset(
    GREECE if state == "gr" else state.upper() for state in eu_vat.MEMBER_STATES
)


class BadParty(ValueError):
    """A field of a party does not hold. `field` is its path."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class BuyerKind(StrEnum):
    BUSINESS = "business"
    CONSUMER = "consumer"


class PostalAddress(msgspec.Struct, frozen=True, kw_only=True):
    """`country` is two letters of ISO 3166, `region` a part of it where tax differs."""

    lines: tuple[str, ...] = ()
    city: str = ""
    postal_code: str = ""
    country: str
    region: str = ""


class PartyDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What documents say of a party. `electronic_address` is SCHEME:ID."""

    legal_name: str
    address: PostalAddress
    vat_id: str = ""
    tax_id: str = ""
    email: str = ""
    electronic_address: str = ""


class Seller(PartyDetails, frozen=True, kw_only=True):
    """One of those who bill. Its invoices have numbers of its own `series`."""

    seller_id: str
    series: str
    iban: str = ""
    tax_currency: str = ""
    """In which it owes its tax, where that is not USD."""


class BillingProfile(PartyDetails, frozen=True, kw_only=True):
    """How an organization is billed, and by which seller."""

    org: str
    seller: str
    kind: BuyerKind = BuyerKind.BUSINESS
    currency: str = USD
    """In which it reads totals too, where its seller owes tax in no other."""
    language: str = "en"
    payment_terms_days: int = 30
    buyer_reference: str = ""
    purchase_order: str = ""
    exemption: str = ""
    """The number of a certificate of exemption."""
    exemption_until_us: int | None = None

    def is_exempt(self, at_us: int) -> bool:
        """Whether its certificate holds at an instant."""
        until_us = self.exemption_until_us
        return bool(self.exemption) and (until_us is None or at_us < until_us)


def checked_seller(seller: Seller) -> Seller:
    """The seller with its numbers in their plain form. Raises BadParty."""
    iban = seller.iban
    if iban:
        try:
            iban = ibans.validate(iban)
        except ValidationError as wrong:
            raise BadParty("iban", f"it is no IBAN: {wrong}") from wrong
    if seller.tax_currency:
        _check_currency(seller.tax_currency, "tax_currency")
    return msgspec.structs.replace(seller, iban=iban, vat_id=_vat_id(seller))


def checked_profile(profile: BillingProfile) -> BillingProfile:
    """The profile with its numbers in their plain form. Raises BadParty."""
    if profile.exemption_until_us is not None and not profile.exemption:
        raise BadParty("exemption_until", "it is the end of a certificate: exemption names that")
    _check_currency(profile.currency, "currency")
    return msgspec.structs.replace(profile, vat_id=_vat_id(profile))


def _check_currency(code: str, field: str) -> None:
    if not is_currency(code):
        raise BadParty(field, "it is no code of ISO 4217, or of a currency without cents")


def _vat_id(party: PartyDetails) -> str:
    """A VAT id of the European Union by the rules of its country; another one by those of the
    party's country, where there are any."""
    if not party.vat_id:
        return ""
    compact = "".join(party.vat_id.split()).upper()
    try:
        if compact[:2] in VAT_COUNTRIES:
            return str(eu_vat.validate(compact))
        if rules := get_cc_module(party.address.country.lower(), "vat"):
            return str(rules.validate(compact))
    except ValidationError as wrong:
        raise BadParty("vat_id", f"it is no VAT id: {wrong}") from wrong
    return compact
