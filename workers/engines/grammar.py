"""A guide as a grammar in llguidance's dialect of Lark. Pure.

Calls look as Hermes and its many followers write them:
`<tool_call>\\n{"name": ..., "arguments": {...}}\\n</tool_call>`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from workers.engines.forms import Guide, Rule, Schema
from workers.prompts.templates import CALL_CLOSE, CALL_OPEN

NAME_PART, ARGUMENTS_PART, LAST_PART = '{"name": "', '", "arguments": ', "}"
ANY = r"/(.|\n)*/"
UNMARKED = ANY + " & ~/(.|\\n)*" + CALL_OPEN + "(.|\\n)*/"
# As Python writes JSON and as models have read it most; free white space could go on for ever.
SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


Bounds = Callable[[dict[str, Any]], dict[str, Any]]


def as_said(schema: dict[str, Any]) -> dict[str, Any]:
    return schema


def grammar(guide: Guide, *, marks: frozenset[str] = frozenset(), bounds: Bounds = as_said) -> str:
    """The grammar of a guide. `marks` are those of CALL_OPEN and CALL_CLOSE that are tokens of
    their own. `bounds` adds to schemas the bounds that they leave open."""
    if guide.rule is not None:
        return guide.rule.text
    rules = [_start(guide)]
    if guide.answer is not None:
        rules.append(f"answer: {_json(guide.answer, bounds)}")
    elif not guide.must_call:
        rules += ["answer: TEXT", "TEXT: " + (UNMARKED if CALL_OPEN in marks else ANY)]
    if guide.tools:
        rules += _calls(guide, marks, bounds)
    return "\n".join(rules) + "\n"


def json_grammar(schema: Schema) -> str:
    """The grammar of one schema alone, without added bounds."""
    return f"start: {_json(schema, as_said)}\n"


def _start(guide: Guide) -> str:
    if not guide.tools:
        return "start: answer"
    is_parallel = guide.parallel
    if guide.must_call:
        return 'start: call ("\\n" call)*' if is_parallel else "start: call"
    if guide.answer is not None:
        return 'start: answer | call ("\\n" call)*' if is_parallel else "start: answer | call"
    return "start: spoken_call* answer" if is_parallel else "start: spoken_call | answer"


def _calls(guide: Guide, marks: frozenset[str], bounds: Bounds) -> list[str]:
    opening, closing = _mark(CALL_OPEN, marks), _mark(CALL_CLOSE, marks)
    rules = [
        f'called: "\\n" ({_alternatives(len(guide.tools))}) "\\n" {closing}',
        f"call: {opening} called",
        *(f"tool_{number}: {_call(tool, bounds)}" for number, tool in enumerate(guide.tools)),
    ]
    if guide.answer is None and not guide.must_call:
        if CALL_OPEN in marks:
            rules.append(f"spoken_call: TEXT {opening} called")
        else:
            rules += [f"trigger[lazy]: TEXT {opening}", "spoken_call: trigger called"]
    return rules


def _alternatives(count: int) -> str:
    return " | ".join(f"tool_{number}" for number in range(count))


def _call(tool: Schema, bounds: Bounds) -> str:
    head = json.dumps(NAME_PART + tool.name + ARGUMENTS_PART)
    return f'{head} {_json(tool, bounds)} "{LAST_PART}"'


def _mark(mark: str, marks: frozenset[str]) -> str:
    return mark if mark in marks else json.dumps(mark)


def _json(schema: Schema, bounds: Bounds) -> str:
    document = bounds(json.loads(schema.text))
    return "%json " + json.dumps(document | {"x-guidance": SPACING | {"lenient": schema.lenient}})


def parts(guide: Guide) -> Sequence[Schema | Rule]:
    """The schemas or the rule of a guide, in the order of the body's fields."""
    return schemas(guide) if guide.rule is None else (guide.rule,)


def schemas(guide: Guide) -> Sequence[Schema]:
    return guide.tools if guide.answer is None else (guide.answer, *guide.tools)
