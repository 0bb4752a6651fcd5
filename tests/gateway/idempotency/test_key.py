"""Which keys are taken, and what two calls have in common that are the same call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ApiError
from gateway.idempotency.key import digest, keyed
from gateway.tenants.auth import Principal

WHO = Principal("org_1", "proj_1", "key_1", ())


@pytest.mark.parametrize("wrong", ["", "x" * 256, "tab\there", "\x7f", "naïve", "\u00a0"])
def test_key_that_no_client_means_is_a_400(wrong: str) -> None:
    with pytest.raises(ApiError) as refused:
        keyed([wrong], WHO, "POST", "/v1/x", b"{}")
    assert (refused.value.status, refused.value.code) == (400, "invalid_idempotency_key")


@pytest.mark.parametrize("several", [["a", "b"], ["a", "a"]])
def test_several_keys_are_a_400_be_they_the_same(several: list[str]) -> None:
    with pytest.raises(ApiError) as refused:
        keyed(several, WHO, "POST", "/v1/x", b"{}")
    assert (refused.value.status, refused.value.code) == (400, "invalid_idempotency_key")


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=255))
def test_any_printable_key_is_taken_and_not_kept(key: str) -> None:
    found = keyed([key], WHO, "POST", "/v1/x", b"{}")
    assert (len(found.name), found.organization, found.api_key) == (64, "org_1", "key_1")
    assert found.name != key


@given(
    st.tuples(st.sampled_from(["POST", "PUT"]), st.sampled_from(["/a", "/a\n", "/b"]), st.binary()),
    st.tuples(st.sampled_from(["POST", "PUT"]), st.sampled_from(["/a", "/b"]), st.binary()),
)
def test_same_digest_means_same_method_path_and_body(
    one: tuple[str, str, bytes], other: tuple[str, str, bytes]
) -> None:
    if "\n" not in one[1]:
        assert (digest(*one) == digest(*other)) == (one == other)
