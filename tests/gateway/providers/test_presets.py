"""A preset fills in what a pool leaves out, and nothing that it says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.admin.pools.schemas import PoolBody
from gateway.catalog.external import ExternalRules
from gateway.providers.presets import PRESETS, filled
from gateway.settings import PoolSettings

LEAST = {"name": "outside", "model": "m", "upstream_model": "their-m"}
OWN_URL = {"base_url": "http://127.0.0.1:8000/v1"}
SAID: dict[str, Any] = {
    "base_url": "https://example.com/v1",
    "api_key_env": "SLUICE_PROVIDER_KEY_MINE",
    "provider": "mine",
    "continues": "off",
    "extra_fields": ["other"],
}


@given(st.sampled_from([*PRESETS]), st.sets(st.sampled_from([*SAID])))
def test_what_a_pool_says_holds_and_the_rest_is_of_its_preset(preset: str, said: set[str]) -> None:
    own = {name: SAID[name] for name in said}
    pool = PoolSettings(**LEAST | {"preset": preset} | OWN_URL | own)
    assert pool.capacity_class == "external"
    for name in SAID:
        of_preset = (OWN_URL | LEAST | own).get(name, PRESETS[preset].get(name))
        if of_preset is not None:
            assert getattr(pool, name) == of_preset


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_obeys_the_rules_of_pools(preset: str) -> None:
    pool = PoolSettings(**OWN_URL | PRESETS[preset] | LEAST | {"preset": preset})
    assert not [*ExternalRules().mistakes(pool.base_url, pool.api_key_env)]
    assert (pool.retention_days, pool.trains, pool.region) == (None, None, None)


def test_pool_of_the_admin_api_needs_no_class_beside_its_preset() -> None:
    body = PoolBody.model_validate({"model": "m", "preset": "gmi", "upstream_model": "their-m"})
    assert body.base_url == PRESETS["gmi"]["base_url"]


def test_preset_that_there_is_not_is_refused_and_an_own_pool_has_none() -> None:
    for wrong in ({"preset": "nobody"}, {"preset": "gmi", "capacity_class": "spot"}):
        with pytest.raises(ValidationError):
            PoolSettings(**LEAST | wrong)
    assert filled("no pool") == "no pool"
