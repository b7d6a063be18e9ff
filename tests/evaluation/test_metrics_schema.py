"""The published schema of ``metrics.json`` is the one that is written."""

import json
from pathlib import Path

from tokenstn.evaluation.metrics_json import json_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "metrics.schema.json"
AGAIN = (
    'python -c "import json; from tokenstn.evaluation.metrics_json import json_schema; '
    'print(json.dumps(json_schema(), indent=2))" > docs/metrics.schema.json'
)


def test_the_published_schema_is_up_to_date():
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == json_schema(), f"make it again: {AGAIN}"
