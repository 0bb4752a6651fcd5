"""What the routes about budgets answer, as JSON Schema."""

from gateway.api.json_schema import (
    BOOLEAN,
    COUNT,
    STRING,
    TIME,
    USD,
    Schema,
    array,
    const,
    either,
    listed,
    maybe,
    named,
    objects,
    one_of,
)

BUDGET: dict[str, Schema] = {
    "id": STRING,
    "object": const("budget"),
    "organization": STRING,
    "scope": STRING,
    "name": STRING,
    "hard": BOOLEAN,
    "limit_usd": USD,
    "window": objects(
        {
            "kind": one_of(("total", "day", "week", "month", "year", "rolling")),
            "time_zone": STRING,
            "anchor": STRING,
            "seconds": COUNT,
        },
        *("time_zone", "anchor", "seconds"),
    ),
    "alerts": array(COUNT),
    "created_at": TIME,
    "ended_at": maybe(TIME),
    "state": maybe(
        objects(
            {
                "spent_usd": USD,
                "held_usd": maybe(USD),
                "remaining_usd": USD,
                "starts_at": maybe(TIME),
                "resets_at": maybe(TIME),
            }
        )
    ),
}

BUDGET_COMPONENTS: dict[str, Schema] = {
    "WindowBudget": objects(BUDGET),
    "AnyBudget": either(named("WindowBudget"), named("Budget")),
    "AnyAlert": either(named("BudgetAlert"), named("CreditAlert")),
    "BudgetAlert": objects(
        {
            "object": const("budget.alert"),
            "budget": STRING,
            "name": STRING,
            "organization": STRING,
            "scope": STRING,
            "end_user": maybe(STRING),
            "percent": COUNT,
            "limit_usd": USD,
            "spent_usd": USD,
            "period_starts_at": maybe(TIME),
            "raised_at": TIME,
        }
    ),
}

BUDGETS = "/admin/v1/budgets"
BUDGET_ANSWERS: dict[tuple[str, str], Schema] = {
    ("get", BUDGETS): listed("AnyBudget"),
    ("post", BUDGETS): named("WindowBudget"),
    ("get", BUDGETS + "/alerts"): listed("AnyAlert"),
    ("get", BUDGETS + "/{budget}"): named("WindowBudget"),
    ("patch", BUDGETS + "/{budget}"): named("WindowBudget"),
    ("delete", BUDGETS + "/{budget}"): named("WindowBudget"),
    ("put", BUDGETS + "/{budget}"): named("Budget"),
}
