"""Settings come from one file and the environment, which wins; a mistake is named."""

from pathlib import Path

import pytest

from workers.settings import SettingsError, load_settings


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "ab" * 16)
    monkeypatch.setenv("SLUICE_WORKER_SECRET", "secret")


def configure(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    path = folder / "sluice.toml"
    path.write_text(text)
    monkeypatch.setenv("SLUICE_CONFIG", str(path))


def test_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configure(monkeypatch, tmp_path, "[controller]\ntick_s = 0.2\nup_delay_s = 7.0\n")
    monkeypatch.setenv("SLUICE_CONTROLLER__TICK_S", "0.5")
    controller = load_settings().controller
    assert (controller.tick_s, controller.up_delay_s) == (0.5, 7.0)


def test_target_of_first_tokens_is_one_number_or_one_a_tier(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def targets(value: str) -> dict[str, float]:
        configure(monkeypatch, tmp_path, f"[controller]\nttft_s = {value}\n")
        return load_settings().controller.ttft_s_by_tier

    assert targets("2.5") == {"priority": 2.5, "default": 2.5, "flex": 2.5}
    assert targets("{flex = 30.0}") == {"priority": 1.0, "default": 1.0, "flex": 30.0}
    for wrong in ("-1.0", "{flex = -1.0}", "{fast = 1.0}"):
        with pytest.raises(SettingsError, match=r"controller\.ttft_s"):
            targets(wrong)
    monkeypatch.setenv("SLUICE_CONTROLLER__TTFT_S", '{"flex": 60}')
    assert targets("2.5")["flex"] == 60.0


def test_tables_of_other_parts_are_theirs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configure(monkeypatch, tmp_path, 'engine = "other"\n[gateway]\nport = 1\n')
    assert load_settings().engine == "other"


def test_unknown_key_in_our_table_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configure(monkeypatch, tmp_path, "[controller]\ntik_s = 0.2\n")
    with pytest.raises(SettingsError, match=r"controller\.tik_s"):
        load_settings()


@pytest.mark.parametrize("said", ["127.0.0.2", "127.0.0.1", "::1"])
def test_node_on_loopback_has_the_one_address_that_ray_knows_as_such(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_RAY__NODE_IP", said)
    assert load_settings().ray.node_ip == "127.0.0.1"


def test_node_elsewhere_keeps_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_RAY__NODE_IP", "10.1.2.3")
    assert load_settings().ray.node_ip == "10.1.2.3"


def test_node_without_an_address_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_RAY__NODE_IP", "workers.example.com")
    with pytest.raises(SettingsError, match=r"ray\.node_ip"):
        load_settings()


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "secret'" not in repr(load_settings())
    assert "abab" not in repr(load_settings())
