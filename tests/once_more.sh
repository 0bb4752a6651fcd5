#!/usr/bin/env bash
# Runs pytest; the few tests that fail run once more, alone. A test that passes only then hangs on the load of the
# machine: it is named at the end, and is a defect of the test. More than MOST failures are the code's: the run ends.
set -euo pipefail
MOST=12
first=$(mktemp)
again=$(mktemp)
trap 'rm -f "$first" "$again"' EXIT

# The tests of the summary by their own names: pytest-xdist puts the group of a test behind its name.
names() {
  python3 - "$first" <<'PY'
import json, re, sys
from pathlib import Path

said = Path(sys.argv[1]).read_text()
for name in json.loads(Path(".pytest_cache/v/cache/lastfailed").read_text()):
    if f"\nFAILED {name}" in said or f"\nERROR {name}" in said:
        print(re.sub(r"@\w+$", "", name))
PY
}

status=0
"$@" 2>&1 | tee "$first" || status=$?
failed=$(sed -n '/short test summary info/,$p' "$first" | grep -cE '^(FAILED|ERROR) ' || true)
[ "$status" -eq 1 ] && [ "$failed" -ge 1 ] && [ "$failed" -le "$MOST" ] || exit "$status"
names >"$again"
[ "$(wc -l <"$again")" -eq "$failed" ] || exit "$status"
echo "== pytest: the $failed that failed, once more and alone"
"$@" -n 0 "@$again"
echo "== pytest: $failed passed only alone; mend them: they are named above as FAILED or ERROR"
