"""Small mistakes in a piece of source, one at a time: a comparison, a sum, a bound, a constant.

Pure: source and names of functions in, changed sources out. What comes out means something else
than what went in wherever Python can tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import islice
from typing import NamedTuple

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
REACHED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
BOUNDS = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Change(NamedTuple):
    """`text` is the line that is changed, `what` how."""

    line: int
    text: str
    what: str
    source: str


def changes(source: str, functions: Sequence[str]) -> Iterator[Change]:
    """Every change of the functions of these names, in their order."""
    tree = ast.parse(source)
    lines = source.splitlines()
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and function.name in functions
        for node in ast.walk(function)
    }
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in inside and isinstance(node, ast.expr):
            for what, changed in _changed(node):
                yield Change(
                    node.lineno, lines[node.lineno - 1].strip(), what, _with(tree, place, changed)
                )


class _Put(ast.NodeTransformer):
    def __init__(self, there: ast.AST, changed: ast.AST) -> None:
        self._there = there
        self._changed = changed

    def visit(self, node: ast.AST) -> ast.AST:
        found: ast.AST = self._changed if node is self._there else self.generic_visit(node)
        return found


def _with(tree: ast.Module, place: int, changed: ast.AST) -> str:
    """The source with `changed` where a walk comes to `place`."""
    copied = deepcopy(tree)
    there = next(islice(ast.walk(copied), place, None))
    return ast.unparse(_Put(there, changed).visit(copied))


def _changed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=others):
            other = COMPARED[type(operator)]
            yield (
                f"{type(operator).__name__} > {other.__name__}",
                ast.Compare(left, [other()], others),
            )
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in REACHED:
            swapped = REACHED[type(operator)]
            yield (
                f"{type(operator).__name__} > {swapped.__name__}",
                ast.BinOp(left, swapped(), right),
            )
        case ast.BoolOp(op=operator, values=values):
            turned = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield f"{type(operator).__name__} turned", ast.BoolOp(turned, values)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in BOUNDS:
            called = ast.Name(BOUNDS[name], ast.Load())
            yield f"{name} > {BOUNDS[name]}", ast.Call(called, args, keywords)
        case ast.Constant(value=bool(value)):
            yield f"{value} > {not value}", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield f"{value} > {value + 1}", ast.Constant(value + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "if turned", ast.IfExp(test, orelse, body)
