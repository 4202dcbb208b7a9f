"""LLVM's text of a compiled program: functions, blocks, instructions, and positions in the source.

Only what probes need is read. A value is named as in the text, `%x` or `@x`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

VALUE = re.compile(r'[%@](?:"[^"]*"|[-\w.$]+)')
RESTRICTED = '"memsim-restrict"'
"""The attribute of `restrict` parameters."""
_DEFINE = re.compile(r'^define\b.*?(@(?:"[^"]*"|[-\w.$]+))\(')
_LABEL = re.compile(r'^("[^"]*"|[-\w.$]+):')
_RESULT = re.compile(r'^(%(?:"[^"]*"|[-\w.$]+)) = (.*)$')
_ATTACHED = re.compile(r", ?!(?=[a-zA-Z])")
_DEBUG = re.compile(r"!dbg !(\d+)")
_TYPE_TAG = re.compile(r"!tbaa !(\d+)")
_CALL_PREFIX = re.compile(r"^(?:tail |musttail |notail )?call\b")
_CALLEE = re.compile(r'(@(?:"[^"]*"|[-\w.$]+))\(')
_EXPRESSION = re.compile(r"\b(?:getelementptr|inttoptr|ptrtoint|addrspacecast|bitcast)\b.*")
_METADATA = re.compile(r"^!(\d+) = (?:distinct )?(.*)$", re.MULTILINE)
_SKIPPED = re.compile(
    r"^\s*(?:#dbg_|(?:tail )?call void @llvm\.(?:dbg|lifetime|assume|experimental)\b)"
)
_SCALAR_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8, "x86_fp80": 16}


@dataclass
class Instruction:
    """One instruction. line : its number in the text, from 0; text : without its metadata"""

    line: int
    result: str
    text: str
    debug: int | None
    type_tag: int | None

    @cached_property
    def opcode(self) -> str:
        if _CALL_PREFIX.match(self.text):
            return "call"
        return self.text.split(None, 1)[0]

    @cached_property
    def operands(self) -> list[str]:
        """The values and labels that it names."""
        return VALUE.findall(self.text)

    @cached_property
    def parts(self) -> list[str]:
        """What stands between commas outside brackets, without the opcode."""
        words = re.sub(r"^(?:load|store)\s+(?:atomic\s+)?(?:volatile\s+)?", "", self.text)
        if words == self.text:
            words = self.text.partition(" ")[2]
        return split(words)

    @property
    def callee(self) -> str:
        """The function that a call names, without `@`; "" where it is a pointer."""
        match = _CALLEE.search(self.text) if self.opcode == "call" else None
        return match[1][1:].strip('"') if match else ""

    @cached_property
    def arguments(self) -> list[str]:
        """The values that a call passes, constants included."""
        match = _CALLEE.search(self.text)
        start = match.end() if match else self.text.index("(") + 1
        inner = self.text[start : _closing(self.text, start)]
        return [_argument(part) for part in split(inner) if part]

    @property
    def is_volatile(self) -> bool:
        return " volatile " in self.text


@dataclass
class Block:
    """A basic block. line : that of its label, or of its first instruction"""

    label: str
    line: int
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def terminator(self) -> Instruction:
        return self.instructions[-1]

    @cached_property
    def successors(self) -> list[str]:
        return list(dict.fromkeys(re.findall(r'label %("[^"]*"|[-\w.$]+)', self.terminator.text)))


@dataclass
class Function:
    """A function. header, end : the numbers of its first and last line"""

    name: str
    header: int
    end: int
    blocks: list[Block]


@dataclass(frozen=True)
class Place:
    """A position in a file: 1-based, column 0 if unknown; and the function that it lies in."""

    file: str
    line: int
    column: int
    function: str


class Module:
    """A program in LLVM's text."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.metadata = {int(m[1]): m[2] for m in _METADATA.finditer(text)}
        self.structs = dict(
            re.findall(r'^(%(?:"[^"]*"|[-\w.$]+)) = type (.+)$', text, re.MULTILINE)
        )
        self.functions = {function.name: function for function in self._functions()}

    def layout(self, kind: str) -> tuple[int, int]:
        """The size and the alignment of a type, in bytes."""
        kind = self.structs.get(kind, kind)
        if match := re.fullmatch(r"\[(\d+) x (.+)\]", kind):
            size, alignment = self.layout(match[2])
            return int(match[1]) * size, alignment
        if kind.startswith(("{", "<{")):
            packed = kind.startswith("<{")
            ends = [0]
            most = 1
            for field_kind in split(kind.strip("<{ }>")) if kind.strip("<{ }>") else ():
                size, alignment = self.layout(field_kind)
                alignment = 1 if packed else alignment
                most = max(most, alignment)
                ends.append(-(-ends[-1] // alignment) * alignment + size)
            return -(-ends[-1] // most) * most, most
        size = bytes_of(kind)
        return size, max(1 << max(size - 1, 0).bit_length(), 1)

    def offset(self, kind: str, indices: list[int]) -> int:
        """The byte offset that constant indices of `getelementptr` stand for."""
        offset = indices[0] * self.layout(kind)[0] if indices else 0
        for index in indices[1:]:
            kind = self.structs.get(kind, kind)
            if match := re.fullmatch(r"\[(\d+) x (.+)\]", kind):
                kind = match[2]
                offset += index * self.layout(kind)[0]
                continue
            end = 0
            for number, field_kind in enumerate(split(kind.strip("<{ }>"))):
                size, alignment = self.layout(field_kind)
                alignment = 1 if kind.startswith("<{") else alignment
                start = -(-end // alignment) * alignment
                end = start + size
                if number == index:
                    kind, offset = field_kind, offset + start
                    break
        return offset

    def _functions(self) -> Iterator[Function]:
        number = 0
        while number < len(self.lines):
            match = _DEFINE.match(self.lines[number])
            if match:
                function = self._function(match[1][1:].strip('"'), number)
                number = function.end
                yield function
            number += 1

    def _function(self, name: str, header: int) -> Function:
        blocks: list[Block] = []
        number = header + 1
        while self.lines[number] != "}":
            line = self.lines[number]
            label = _LABEL.match(line)
            if label:
                blocks.append(Block(label[1], number))
            elif line.strip() and not line.lstrip().startswith(";") and not _SKIPPED.match(line):
                if not blocks:
                    blocks.append(Block("", number))
                first = number
                if "[" in line and line.lstrip().startswith("switch") and "]" not in line:
                    while "]" not in self.lines[number]:
                        number += 1
                        line += self.lines[number]
                blocks[-1].instructions.append(_instruction(first, line.strip()))
            number += 1
        return Function(name, header, number, blocks)

    def chain(self, debug: int | None) -> list[Place]:
        """The positions of an instruction: its own, then that of each call that it was inlined at."""
        places = []
        while debug is not None and debug in self.metadata:
            text = self.metadata[debug]
            line, column = _number(text, "line"), _number(text, "column")
            scope = _reference(text, "scope")
            file, function = self._scope(scope) if scope is not None else ("", "")
            places.append(Place(file, line, column, function))
            debug = _reference(text, "inlinedAt")
        return places

    @cache  # noqa: B019 - one module lives as long as its preparation
    def _scope(self, scope: int) -> tuple[str, str]:
        """The file and the function of a scope."""
        text = self.metadata[scope]
        file_number = _reference(text, "file")
        file = self._file(file_number) if file_number is not None else ""
        while not text.startswith("!DISubprogram"):
            outer = _reference(text, "scope")
            if outer is None:
                return file, ""
            text = self.metadata[outer]
        return file, _string(text, "name")

    def _file(self, number: int) -> str:
        text = self.metadata[number]
        name, folder = _string(text, "filename"), _string(text, "directory")
        whole = name if name.startswith("/") or folder in ("", ".") else f"{folder}/{name}"
        return whole.removeprefix("./")

    def type_name(self, tag: int | None) -> str:
        """The type of an access as the language's aliasing rules know it, "" if any may alias."""
        text = self.metadata.get(tag if tag is not None else -1, "")
        references = re.findall(r"!(\d+)", text)
        if len(references) < 2:
            return ""
        name = re.match(r'!\{!"([^"]*)"', self.metadata.get(int(references[1]), ""))
        return "" if name is None or "char" in name[1] else name[1]

    def name_of_variable(self, line: str) -> str:
        """The name in the source of the variable that a line defines, "" if it is unknown."""
        match = _DEBUG.search(line)
        expression = self.metadata.get(int(match[1]), "") if match else ""
        variable = _reference(expression, "var")
        return _string(self.metadata[variable], "name") if variable is not None else ""

    def launch_bound(self, kernel: str) -> int | None:
        """The most threads of a block that `__launch_bounds__` of a kernel allows, None without it."""
        line = next((one for one in self.lines if one.startswith("@llvm.global.annotations =")), "")
        symbol = rf'@"?{re.escape(kernel)}"?'
        for values in re.findall(rf"{{ ptr {symbol}, ptr [^{{}}]*?, ptr (@[^ ,]+) }}", line):
            (text,) = (one for one in self.lines if one.startswith(f"{values} ="))
            if match := re.search(r"{ i\d+ (\d+)", text):
                return int(match[1])
        return None

    def parameters(self, function: str) -> list[str]:
        """The names of a function's parameters in order, "" for one without."""
        match = _DEBUG.search(self.lines[self.functions[function].header])
        own = int(match[1]) if match else -1
        names: dict[int, str] = {}
        for text in self.metadata.values():
            if text.startswith("!DILocalVariable") and _reference(text, "scope") == own:
                number = _number(text, "arg")
                if number:
                    names[number] = _string(text, "name")
        return [names.get(k, "") for k in range(1, max(names, default=0) + 1)]


def _instruction(number: int, line: str) -> Instruction:
    debug, tag = _DEBUG.search(line), _TYPE_TAG.search(line)
    cut = _ATTACHED.search(line)
    text = line[: cut.start()] if cut else line
    match = _RESULT.match(text)
    result, text = (match[1], match[2]) if match else ("", text)
    return Instruction(
        number, result, text, int(debug[1]) if debug else None, int(tag[1]) if tag else None
    )


def _argument(part: str) -> str:
    """The value of an argument, without its type and attributes; it may be a constant expression."""
    expression = _EXPRESSION.search(part)
    return expression[0] if expression else part.split()[-1]


def split(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    parts, depth, start, quoted = [], 0, 0, False
    for offset, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:offset].strip())
            start = offset + 1
    return [*parts, text[start:].strip()]


def _closing(text: str, start: int) -> int:
    depth = 1
    for offset in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[offset], 0)
        if depth == 0:
            return offset
    return len(text)


def bytes_of(kind: str) -> int:
    """The size of a scalar or vector type; 0 for other types."""
    if kind in _SCALAR_BYTES:
        return _SCALAR_BYTES[kind]
    if match := re.fullmatch(r"i(\d+)", kind):
        return -(-int(match[1]) // 8)
    if match := re.fullmatch(r"<(\d+) x (.+)>", kind):
        return int(match[1]) * bytes_of(match[2])
    if match := re.fullmatch(r"\[(\d+) x (.+)\]", kind):
        return int(match[1]) * bytes_of(match[2])
    return 0


def _number(text: str, key: str) -> int:
    match = re.search(rf"\b{key}: (\d+)", text)
    return int(match[1]) if match else 0


def _reference(text: str, key: str) -> int | None:
    match = re.search(rf"\b{key}: !(\d+)", text)
    return int(match[1]) if match else None


def _string(text: str, key: str) -> str:
    match = re.search(rf'\b{key}: "([^"]*)"', text)
    return match[1] if match else ""
