"""`auto` reads what was learned: each prompt goes to the model that it suits."""

from __future__ import annotations

import json
from typing import Any

from gateway.upstream import fake
from routing.quality.document import QualityDocument, written
from routing.quality.features import NUMBERS
from routing.quality.model import LinearModel, QualityModel
from tests.gateway.admin.test_quality import quality
from tests.gateway.call.test_model_limits import admin, one
from tests.gateway.edge import Edge, body

__all__ = ["one"]
WHY = {"comment": "because"}
NEUTRAL = (0.0,) * len(NUMBERS)


def document(fox: str, others: str) -> str:
    """One model is good at all that has the word "fox" in it, the other one at all that has not."""
    places = {"fox": 0}
    models = {
        fox: LinearModel(0.0, -20.0, NEUTRAL, (40.0,)),
        others: LinearModel(0.0, 20.0, NEUTRAL, (-40.0,)),
    }
    return written(QualityDocument(QualityModel(places, (1.0,), models), {}))


async def served(one: Edge, question: str) -> str:
    one.upstream.behaviour = lambda _: fake.stream(fake.own_frame("a", 1, finish="stop"), fake.DONE)
    asked = {"messages": [{"role": "user", "content": question}], "max_tokens": 8}
    answered = await one.post(body(model="auto", **asked))
    return str(answered.chunks[0]["model"])


async def test_a_call_that_names_a_model_goes_to_the_variant_that_suits_it(one: Edge) -> None:
    where = {"model": "tale", "max_ongoing": 64, "capacity_class": "reserved"}
    for name, variant, cost in (("reserved", "int8", "0.0000002"), ("spot", "fp16", "0.0000003")):
        said = where | {"variant": variant, "cost_usd_per_s": cost}
        await admin(one, "PUT", f"/pools/tale-{name}", said)
    warm = {"target": 1, "blocked": None, "replicas": [one.replica("r2")]}
    await publish_both(one, warm)
    _, made = await quality(one, "POST", "", {"document": document("tale/fp16", "tale/int8")})
    await quality(one, "POST", f"/{made['version']}/activate", WHY)

    async def pool(question: str) -> str:
        one.upstream.behaviour = lambda _: fake.stream(
            fake.own_frame("a", 1, finish="stop"), fake.DONE
        )
        asked = {"messages": [{"role": "user", "content": question}], "max_tokens": 8}
        return (await one.post(body(**asked))).headers["x-sluice-pool"]

    assert await pool("Tell of the FOX.") == "tale-spot"
    assert await pool("Tell of the river.") == "tale-reserved"
    await one.settled()


async def publish_both(one: Edge, second: dict[str, Any]) -> None:
    """Both pools of the model are warm."""
    await one.publish_fleet(one.replica())
    fleet = json.loads(await one.redis.get("sluice:fleet") or b"")
    fleet["pools"][1] |= second
    await one.redis.set("sluice:fleet", json.dumps(fleet))
    await one.parts.fleet.refresh()


async def test_each_prompt_goes_to_the_model_that_it_suits(one: Edge) -> None:
    for name, cost in (("tale-reserved", "0.0000002"), ("free-reserved", "0.0000003")):
        model = name.removesuffix("-reserved")
        pool = {"model": model, "max_ongoing": 64, "cost_usd_per_s": cost}
        await admin(one, "PUT", f"/pools/{name}", pool | {"capacity_class": "reserved"})
    fox, river = "Tell of the FOX.", "Tell of the river."
    for models in (["free", "tale"], ["tale", "free"]):
        _, made = await quality(one, "POST", "", {"document": document(*models)})
        await quality(one, "POST", f"/{made['version']}/activate", WHY)
        assert [await served(one, fox), await served(one, river)] == models
    earlier = [{"role": "user", "content": fox}, {"role": "assistant", "content": fox}]
    said = {"messages": [*earlier, {"role": "user", "content": river}], "max_tokens": 8}
    answered = await one.post(body(model="auto", **said))
    assert answered.chunks[0]["model"] == "free", "the last question counts"
    await one.settled()
