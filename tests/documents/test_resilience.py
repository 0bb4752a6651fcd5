"""The page on resilience says what the table in the code says, and each default as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gateway.moves.move import MOVES_MAX
from gateway.settings import GatewaySettings
from routing.health import patience, retries
from routing.health.after_failure import (
    ONCE_MORE_S,
    RETRIES_MAX,
    RETRY_AFTER_S_MAX,
    Circumstances,
    Step,
    after_failure,
)
from routing.health.breaker import OF_A_PLACE
from routing.health.failures import Failure, FailureKind
from routing.policy.action import Hedge
from routing.types import Tier

PAGE = (Path(__file__).parent.parent.parent / "docs" / "resilience.md").read_text()
WORDS = {
    Step.ANOTHER_PLACE: "asked at once",
    Step.WAIT: "`retry-after` is waited out, once",
    Step.ONCE_MORE: "the same place, once more",
    Step.GIVE_UP: "no further attempt",
}
OWN = GatewaySettings()


def by_tier(table: Mapping[Tier, patience.Bound]) -> str:
    """`3, 6 or 12 times its 99th percentile, at least 2, 6 or 12 s`."""
    bounds = [table[tier] for tier in (Tier.PRIORITY, Tier.DEFAULT, Tier.FLEX)]
    times, floors = ([f"{each:g}" for each in column] for column in zip(*bounds, strict=True))
    return f"{listed(times)} times its 99th percentile, at least {listed(floors)} s"


def listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


DEFAULTS = {
    "Time for a connection": f"{OWN.connect_timeout_s:g} s",
    "Time for the first token, own workers": f"{OWN.first_token_timeout_s:g} s",
    "Time for the first token, servers outside": f"{OWN.external_first_token_timeout_s:g} s",
    "Time for a connection, where usual times are known": by_tier(patience.CONNECTION),
    "Time for the first token, first server outside of a call": by_tier(patience.FIRST_TOKEN),
    "Silence within an answer, where usual times are known": by_tier(patience.SILENCE),
    "Silence within an answer, own workers": f"{OWN.idle_timeout_s:g} s",
    "Silence within an answer, servers outside": f"{OWN.external_idle_timeout_s:g} s",
    "Longest `retry-after` that is waited out": f"{RETRY_AFTER_S_MAX:g} s",
    "Pause before the same place is asked once more": f"{ONCE_MORE_S:g} s",
    "Further attempts of one call": f"{RETRIES_MAX}",
    "Further attempts of all calls together": f"{retries.SHARE * 100:g} in 100 calls and"
    f" {retries.PER_S:g} a second, {retries.BURST:g} saved up",
    "Moves of an answer that has begun": f"{MOVES_MAX}",
    "Second attempts beside slow ones": f"{Hedge().share * 100:g} in 100 priority calls",
    "Failures in a row that open a breaker": f"{OF_A_PLACE.in_a_row}",
    "Share of failures that opens a breaker": f"{OF_A_PLACE.share * 100:g} in 100, of"
    f" {OF_A_PLACE.calls_min} calls or more in {OF_A_PLACE.window_s:g} s",
    "Probes that close a breaker": f"{OF_A_PLACE.probes}",
    "Time until a closed breaker's pool has all its calls again": f"{OF_A_PLACE.slow_start_s:g} s",
}


def rows(heading: str) -> dict[str, list[str]]:
    """The cells of the first table under a heading, by those of its first column."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in re.findall(r"^\|.*\|$", section, re.M)]
    return {cells[0]: cells[1:] for cells in lines[2:]}


@pytest.mark.parametrize("kind", FailureKind)
def test_each_failure_has_the_row_that_the_code_has(kind: FailureKind) -> None:
    failure = Failure(kind, 2.0 if kind is FailureKind.COOL_DOWN else None)
    steps = [
        after_failure(
            failure,
            Circumstances(
                other_place=has_other,
                fallback_model=False,
                times_asked=1,
                left_s=60.0,
                retries_left=RETRIES_MAX,
            ),
        ).step
        for has_other in (True, False)
    ]
    assert rows("What follows a failure")[f"`{kind}`"][1:] == [WORDS[step] for step in steps]


def test_the_table_has_no_other_failure() -> None:
    assert set(rows("What follows a failure")) == {f"`{kind}`" for kind in FailureKind}


def test_each_default_is_the_one_of_the_code() -> None:
    assert {what: cells[0] for what, cells in rows("Defaults").items()} == DEFAULTS
