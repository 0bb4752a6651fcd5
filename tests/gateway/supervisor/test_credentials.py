"""Secrets are made once per data folder, readable by their owner only."""

import itertools
from pathlib import Path

import pytest

from gateway.supervisor.credentials import keep_credentials
from gateway.supervisor.errors import CannotStart


def test_made_once_private_and_kept(tmp_path: Path) -> None:
    tokens = map(str, itertools.count())
    made = keep_credentials(tmp_path, lambda: next(tokens))
    assert len({made.admin_key, made.api_key, made.worker_secret, made.ray_auth_token}) == 4
    assert made.api_key.startswith("sk-sluice-")
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert keep_credentials(tmp_path, lambda: next(tokens)) == made


@pytest.mark.parametrize("content", ["", "[]", '{"admin_key": 1}'])
def test_damaged_secrets_are_refused_and_never_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "secrets.json").write_text(content)
    with pytest.raises(CannotStart, match=r"secrets\.json"):
        keep_credentials(tmp_path, lambda: "new")
    assert (tmp_path / "secrets.json").read_text() == content
