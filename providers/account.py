"""Whose account a call goes to: its URL, and the key that a gateway names. Pure, but for how a
key is looked up."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from providers.keys import Keys
from providers.refused import CallRefused

SECRET_NAMES = frozenset(
    {"api_key", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"}
)
PLAIN_NAMES = frozenset({"aws_region_name", "api_version"})
GEMINI_VERSIONS = ("/v1", "/v1beta", "/v1alpha")


@dataclass(frozen=True, slots=True)
class Account:
    """`credentials` are arguments of the library; `secrets` may stand in no answer and no log."""

    base_url: str | None
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(v for name, v in self.credentials.items() if name in SECRET_NAMES and v)

    def arguments(self, provider: str, verb: str = "chat") -> dict[str, Any]:
        url = _base_of(provider, self.base_url, verb) if self.base_url else None
        return {**self.credentials, **({"api_base": url} if url else {})}


def account_of(base_url: str | None, name: str | None, keys: Keys) -> Account:
    """Raises CallRefused 401 where the name is none of a provider key, or holds none."""
    if name is None:
        return Account(base_url)
    held = keys.get(name)
    if held is None:
        raise CallRefused(401, f"{name} of `sluice providers` holds no key", code="no_key")
    credentials = _credentials(name, held)
    if not all(part.isascii() and part.isprintable() for part in credentials.values()):
        # No header carries it, and whoever says so may quote it.
        raise CallRefused(401, f"{name} holds a key of more than one line", code="no_key")
    return Account(base_url, credentials)


def _credentials(name: str, text: str) -> dict[str, str]:
    """A key, or an object of JSON with the named parts of one."""
    if not text.startswith("{"):
        return {"api_key": text}
    try:
        parts = json.loads(text)
    except ValueError:
        parts = None
    known = SECRET_NAMES | PLAIN_NAMES
    if not isinstance(parts, dict) or not parts.keys() <= known or not _all_text(parts):
        words = f"{name} is to hold a key, or JSON with {', '.join(sorted(known))}"
        raise CallRefused(401, words, code="no_key")
    return parts


def _all_text(parts: Mapping[str, Any]) -> bool:
    return all(isinstance(part, str) for part in parts.values())


def _base_of(provider: str, url: str, verb: str) -> str:
    """The same URL as the library wants it for this provider: some paths it adds, some not."""
    url = url.rstrip("/")
    if provider in ("cohere", "cohere_chat") and not url.endswith(f"/{verb}"):
        return f"{url.removesuffix('/v2')}/v2/{verb}"
    if provider == "gemini" and not url.endswith(GEMINI_VERSIONS):
        return f"{url}/v1beta"
    return url
