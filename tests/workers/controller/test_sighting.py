"""Who is warm: only a replica that says so itself."""

import msgspec

from workers.autoscaling.demand import TierQueue
from workers.autoscaling.types import Phase, PoolView
from workers.controller.replica_api import ReplicaApi, ReplicaGone, ReplicaSlow, ReplicaStats
from workers.controller.sighting import Observer, Sighting
from workers.ray.serve_api import (
    AppDetails,
    DeploymentDetails,
    ReplicaDetails,
    ServeDetails,
    Target,
    TargetGroup,
)

APP = "pool-p.01234567"
ADDRESS = "http://127.0.0.2:30000/p"
IDLE = ReplicaStats(running=0, queued=0, last_active_ms_ago=5.0)


class FakeReplicas(ReplicaApi):
    """Answers, refuses or dawdles, as it is told."""

    def __init__(self) -> None:
        self.answer: ReplicaStats | Exception = IDLE

    async def stats(self, address: str) -> ReplicaStats:
        assert address == ADDRESS
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Scene:
    def __init__(self) -> None:
        self.replicas = FakeReplicas()
        self.now_ms = 10_000
        self.observer = Observer(self.replicas, now_ms=lambda: self.now_ms, stale_ms=5_000)

    async def look(self, details: ServeDetails) -> Sighting:
        return (await self.observer.look([APP], details))[APP]


def details(state: str = "RUNNING", *, listens: bool = True, target: int = 1) -> ServeDetails:
    replica = ReplicaDetails("r", f"SERVE_REPLICA::{APP}#engine#r", state, 1.0)
    deployment = DeploymentDetails(
        "engine", "HEALTHY", target_num_replicas=target, replicas=(replica,)
    )
    app = AppDetails(APP, "RUNNING", deployments={"engine": deployment})
    name = replica.actor_name if listens else "SERVE_PROXY_ACTOR-1"
    group = TargetGroup((Target("127.0.0.2", 30000, name),), "/p")
    return ServeDetails(applications={APP: app}, target_groups=(group,))


def phases(view: PoolView) -> list[Phase]:
    return [replica.phase for replica in view.replicas]


async def test_a_replica_that_does_not_listen_yet_is_starting() -> None:
    scene = Scene()
    sighting = await scene.look(details("STARTING", listens=False))
    assert phases(sighting.view) == [Phase.STARTING]
    assert sighting.addresses == {}


async def test_running_for_serve_is_not_warm_before_it_answers() -> None:
    scene = Scene()
    scene.replicas.answer = ReplicaGone()
    assert phases((await scene.look(details())).view) == [Phase.STARTING]
    scene.replicas.answer = IDLE
    sighting = await scene.look(details())
    assert phases(sighting.view) == [Phase.WARM]
    assert sighting.addresses == {"r": ADDRESS}


async def test_a_replica_that_is_gone_is_not_seen_although_serve_still_names_it() -> None:
    scene = Scene()
    await scene.look(details())
    scene.replicas.answer = ReplicaGone()
    sighting = await scene.look(details())
    assert sighting.view.replicas == ()
    assert sighting.cluster_target == 1


async def test_a_slow_replica_keeps_its_numbers_for_a_while() -> None:
    scene = Scene()
    queues = (TierQueue("flex", 1, waited_ms=200),)
    scene.replicas.answer = ReplicaStats(running=3, queued=1, queues=queues)
    await scene.look(details())
    scene.replicas.answer = ReplicaSlow()
    scene.now_ms += 4_000
    replica = (await scene.look(details())).view.replicas[0]
    assert (replica.running, replica.queues) == (3, queues)
    scene.now_ms += 4_000
    assert (await scene.look(details())).view.replicas == ()


async def test_a_stopping_replica_is_not_seen() -> None:
    scene = Scene()
    await scene.look(details())
    assert (await scene.look(details("STOPPING"))).view.replicas == ()


async def test_a_replica_stays_warm_while_serves_controller_restarts() -> None:
    scene = Scene()
    await scene.look(details())
    assert phases((await scene.look(details("RECOVERING", listens=False))).view) == [Phase.WARM]


async def test_a_refusing_replica_is_draining() -> None:
    scene = Scene()
    scene.replicas.answer = ReplicaStats(running=0, queued=0, draining=True)
    assert phases((await scene.look(details())).view) == [Phase.DRAINING]


async def test_an_application_that_cannot_be_built_is_a_failure_with_its_last_words() -> None:
    scene = Scene()
    broken = AppDetails(APP, "DEPLOY_FAILED", message="Traceback:\n  x\nKeyError: 'slots'\n")
    sighting = await scene.look(ServeDetails(applications={APP: broken}))
    assert sighting.view.failure == "KeyError: 'slots'"


async def test_replica_that_holds_no_model_sleeps_and_one_that_wakes_is_starting() -> None:
    scene = Scene()
    seen = []
    for fields in (
        {"draining": True, "asleep": True},
        {"asleep": True, "waking": True},
        {"draining": False},
    ):
        scene.replicas.answer = msgspec.structs.replace(IDLE, **fields)
        seen += phases((await scene.look(details())).view)
    assert seen == [Phase.SLEEPING, Phase.STARTING, Phase.WARM]
