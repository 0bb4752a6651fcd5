"""A worker that sleeps takes no call and loses none."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.deployments.asgi import Visit, serve
from tests.workers.deployments.test_server import CHAT, body
from workers.deployments.server import WorkerServer
from workers.engines.fake import ScriptedEngine, word_frames

ASLEEP = {"draining": True, "asleep": True}
AWAKE = {"draining": False, "asleep": False}


async def order(server: WorkerServer, order: dict[str, bool]) -> dict[str, Any]:
    answer: dict[str, Any] = (await Visit(server, "POST", "/v1/sluice/drain", order).end()).json()
    return answer


async def stats(server: WorkerServer) -> dict[str, Any]:
    answer: dict[str, Any] = (await Visit(server, "GET", "/v1/sluice/stats").end()).json()
    return answer


async def until_awake(server: WorkerServer) -> None:
    async with asyncio.timeout(30):
        while (await stats(server))["asleep"]:  # noqa: ASYNC110 it tells nobody
            await asyncio.sleep(0)


class SlowEngine(ScriptedEngine):
    """Wakes when it may."""

    def __init__(self) -> None:
        super().__init__(word_frames("a"))
        self.may_wake = asyncio.Event()

    async def wake(self) -> None:
        await self.may_wake.wait()
        await super().wake()


async def test_sleeping_worker_refuses_as_one_that_drains_and_answers_once_it_is_awake() -> None:
    engine = SlowEngine()
    server = serve(engine)
    await order(server, ASLEEP)
    now = await stats(server)
    assert (now["asleep"], now["draining"], engine.asleep) == (True, True, True)
    await order(server, AWAKE)
    await asyncio.sleep(0)
    now = await stats(server)
    assert (now["asleep"], now["waking"], now["draining"]) == (True, True, False)
    refused = await Visit(server, "POST", CHAT, body()).end()
    assert (refused.status, refused.json()["error"]["code"]) == (503, "worker_draining")
    assert not engine.requests
    engine.may_wake.set()
    await until_awake(server)
    assert (await Visit(server, "POST", CHAT, body()).end()).status == 200


async def test_open_call_keeps_its_model() -> None:
    engine = ScriptedEngine(word_frames("a", "b")[:1], ends=False)
    server = serve(engine)
    running = Visit(server, "POST", CHAT, body())
    await running.until_parts(1)
    await order(server, ASLEEP)
    assert not (await stats(server))["asleep"]
    running.leave()
    await running.end()
    await order(server, ASLEEP)
    assert (await stats(server))["asleep"]


async def test_worker_that_cannot_wake_goes_on_refusing() -> None:
    engine = ScriptedEngine(word_frames("a"))
    server = serve(engine)
    await order(server, ASLEEP)
    engine.broken = "the weights are away"
    await order(server, AWAKE)
    now = await stats(server)
    assert (now["asleep"], now["waking"]) == (True, False)
    assert (await Visit(server, "GET", "/v1/sluice/health").end()).status == 503


@given(orders=st.lists(st.sampled_from(["sleep", "wake", "call", "turn"]), max_size=20))
def test_whatever_is_ordered_no_call_meets_an_engine_without_a_model(orders: list[str]) -> None:
    class Strict(ScriptedEngine):
        def generate(self, request: Any) -> Any:
            assert not self.asleep, "a call came to an engine without a model"
            return super().generate(request)

        async def sleep(self) -> None:
            assert not self.open
            await asyncio.sleep(0)
            await super().sleep()

        async def wake(self) -> None:
            await asyncio.sleep(0)
            await super().wake()

    async def run() -> None:
        engine = Strict(word_frames("a"))
        server = serve(engine)
        for number, step in enumerate(orders):
            if step == "turn":
                await asyncio.sleep(0)
            elif step == "call":
                fields = {"sluice": {"request_id": f"req_{number}", "cache_salt": "o"}}
                visit = await Visit(server, "POST", CHAT, body(**fields)).end()
                assert visit.status in (200, 503)
            else:
                await order(server, ASLEEP if step == "sleep" else AWAKE)
        await order(server, AWAKE)
        await until_awake(server)
        visit = await Visit(server, "POST", CHAT, body()).end()
        assert visit.status == 200

    asyncio.run(run())


async def test_server_that_stops_while_it_wakes_ends() -> None:
    engine = SlowEngine()
    server = serve(engine)
    await order(server, ASLEEP)
    await order(server, AWAKE)
    engine.may_wake.set()
    await server._rest.leave()
    assert not (await stats(server))["asleep"]
