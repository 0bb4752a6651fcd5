"""The page of routing policies: what a clause may read of a call."""

from reference.markdown import code, table
from routing.policy.attributes import ATTRIBUTES

HEAD = """# Routing policies

A clause of a [routing policy](../policies.md) reads these attributes of a call. `GET /admin/v1/policies/schema` has them too,
beside the JSON Schema of a document.

"""
ROW = ("Attribute", "Type", "Is")


def policies() -> str:
    rows = [(code(each.name), code(each.kind.value), each.meaning) for each in ATTRIBUTES]
    return HEAD + table(ROW, rows)
