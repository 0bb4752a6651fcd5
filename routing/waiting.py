"""Whether a call that waits for a pool goes on waiting: a decision to wait is kept.

Pure. The time that a call has waited already counts for nothing: what is compared is the wait that
is still expected with what every other pool would cost from now on.
"""

from collections.abc import Sequence

from routing.candidates import Candidates
from routing.decide import weigh
from routing.plans import Plans
from routing.policy.action import Matched
from routing.types import Call, Candidate, FleetSnapshot


def better_than_waiting(
    call: Call,
    snapshot: FleetSnapshot,
    matched: Matched,
    seed: int,
    waits_for: str,
    plans: Plans | None = None,
) -> Sequence[Candidate]:
    """The candidates, best first, that the rule now puts before going on waiting for a pool.

    An empty answer means: stay. Every eligible candidate is better than a pool that cannot take the
    call any more, be it blocked, gone or too late. A tie is no reason to leave.
    """
    weighed = weigh(call, snapshot, matched.action, seed, plans or Plans())
    rows = weighed.rows
    waited_for = next((row for row in rows if row.weights.name == waits_for), None)
    if waited_for is not None:
        rows = [row for row in rows if row.standing < waited_for.standing]
    return Candidates(weighed.reading, rows)
