"""Converts the texts of `--set NAME=TEXT` to values, by annotations."""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any, Literal

from memsim.errors import KernelError

_TRUTHS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
LONGEST_SHOWN = 100


class WrongSetting(KernelError):
    """A setting that the kernel cannot have, whatever the others are: of no such name, or of no such type."""


def convert(name: str, text: str, hint: Any) -> Any:
    """The value that `text` stands for as an int, float, bool, str, Path, Literal or optional one.

    Raises WrongSetting that names the setting, the rule and the text.
    """
    origin = typing.get_origin(hint)
    if origin is Literal:
        choices = typing.get_args(hint)
        for choice in choices:
            if str(choice) == text:
                return choice
        raise _wrong(name, f"one of {', '.join(map(str, choices))}", text)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        if len(options) < len(typing.get_args(hint)) and text.lower() == "none":
            return None
        for option in options[:-1]:
            try:
                return convert(name, text, option)
            except WrongSetting:
                continue
        return convert(name, text, options[-1])
    if origin is typing.Annotated:
        return convert(name, text, typing.get_args(hint)[0])
    if hint is bool:
        if text.lower() not in _TRUTHS:
            raise _wrong(name, "true or false", text)
        return _TRUTHS[text.lower()]
    if hint is int:
        return _number(name, text, int, "an integer")
    if hint is float:
        return _number(name, text, float, "a number")
    if hint is Path:
        return Path(text)
    return text


def _number(name: str, text: str, kind: Any, rule: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise _wrong(name, rule, text) from None


def _wrong(name: str, rule: str, text: str) -> WrongSetting:
    return WrongSetting(f"{name} must be {rule}, got {text[:LONGEST_SHOWN]!r}")
