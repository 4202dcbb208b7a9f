"""The JSON Schema (2020-12) of a replay's JSON."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def json_schema() -> dict[str, Any]:
    """As it is shipped."""
    path = resources.files("memsim.report") / "schema-1.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema
