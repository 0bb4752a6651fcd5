"""The validator of FOCUS 1.2, run by the interpreter of `.venv-focus` in the folder of its package:
of each file that it is given, its rows, what became of each rule and what that says, as JSON."""

import json
import logging
import sys

from focus_validator.validator import Validator

_, applicable, *paths = sys.argv
logging.disable(logging.CRITICAL)


def judged(path):
    validator = Validator(
        data_filename=path,
        output_type="console",
        output_destination=None,
        rules_version="1.2",
        rules_block_remote_download=True,
        focus_dataset="CostAndUsage",
        applicability_criteria=applicable,
    )
    validator.load()
    data, rows = validator.focus_data, validator.data_row_count
    results = validator.spec_rules.validate(data, data_filename=path, data_row_count=rows)
    outcomes = {name: outcome(result) for name, result in results.by_rule_id.items()}
    text = {name: rule.validation_criteria.must_satisfy for name, rule in results.rules.items()}
    return {"rows": rows, "outcomes": outcomes, "text": text}


def outcome(result):
    if result["details"].get("skipped"):
        return "skipped"
    return "holds" if result["ok"] else "fails"


json.dump([judged(path) for path in paths], sys.stdout)
