"""The page of settings: names, kinds and bounds from the declarations, words from `sluice.toml`."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gateway
from gateway.settings import Settings
from reference.markdown import code, table

FILE = Path(gateway.__file__).parent.parent / "sluice.toml"
ENTRY = re.compile(r"^(?:# +)?(\w+) = ((?:\"[^\"]*\"|\[[^\]]*\]|[^#\s])+)\s*(?:# (.*))?$")
SECRETS = ("admin_key", "api_key", "worker_secret")
HEAD = """# Settings

`sluice up` reads the file named by `--config` or `SLUICE_CONFIG`, else `./sluice.toml`, else the one that comes with
Sluice. A variable wins over the file: `SLUICE_GATEWAY__PORT=8081` sets `port` of `[gateway]`. A key that is not known
is an error. Names end with their unit: `_s` seconds, `_ms` milliseconds, `_us` microseconds, `_usd` decimal USD in text.

Every default below is that of the file that comes with Sluice, `sluice.toml`. An example of a file of your own:

```toml
[gateway]
port = 8081

[ledger]
invoice_series = "REED"
```

"""
Row = tuple[str, str, str, str]
ROW = ("Setting", "Kind", "Default or example", "Says")


def settings() -> str:
    words = _words()
    schema = Settings.model_json_schema(by_alias=True)
    parts = [HEAD, "## Of all parts\n\n"]
    for name, rows in _sections(schema, words):
        parts += [f"## {name}\n\n"] if name else []
        parts.append(table(ROW, rows))
    return "".join(parts)


def _sections(
    schema: Mapping[str, Any], words: Mapping[tuple[str, str], tuple[str, str]]
) -> Iterator[tuple[str, list[Row]]]:
    properties = schema["properties"]
    top = {name: each for name, each in properties.items() if not _inner(each, schema)}
    yield "", [_row("", name, each, words) for name, each in top.items() if name not in SECRETS]
    for name, each in properties.items():
        if (inner := _inner(each, schema)) is not None:
            yield from _section(name, inner, schema, words, listed="items" in each)


def _section(
    name: str,
    section: Mapping[str, Any],
    schema: Mapping[str, Any],
    words: Mapping[tuple[str, str], tuple[str, str]],
    *,
    listed: bool = False,
) -> Iterator[tuple[str, list[Row]]]:
    plain: list[Row] = []
    deeper: list[tuple[str, Mapping[str, Any], bool]] = []
    for key, each in section["properties"].items():
        inner = _inner(each, schema)
        if inner is None:
            plain.append(_row(name, key, each, words))
        else:
            deeper.append((f"{name}.{key}", inner, "items" in each))
    yield (f"[[{name}]]" if listed else f"[{name}]"), plain
    for path, inner, is_list in deeper:
        yield from _section(path, inner, schema, words, listed=is_list)


def _inner(each: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The table behind a key, if there is one."""
    options = [each, each.get("items", {}), *each.get("anyOf", ())]
    reference = next((one["$ref"] for one in options if "$ref" in one), "")
    inner = schema.get("$defs", {}).get(reference.rpartition("/")[2])
    return inner if inner is not None and "properties" in inner else None


def _row(
    section: str,
    key: str,
    each: Mapping[str, Any],
    words: Mapping[tuple[str, str], tuple[str, str]],
) -> Row:
    value_text, comment = words.get((section, key), ("", ""))
    default = "" if "default" not in each else json.dumps(each["default"])
    text = comment or str(each.get("description", ""))
    return code(key), kind(each), code(value_text or default), text[:1].upper() + text[1:]


def kind(each: Mapping[str, Any]) -> str:
    """The type of a setting in words, with its bounds."""
    options = [one for one in each.get("anyOf", [each]) if one.get("type") != "null"]
    return " or ".join(dict.fromkeys(_kind(one) for one in options))


def _kind(each: Mapping[str, Any]) -> str:
    if "enum" in each:
        return ", ".join(code(value) for value in each["enum"])
    if "$ref" in each:
        return "429 or 402" if each["$ref"].endswith("QuotaStatus") else "table"
    bounds = [
        f"{words} {each[key]}"
        for key, words in (
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("exclusiveMaximum", "below"),
        )
        if key in each
    ]
    return " ".join([str(each.get("const") or each.get("type") or "any"), *bounds])


def _words() -> Mapping[tuple[str, str], tuple[str, str]]:
    """The value and the comment of each key of `sluice.toml`. Of tables that repeat, the first one
    counts."""
    section = ""
    words: dict[tuple[str, str], tuple[str, str]] = {}
    for line in FILE.read_text().splitlines():
        if header := re.match(r"^\[+([\w.]+)\]+", line):
            section = header[1]
        elif entry := ENTRY.match(line):
            entry_words = words.get((section, entry[1]), ("", ""))
            words[section, entry[1]] = (
                entry_words[0] or entry[2],
                entry_words[1] or entry[3] or "",
            )
        else:
            section = _announced(line, section)
    return words


def _announced(line: str, section: str) -> str:
    """The section that a line begins. A rule of dashes names the tables that follow, whose comments
    stand before the first one."""
    heading = re.match(r"^# -{20,} (\w+)$", line)
    return heading[1] if heading else section
