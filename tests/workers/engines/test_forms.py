"""The form of an answer, kept by every engine that generates: whatever the model would rather say,
a finished answer has it. vLLM takes part where it is installed (see `test_contract.py`)."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import jsonschema
import pytest
import pytest_asyncio

from tests.workers.engines.conftest import MODEL_PATH, Ask
from tests.workers.engines.simulated.cards import H100
from tests.workers.engines.test_contract import MODELS, NAMES, frames_of, text_of, tokens_of
from workers.deployments.calls_made import CallReaders
from workers.deployments.choices import ChoiceFrame
from workers.deployments.events import calling_event
from workers.engines.base import (
    Engine,
    EngineSettings,
    FinishReason,
    Frame,
    GuideInvalid,
    UnsupportedParameter,
)
from workers.engines.forms import Guide, Schema
from workers.engines.registry import engine_named

SETTINGS = EngineSettings(
    MODEL_PATH,
    slots=4,
    staging_rows=2,
    queue_max=2,
    context_tokens=512,
    block_tokens=32,
    roofline=H100,
)
TOWN = {
    "type": "object",
    "properties": {
        "town": {"enum": ["Ulm", "Bonn"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "exact": {"type": "boolean"},
    },
    "required": ["town", "days", "exact"],
    "additionalProperties": False,
}

pytestmark = pytest.mark.asyncio(loop_scope="module")
of_a_model = pytest.mark.parametrize("engine", MODELS, indirect=True, scope="module")
"""What is simulated has no probabilities, and other words in a form than outside of one."""


def schema(value: Any, name: str = "town", param: str = "here", lenient: bool = False) -> Schema:
    return Schema(name, json.dumps(value), param, lenient)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=NAMES)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    engine = engine_named(str(request.param), SETTINGS)
    await engine.start()
    yield engine
    await engine.stop()


async def said(engine: Engine, ask: Ask, guide: Guide, **fields: Any) -> tuple[str, FinishReason]:
    constraint = await engine.constrain(guide)
    words = {"ignore_eos": False, "tokens_max": 300, "constraint": constraint} | fields
    frames = await frames_of(engine, ask("Tell me about a town.", **words))
    assert frames[-1].finish_reason is not None
    return text_of(frames), frames[-1].finish_reason


@pytest.mark.parametrize("seed", range(4))
async def test_an_answer_by_a_schema_parses_and_validates(
    engine: Engine, ask: Ask, seed: int
) -> None:
    text, reason = await said(
        engine, ask, Guide(schema(TOWN)), temperature=2.0, seed=seed, request_id=f"s{seed}"
    )
    assert reason is FinishReason.STOP
    jsonschema.validate(json.loads(text), TOWN)


async def test_an_answer_is_cut_by_its_length_alone(engine: Engine, ask: Ask) -> None:
    text, reason = await said(engine, ask, Guide(schema(TOWN)), tokens_max=4)
    assert reason is FinishReason.LENGTH
    assert text.startswith('{"')


async def test_a_stop_string_ends_an_answer_in_the_midst_of_its_form(
    engine: Engine, ask: Ask
) -> None:
    """It is the caller's own word, and OpenAI's document makes no exception for forms."""
    text, reason = await said(engine, ask, Guide(schema(TOWN)), stop=("own",))
    assert (text, reason) == ('{"t', FinishReason.STOP)


@pytest.mark.parametrize("parallel", [True, False])
async def test_a_forced_call_has_the_arguments_it_must(
    engine: Engine, ask: Ask, parallel: bool
) -> None:
    tools = (schema(TOWN, "weather"), schema({"type": "object"}, "anything", lenient=True))
    guide = Guide(tools=tools[:1], must_call=True, parallel=parallel)
    text, reason = await said(engine, ask, guide, temperature=1.5)
    if not parallel:
        assert reason is FinishReason.STOP
    first = text.split("</tool_call>")[0].removeprefix("<tool_call>\n")
    call = json.loads(first)
    assert call["name"] == "weather"
    jsonschema.validate(call["arguments"], TOWN)


async def test_a_forced_call_that_is_whole_has_called_wherever_its_tokens_end(
    engine: Engine, ask: Ask
) -> None:
    """At its close, within the mark that closes it, or behind its arguments: each is a call. Before
    that it was cut."""
    wanted = {"ignore_eos": False, "temperature": 1.5, "seed": 3}

    async def called(tokens_max: int, *, parallel: bool = False) -> Sequence[Frame]:
        guide = Guide(tools=(schema(TOWN, "weather"),), must_call=True, parallel=parallel)
        form = await engine.constrain(guide)
        return await frames_of(
            engine, ask("Ulm?", tokens_max=tokens_max, constraint=form, **wanted)
        )

    whole = await called(300)
    arguments, marked, _ = text_of(whole).partition("}\n</tool_call>")
    assert (finish_of(whole), bool(marked)) == ("tool_calls", True)
    used, is_whole = len(tokens_of(whole)), True
    while is_whole:
        cut = await called(used)
        is_whole = text_of(cut).startswith(arguments)
        assert finish_of(cut) == ("tool_calls" if is_whole else "length")
        used -= 1
    several = await called(len(tokens_of(whole)), parallel=True)
    assert finish_of(several) == "tool_calls"


def finish_of(frames: Sequence[Frame]) -> str:
    """The finish reason that a worker tells of an answer with these frames."""
    readers = CallReaders("req_1", free=False)
    events = [calling_event(readers, ChoiceFrame(0, frame, frame.usage)) for frame in frames]
    last = json.loads(events[-1].removeprefix(b"data: "))
    reason: str = last["choices"][0]["finish_reason"]
    return reason


@of_a_model
async def test_free_text_is_what_it_is_without_tools(engine: Engine, ask: Ask) -> None:
    plain = await frames_of(engine, ask("Hello there.", tokens_max=20))
    constraint = await engine.constrain(Guide(tools=(schema(TOWN, "weather"),)))
    free = await frames_of(engine, ask("Hello there.", tokens_max=20, constraint=constraint))
    assert tokens_of(free) == tokens_of(plain)


async def test_one_form_holds_one_sequence_and_no_neighbour(engine: Engine, ask: Ask) -> None:
    alone = await frames_of(engine, ask("A tale, please.", request_id="alone"))
    constraint = await engine.constrain(Guide(schema(TOWN)))
    beside = engine.generate(ask("Town.", tokens_max=30, constraint=constraint, ignore_eos=False))
    again = await frames_of(engine, ask("A tale, please.", request_id="again"))
    assert text_of(again) == text_of(alone)
    async for _ in beside:
        pass


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"type": "objekt"}, "objekt"),
        ({"$ref": "http://127.0.0.1:9/x"}, "http://127.0.0.1:9/x"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "atisfiable"),
        ({"not": {}}, "not"),
    ],
    ids=["type", "remote", "unsatisfiable", "unknown"],
)
async def test_a_schema_nobody_can_follow_is_named(engine: Engine, wrong: Any, why: str) -> None:
    good = schema(TOWN, "good", "tools[0]")
    with pytest.raises(GuideInvalid, match=why) as caught:
        await engine.constrain(Guide(tools=(good, schema(wrong, "bad", "tools[1]"))))
    assert caught.value.param == "tools[1]"


async def test_a_lenient_schema_is_followed_as_far_as_it_is_known(engine: Engine) -> None:
    await engine.constrain(Guide(schema({"type": "object", "not": {}}, lenient=True)))


async def test_a_schema_of_too_much_work_is_refused(engine: Engine) -> None:
    deep: Any = {"type": "string"}
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    with pytest.raises(GuideInvalid):
        await engine.constrain(Guide(schema(deep)))
    wide = {"enum": ["x" * 60_000]}
    many = tuple(schema(wide | {"title": str(n)}, f"t{n}", f"tools[{n}]") for n in range(9))
    with pytest.raises(GuideInvalid, match="together"):
        await engine.constrain(Guide(tools=many))


@of_a_model
async def test_a_bias_decides_and_one_outside_the_vocabulary_is_refused(
    engine: Engine, ask: Ask
) -> None:
    forced = await frames_of(engine, ask("Hello.", tokens_max=5, logit_bias={300: 100.0}))
    assert tokens_of(forced) == [300] * 5
    with pytest.raises(UnsupportedParameter):
        engine.generate(ask("Hello.", logit_bias={2048: 1.0}))


@of_a_model
async def test_penalties_change_what_is_said(engine: Engine, ask: Ask) -> None:
    """With equal biases, being there costs each token its turn."""
    biased = {"logit_bias": {300: 90.0, 301: 90.0}, "tokens_max": 12}
    found = {}
    for penalties in ({}, {"presence_penalty": 2.0}, {"frequency_penalty": 2.0}):
        frames = await frames_of(engine, ask("Hello.", **biased, **penalties))
        found[next(iter(penalties), "none")] = tokens_of(frames)
    assert found["frequency_penalty"] != found["none"]
    assert {300, 301} >= set(found["presence_penalty"]) | set(found["frequency_penalty"])
    assert len(set(found["frequency_penalty"])) == 2
