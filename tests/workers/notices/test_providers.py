"""Each adapter reads its cloud's documented answers, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.notices.metadata_server import MetadataServer, metadata_server
from workers.notices import aws, azure, gcp
from workers.notices.announcement import Announcement, Provider, WrongAnswer
from workers.notices.metadata import MetadataAway, MetadataClient

NOW_S = 1_790_000_000.0
AT = "2026-11-24T08:22:00Z"
AT_S = 1_795_508_520.0
ACTION = json.dumps({"action": "terminate", "time": AT})
NAME = "workers_3"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataServer]:
    monkeypatch.setattr(gcp, "WAIT_S", 0)
    with metadata_server() as server:
        yield server


def events(**changes: object) -> str:
    """As Azure documents them."""
    event = {
        "EventId": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        "EventStatus": "Scheduled",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": ["workers_1", NAME],
        "NotBefore": "Tue, 24 Nov 2026 08:22:00 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    return json.dumps({"DocumentIncarnation": 2, "Events": [event | changes]})


def of_aws(server: MetadataServer) -> Provider:
    return aws.AwsNotices(MetadataClient(server.url), lambda: NOW_S)


def of_gcp(server: MetadataServer) -> Provider:
    server.say(GCP_PREEMPTED="FALSE", GCP_MAINTENANCE="NONE")
    return gcp.GcpNotices(MetadataClient(server.url), lambda: NOW_S)


def of_azure(server: MetadataServer) -> Provider:
    server.say(AZURE_NAME=NAME, AZURE_EVENTS='{"DocumentIncarnation":1,"Events":[]}')
    return azure.AzureNotices(MetadataClient(server.url), lambda: NOW_S)


MAKERS = (of_aws, of_gcp, of_azure)
NOTICES = (
    (of_aws, {"AWS_ACTION": ACTION}, AT_S, "EC2 announced: terminate"),
    (of_gcp, {"GCP_PREEMPTED": "TRUE"}, NOW_S + 30, "Compute Engine announced: preempted"),
    (
        *(of_gcp, {"GCP_MAINTENANCE": "TERMINATE_ON_HOST_MAINTENANCE"}, NOW_S + 60),
        "Compute Engine announced: terminated for maintenance",
    ),
    (of_azure, {"AZURE_EVENTS": events()}, AT_S, "Azure announced: Preempt"),
    (
        *(of_azure, {"AZURE_EVENTS": events(EventStatus="Started", NotBefore="")}, NOW_S),
        "Azure announced: Preempt",
    ),
)
QUIET = (
    (of_aws, {"AWS_REBALANCE": json.dumps({"noticeTime": AT})}),
    (of_gcp, {"GCP_MAINTENANCE": "MIGRATE_ON_HOST_MAINTENANCE"}),
    (of_azure, {"AZURE_EVENTS": events(EventType="Freeze")}),
    (of_azure, {"AZURE_EVENTS": events(Resources=["workers_1"])}),
    (of_azure, {"AZURE_EVENTS": events(EventStatus="Canceled")}),
)
NONSENSE = (
    (of_aws, {"AWS_ACTION": "<html>"}),
    (of_aws, {"AWS_ACTION": json.dumps({"action": "terminate", "time": "soon"})}),
    (of_aws, {"AWS_ACTION": json.dumps({"action": "terminate", "time": "2026-11-24T08:22:00"})}),
    (of_gcp, {"GCP_PREEMPTED": "PERHAPS"}),
    (of_gcp, {"GCP_MAINTENANCE": "<html>"}),
    (of_azure, {"AZURE_EVENTS": "[]"}),
    (of_azure, {"AZURE_EVENTS": events(NotBefore="soon")}),
)


@pytest.mark.parametrize(("make", "answers", "at_s", "why"), NOTICES)
def test_notice_has_its_deadline_however_often_it_is_repeated(
    server: MetadataServer,
    make: Callable[[MetadataServer], Provider],
    answers: dict[str, str],
    at_s: float,
    why: str,
) -> None:
    provider = make(server)
    assert provider.look() is None
    server.say(**answers)
    assert [provider.look(), provider.look()] == [Announcement(at_s, why)] * 2


@pytest.mark.parametrize(("make", "answers"), QUIET)
def test_what_does_not_end_this_machine_announces_nothing(
    server: MetadataServer, make: Callable[[MetadataServer], Provider], answers: dict[str, str]
) -> None:
    provider = make(server)
    server.say(**answers)
    assert provider.look() is None


@pytest.mark.parametrize(("make", "answers"), NONSENSE)
def test_nonsense_is_a_wrong_answer(
    server: MetadataServer, make: Callable[[MetadataServer], Provider], answers: dict[str, str]
) -> None:
    provider = make(server)
    server.say(**answers)
    with pytest.raises(WrongAnswer):
        provider.look()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("status", [403, 429, 500])
def test_server_that_refuses_is_away(
    server: MetadataServer, make: Callable[[MetadataServer], Provider], status: int
) -> None:
    provider = make(server)
    server.status = status
    with pytest.raises(MetadataAway, match=str(status)):
        provider.look()
    server.status = 200
    assert provider.look() is None


@pytest.mark.parametrize("make", MAKERS)
def test_nobody_who_listens_is_away(make: Callable[[MetadataServer], Provider]) -> None:
    with metadata_server() as server:
        provider = make(server)
    with pytest.raises(MetadataAway):
        provider.look()


def test_token_that_is_not_taken_any_more_is_made_anew(server: MetadataServer) -> None:
    provider = of_aws(server)
    assert provider.look() is None
    server.token = "another"
    server.say(AWS_ACTION=ACTION)
    assert provider.look() is not None


def test_change_of_preempted_is_waited_for(server: MetadataServer) -> None:
    provider = of_gcp(server)
    assert provider.look() is None
    server.say(GCP_PREEMPTED="TRUE")
    assert provider.look() is not None
    server.say(GCP_PREEMPTED="FALSE")
    assert provider.look() is None


@given(st.binary(max_size=60))
def test_parsers_take_any_bytes_for_a_wrong_answer(body: bytes) -> None:
    for parse in (
        aws.instance_action,
        gcp.is_preempted,
        gcp.ends_by_maintenance,
        lambda body: azure.scheduled(body, NAME, NOW_S),
    ):
        with suppress(WrongAnswer):
            parse(body)
