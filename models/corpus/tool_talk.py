"""Talks under tools: a call where one fits, plain words where none does, and an answer that uses what came back."""

from random import Random

from models.corpus.answers import Exchange
from models.corpus.forms import draw_form
from models.corpus.tables.tools import TOOL_SYSTEMS
from models.corpus.tools import (
    Tool,
    Use,
    call_head,
    called,
    draw_mismatch,
    draw_tools,
    draw_use,
    form_tool,
)
from models.corpus.turns import Talk, Turn


def draw_tool_talk(rng: Random, exchange: Exchange) -> Talk:
    """A talk under tools. `exchange` is an ordinary one, for questions that no tool helps with."""
    if rng.random() < 0.2:
        return _form_talk(rng)
    tools = draw_tools(rng, rng.choice((1, 1, 1, 2, 2, 3)))
    chance = rng.random()
    if chance < 0.22:
        turns = _plain(exchange)
    elif chance < 0.26:
        turns = _forced(rng, rng.choice(tools), exchange)
    else:
        turns = _used(rng, tools)
        if rng.random() < 0.2:
            turns += _plain(exchange) if rng.random() < 0.4 else _used(rng, tools)
    system = (Turn("system", rng.choice(TOOL_SYSTEMS)),) if rng.random() < 0.35 else ()
    return Talk(system + turns, tuple(tool.declared for tool in tools))


def _plain(exchange: Exchange) -> tuple[Turn, ...]:
    return (Turn("user", exchange.question), Turn("assistant", exchange.answer))


def _forced(rng: Random, tool: Tool, exchange: Exchange) -> tuple[Turn, ...]:
    call = draw_mismatch(rng, tool, exchange.question)
    return (
        Turn("user", exchange.question),
        Turn("assistant", call, ((0, len(call_head(tool.name))),)),
    )


def _used(rng: Random, tools: list[Tool]) -> tuple[Turn, ...]:
    """One use of a tool, or two at once. Most go on to the answer."""
    chosen = [rng.choice(tools)]
    if rng.random() < 0.12:
        chosen.append(rng.choice(tools))
    uses = [draw_use(rng, tool) for tool in chosen]
    if rng.random() < 0.1:
        uses = [*uses[:1], draw_use(rng, chosen[0])]
    question = " ".join(use.question for use in uses)
    calls = "\n".join(use.call for use in uses)
    turns = (Turn("user", question), Turn("assistant", calls))
    return turns if rng.random() < 0.25 else turns + _results(uses)


def _results(uses: list[Use]) -> tuple[Turn, ...]:
    return (
        *(Turn("tool", use.result) for use in uses),
        Turn("assistant", " ".join(use.answer for use in uses)),
    )


def _form_talk(rng: Random) -> Talk:
    """A form as the only tool, or beside another one that does not fit."""
    form = draw_form(rng)
    name, declared = form_tool(rng, form)
    others = [tool.declared for tool in draw_tools(rng, 1)] if rng.random() < 0.15 else []
    lead = rng.choice(("", "", "Extract ", "Extract: ", f"Extract {form.name} from: "))
    turns = (Turn("user", lead + form.text), Turn("assistant", called(name, form.value)))
    return Talk(turns, (*others, declared))
