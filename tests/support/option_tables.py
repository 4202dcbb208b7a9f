"""The tables of options that the READMEs show."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import MISSING
from typing import Any, Literal

from memsim.options import Options, _kind, declared


def markdown_table(family: type[Options]) -> str:
    """The options as a table in Markdown: keyword, option of the command, default, meaning."""
    rows = ["| keyword | option | default | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(family):
        rule = declared(field)
        flags = ("--" + field.name.replace("_", "-"),) if rule.flags is None else rule.flags
        written = ", ".join(f"`{flag}`" for flag in flags) or "Python only"
        kind, _, _ = _kind(family, field.name)
        choices = ""
        if typing.get_origin(kind) is Literal:
            choices = " One of " + ", ".join(f"`{c}`" for c in typing.get_args(kind)) + "."
        rows.append(
            f"| `{field.name}` | {written} | {_default_text(field)} | {rule.help}{choices} |"
        )
    return "\n".join(rows)


def _default_text(field: dataclasses.Field[Any]) -> str:
    rule = declared(field)
    if rule.default_text:
        return rule.default_text
    if field.default is MISSING:
        return "none" if field.default_factory is MISSING else "worked out"
    if field.default is None or field.default == ():
        return "none"
    return f"`{field.default}`" + (f" {rule.unit}" if rule.unit else "")
