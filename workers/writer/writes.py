"""What a controller may ask of the writer, as it goes over the wire, and who asks.

A leader has an epoch, which rises with each lease. Pure.
"""

from typing import Any

import msgspec

WRITES_PATH, HIGHEST_PATH = "/v1/writes", "/v1/leader"
READY = "ready writer "
"""Then follows its address."""
SECRET_HEADER = "x-sluice-worker-secret"


class Leader(msgspec.Struct, frozen=True):
    """One lead of one controller. `holder` tells two controllers of one epoch apart, which there
    may be after Redis lost its counter."""

    epoch: int
    holder: str


NOBODY = Leader(0, "")


class Lead(msgspec.Struct, frozen=True, tag=True):
    """Writes nothing. From here on the leader is the only one that may write."""


class DeployApp(msgspec.Struct, frozen=True, tag=True):
    app: dict[str, Any]


class DeleteApp(msgspec.Struct, frozen=True, tag=True):
    name: str


class SetReplicas(msgspec.Struct, frozen=True, tag=True):
    app: str
    deployment: str
    count: int


class DrainNode(msgspec.Struct, frozen=True, tag=True):
    """`node`: the provider's name of a node of this machine, elsewhere Ray's id of one."""

    node: str
    deadline_ms: int
    why: str
    at_ms: int


class RequestNodes(msgspec.Struct, frozen=True, tag=True):
    """Room that Ray's autoscaler is to have, whoever runs there. It takes the place of the request
    before; none gives all back. `labels`: a selector for each bundle."""

    bundles: tuple[dict[str, float], ...] = ()
    labels: tuple[dict[str, str], ...] = ()


Write = Lead | DeployApp | DeleteApp | SetReplicas | DrainNode | RequestNodes


class Order(msgspec.Struct, frozen=True):
    leader: Leader
    write: Write


def may_write(leader: Leader, highest: Leader) -> bool:
    """Whether the leader may write, where `highest` is the highest one that ever was."""
    return leader.epoch > highest.epoch or (leader == highest and leader != NOBODY)
