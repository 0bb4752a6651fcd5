"""A decision that is made again from its record is the same, bit for bit."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from hypothesis import given

from billing.db.engine import Store, open_store
from billing.decisions import batch
from billing.decisions import store as decisions
from billing.decisions.batch import DecisionBytes
from gateway.cli import main
from gateway.decisions.record import PartsEncoder
from gateway.decisions.recorder import DecisionMade
from gateway.decisions.replay import replayed
from gateway.policies.document import compiled
from gateway.policies.shipped import shipped_document, shipped_policy
from gateway.policies.tables import PolicyVersion
from migrations.run import migrate
from routing.decide import decide
from routing.policy.narrow import narrowed
from routing.policy.rules import RoutingPolicy
from routing.types import Call, FleetSnapshot, Tier
from tests.gateway.decisions.records import WISH, attributes_of, busy_fleet
from tests.nursery import sluice
from tests.routing.fleets import NOW_S, call
from tests.routing.strategies import calls, fleets, seeds

SHIPPED = shipped_policy()
EVERY_PROCESS_S = 120


def made(
    call: Call, fleet: FleetSnapshot, seed: int, policy: RoutingPolicy = SHIPPED
) -> DecisionMade:
    attributes = attributes_of(call)
    return DecisionMade(
        call, attributes, fleet, decide(call, fleet, policy.match(attributes), seed)
    )


def written(*made: DecisionMade) -> list[DecisionBytes]:
    encoder = PartsEncoder()
    return batch.decode(batch.encode([encoder.encode(each.record()) for each in made]))


@given(calls, fleets(), seeds)
def test_replay_equals_its_record(call: Call, fleet: FleetSnapshot, seed: int) -> None:
    records = written(made(call, fleet, seed))
    assert list(replayed(records, {SHIPPED.revision: SHIPPED}.get)) == [[]]


@given(calls, fleets())
def test_what_the_caller_narrowed_is_narrowed_again(call: Call, fleet: FleetSnapshot) -> None:
    attributes = attributes_of(call)
    matched = SHIPPED.match(attributes)
    mine = narrowed(matched, WISH, {})
    one = DecisionMade(call, attributes, fleet, decide(call, fleet, mine, 7), wish=WISH)
    records = written(one)
    assert list(replayed(records, lambda _: SHIPPED)) == [[]]


def test_g49_another_policy_is_compared_by_where_calls_go() -> None:
    document = (
        shipped_document()
        .replace("id: flex", "id: cheap")
        .replace("expect: {rule: flex}", "expect: {rule: cheap}")
    )
    other = compiled(document, revision=9)
    flex = made(call(tier=Tier.FLEX), busy_fleet(3, 0), 1)
    usual = made(call(), busy_fleet(3, 0), 1)
    differences = list(replayed(written(flex, usual), lambda _: other, same_policy=False))
    assert [[(each.field, each.was, each.now) for each in found] for found in differences] == [
        [("rule", "flex", "cheap")],
        [],
    ]


OF_BEFORE = """\
apiVersion: gateway/v1
kind: RoutingPolicy
rules:
  - id: flex
    when: ['req.service_tier == "flex"']
    route: {wait_usd_per_s: "0.0000002", quality_usd_per_step: "0.000001", spot_loss_usd: "0.5"}
  - id: cheapest
    when: ['req.service_tier == "priority"']
    route: {sort: price}
default:
  route: {wait_usd_per_s: "0.0001", quality_usd_per_step: "0.0002", spot_loss_usd: "1"}
"""


def test_records_of_a_release_before_are_repeated_bit_for_bit() -> None:
    """Sixteen decisions as 22a5df0 recorded them: over cold, spot and outside pools, with and
    without what was learned of them and of the prompt. What is weighed since then is none of it."""
    body = Path(__file__).with_name("of_before.bin").read_bytes()
    policy = compiled(OF_BEFORE, revision=1)
    assert list(replayed(batch.decode(body), lambda _: policy)) == [[]] * 16


def test_a_version_that_is_not_there_and_a_broken_record_are_differences() -> None:
    (whole,) = written(made(call(), busy_fleet(2, 0), 1))
    records = [whole, whole._replace(facts=b"")]
    found = [[each.field for each in each] for each in replayed(records, lambda _: None)]
    assert found == [["policy_revision"], ["record"]]


# ---- The command


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with an empty database that has the shipped policy."""
    store = _open(tmp_path)
    migrate(f"sqlite:///{tmp_path / 'sluice.db'}")
    shipped = dict(version=1, document=shipped_document(), sha256="", comment="", author="a")
    with store.write() as conn:
        conn.execute(PolicyVersion.__table__.insert().values(created_us=1, **shipped))  # type: ignore[attr-defined]
    store.close()
    return tmp_path


def _open(data: Path) -> Store:
    return open_store(f"sqlite:///{data / 'sluice.db'}")


def _record(data: Path, records: Sequence[DecisionBytes]) -> None:
    store = _open(data)
    with store.write() as conn:
        decisions.add(conn, "gw", records)
    store.close()


def _many(count: int) -> list[DecisionMade]:
    chance = Random(7)
    return [
        made(
            call(prompt_tokens={"small": chance.randint(1, 400)})._replace(request_id=f"req_{n}"),
            busy_fleet(5, n // 4)._replace(at_s=NOW_S + n),
            chance.getrandbits(63),
        )
        for n in range(count)
    ]


def test_command_repeats_each_decision_in_another_process(data: Path) -> None:
    _record(data, written(*_many(50)))
    arguments = ("replay", "--since", "100000d", "--data", str(data), "--json")
    done = sluice(*arguments, env=os.environ, timeout=EVERY_PROCESS_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"decisions": 50, "equal": 50, "different": []}


def test_command_names_what_differs_and_ends_with_1(data: Path) -> None:
    first, second = written(*_many(2))
    other = written(_many(2)[0]._replace(decided=_many(2)[1].decided))[0]
    _record(data, [other._replace(rid=first.rid), second])
    asked = ["replay", "--since", "100000d", "--data", str(data)]
    told = CliRunner().invoke(main, [*asked, "--json"])
    assert told.exit_code == 1
    report = json.loads(told.stdout)
    assert (report["decisions"], report["equal"]) == (2, 1)
    assert {(each["id"], each["field"]) for each in report["different"]} == {
        ("req_0", "candidates")
    }
    assert "2 decisions, 1 equal" in CliRunner().invoke(main, asked).stdout


def test_command_ends_with_2_where_nothing_was_recorded(data: Path) -> None:
    told = CliRunner().invoke(main, ["replay", "--data", str(data), "--json"])
    assert told.exit_code == 2
    assert json.loads(told.stdout) == {"decisions": 0, "equal": 0, "different": []}


def test_command_says_what_is_wrong_with_a_file(data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "policy.yaml"
    broken.write_text("apiVersion: gateway/v1\nkind: RoutingPolicy\nrules: 3\n")
    told = CliRunner().invoke(main, ["replay", "--policy", str(broken), "--data", str(data)])
    assert told.exit_code == 3
    assert f"{broken}:3:" in told.output
