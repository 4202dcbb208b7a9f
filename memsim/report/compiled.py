"""The machine code of a kernel in a report: `provenance["compiler"]` of its trace.

Results may come from files: whatever does not have the expected form is left out.

    target, registers_per_item, stand_ins, notes
                       and the versions of the tools, as texts; or only
    missing            why there is no machine code
    code{}             its instructions, in columns of equal length: text, pipe, line (of the
                       generated source, 0 if unknown), site (index, -1 for what accesses no array);
                       n_instructions, of which the columns may hold only the first
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NO_TOOLS = {"target", "registers_per_item", "stand_ins", "notes", "code", "missing"}


@dataclass(frozen=True, kw_only=True)
class MachineInstruction:
    """number : in the order of the code, from 0; line, site : None if there is none"""

    number: int
    text: str
    pipe: str
    line: int | None
    site: str | None


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """The machine code of a kernel; all empty where the trace has no compiler's.

    tools : name -> version
    stand_ins : what is used instead of what the machine would run, a sentence each
    missing : why there is no machine code
    chance : why another run would give another trace
    instructions : of which the trace holds only the first where n_instructions is larger
    """

    target: str = ""
    registers_per_item: int | None = None
    tools: Mapping[str, str] | None = None
    stand_ins: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    missing: str = ""
    chance: str = ""
    instructions: tuple[MachineInstruction, ...] = ()
    n_instructions: int = 0

    @property
    def first_lines(self) -> tuple[str, ...]:
        """What every report begins with: that it is not of the machine's own code, and why. Mostly empty."""
        chance = (f"{self.chance}, so its trace is one of many.",) if self.chance else ()
        if not self.missing:
            return (*self.stand_ins, *chance)
        why = (
            "The accesses are in the order of the source, and registers are not those of a"
            f" compiler: {self.missing.rstrip('.')}."
        )
        return (why, *self.stand_ins, *chance)

    @property
    def tools_text(self) -> str:
        return ", ".join(f"{name} {version}" for name, version in (self.tools or {}).items())

    @property
    def mix(self) -> dict[str, int]:
        """Pipe -> number of instructions, most frequent first."""
        return dict(Counter(one.pipe for one in self.instructions).most_common())


def read_compiled(provenance: Mapping[str, Any], site_names: tuple[str, ...] = ()) -> Compiled:
    """The machine code of a replay's provenance.

    site_names : in the order of the trace
    """
    compiler = _compiler(provenance)
    registers = compiler.get("registers_per_item")
    return Compiled(
        target=_text(compiler.get("target")),
        registers_per_item=registers if isinstance(registers, int) else None,
        tools={
            name: value
            for name, value in compiler.items()
            if name not in _NO_TOOLS and isinstance(value, str)
        },
        stand_ins=_texts(compiler.get("stand_ins")),
        notes=_texts(compiler.get("notes")),
        missing=_text(compiler.get("missing")),
        chance=_text(_trace(provenance).get("one_of_many")),
        **_code(compiler.get("code"), site_names),
    )


def first_lines(provenance: Mapping[str, Any]) -> tuple[str, ...]:
    """`Compiled.first_lines` by the provenance of a trace."""
    return read_compiled({"trace": provenance}).first_lines


def without_code(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance less its table of instructions."""
    compiler = _compiler(provenance)
    if "code" not in compiler:
        return dict(provenance)
    kept = {name: value for name, value in compiler.items() if name != "code"}
    return {**provenance, "trace": {**provenance["trace"], "compiler": kept}}


def _compiler(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    compiler = _trace(provenance).get("compiler")
    return compiler if isinstance(compiler, Mapping) else {}


def _trace(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    trace = provenance.get("trace")
    return trace if isinstance(trace, Mapping) else {}


def _code(table: Any, site_names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        return {}
    columns = [table.get(name) for name in ("text", "pipe", "line", "site")]
    if not all(isinstance(column, list) for column in columns):
        return {}
    total = table.get("n_instructions")
    instructions = tuple(
        MachineInstruction(
            number=number,
            text=_text(text),
            pipe=_text(pipe),
            line=line if isinstance(line, int) and line > 0 else None,
            site=_item(site_names, site),
        )
        for number, (text, pipe, line, site) in enumerate(zip(*columns, strict=False))
    )
    return {
        "instructions": instructions,
        "n_instructions": max(total if isinstance(total, int) else 0, len(instructions)),
    }


def _item(names: tuple[str, ...], index: Any) -> str | None:
    return names[index] if isinstance(index, int) and 0 <= index < len(names) else None


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(_text(one) for one in values) if isinstance(values, list) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
