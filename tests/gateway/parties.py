"""A seller and a buyer, as bodies of the admin API."""

from __future__ import annotations

from typing import Any

ADDRESS = {"lines": ["1 Main Street"], "city": "Berlin", "postal_code": "10115", "country": "DE"}
SELLER: dict[str, Any] = {
    **{"legal_name": "Sluice", "address": ADDRESS},
    **{"vat_id": "DE136695976", "series": "SLU"},
}
BUYER: dict[str, Any] = {
    **{"legal_name": "Buyer", "address": ADDRESS},
    **{"seller": "main", "kind": "business"},
}
