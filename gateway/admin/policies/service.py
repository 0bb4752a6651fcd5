"""Routing policies as an administrator keeps them: a document is examined before it is stored, and
once more, with the catalogue of that moment, before it comes into force."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from gateway.admin.use_cases import admin_store, attempt
from gateway.admin.versions.service import VersionService
from gateway.api.dependencies import parts_of
from gateway.errors import ApiError
from gateway.parts import Parts
from gateway.policies.document import Examined, examine
from gateway.policies.examples import ExampleResult
from gateway.policies.names import CatalogueNames, names_of
from gateway.policies.tables import POLICIES
from gateway.versions.store import VersionStore
from routing.policy.conditions import Mistake

MISTAKES_IN_WORDS = 3


class CheckedDocument(NamedTuple):
    """What can be said of a document. `version` is None where it is not stored."""

    version: int | None
    sha256: str
    examined: Examined

    @property
    def valid(self) -> bool:
        return not self.errors

    @property
    def rules(self) -> int | None:
        policy = self.examined.policy
        return None if policy is None else len(policy.rules)

    @property
    def errors(self) -> Sequence[Mistake]:
        return self.examined.mistakes

    @property
    def warnings(self) -> Sequence[Mistake]:
        return self.examined.warnings

    @property
    def tests(self) -> Sequence[ExampleResult]:
        return self.examined.tests


@dataclass(frozen=True, slots=True)
class PolicyChecker:
    """Stores nothing. `names` are those of the catalogue now."""

    names: Callable[[], Awaitable[CatalogueNames]]

    async def check(self, document: str, version: int | None = None) -> CheckedDocument:
        names = await self.names()
        examined = await attempt(lambda: examine(document, known=names))
        digest = sha256(document.encode(errors="surrogatepass")).hexdigest()
        return CheckedDocument(version, digest, examined)

    async def require_valid(self, document: str) -> CheckedDocument:
        """Raises ApiError 400, which names every mistake in `errors`, and the first in words."""
        checked = await self.check(document)
        if checked.valid:
            return checked
        mistakes = checked.errors
        words = [f"{m.line}:{m.column} {m.message}" for m in mistakes[:MISTAKES_IN_WORDS]]
        if (more := len(mistakes) - len(words)) > 0:
            words.append(f"and {more} more")
        raise ApiError(
            400,
            f"document: {'; '.join(words)}",
            param="document",
            code="invalid_policy",
            errors=[each._asdict() for each in mistakes],
        )


async def checker_of(request: Request) -> PolicyChecker:
    parts = parts_of(request)
    return PolicyChecker(lambda: _names(parts))


Checker = Annotated[PolicyChecker, Depends(checker_of)]


async def policies_of(request: Request, checker: Checker) -> VersionService:
    parts = parts_of(request)
    return VersionService(
        kind=POLICIES,
        store=admin_store(parts),
        versions=VersionStore(parts.ledger, POLICIES),
        keeper=parts.policy_keeper,
        require_valid=checker.require_valid,
    )


Policies = Annotated[VersionService, Depends(policies_of)]


async def _names(parts: Parts) -> CatalogueNames:
    """Those of the newest catalogue and price book."""
    keeper, now_us = parts.catalog, round(parts.outside.clock() * 1e6)
    await keeper.refresh()
    return names_of(keeper.catalog.pools, keeper.catalog.models, keeper.prices, now_us)
