"""Clusters side by side take different ports."""

import socket
from dataclasses import astuple

import pytest

from workers.ray.ports import BLOCK, NoFreePorts, claim_ports

RANGE = 5 * BLOCK
FIRST = 32_000 - 3 * RANGE
"""Above what clusters of other tests take, which start at 20,000."""


def area(number: int) -> tuple[int, int]:
    """Of one test alone: they run side by side."""
    first = FIRST + number * RANGE
    return first, first + RANGE


def test_ports_of_one_cluster_are_distinct() -> None:
    ports, claim = claim_ports(*area(0))
    claim.close()
    assert len(set(astuple(ports))) == len(astuple(ports))
    assert ports.ingress_first < ports.ingress_last < ports.worker_first < ports.worker_last


def test_two_clusters_never_share_a_block_and_a_freed_one_is_used_again() -> None:
    first, first_claim = claim_ports(*area(1))
    second, second_claim = claim_ports(*area(1))
    assert first.worker_last < second.gcs
    first_claim.close()
    again, again_claim = claim_ports(*area(1))
    assert again == first
    second_claim.close()
    again_claim.close()


def test_a_block_with_a_used_port_is_passed_over() -> None:
    ports, claim = claim_ports(*area(2))
    claim.close()
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", ports.dashboard))
        other, claim = claim_ports(*area(2))
        claim.close()
    assert other.gcs > ports.worker_last


def test_too_small_a_range_is_refused() -> None:
    with pytest.raises(NoFreePorts):
        claim_ports(FIRST, FIRST + 10)
