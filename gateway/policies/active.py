"""The policy that this gateway decides by."""

from gateway.versions.keeper import Active
from routing.policy.rules import RoutingPolicy


class ActivePolicy(Active[RoutingPolicy]):
    pass
