"""Options declared once: the command line, Python keywords, documentation and provenance derive from it.

A family of options is a frozen dataclass derived from `Options`. Each field carries its default, its
bounds and its help:

    @dataclass(frozen=True, kw_only=True)
    class ReplayOptions(Options):
        seed: int = option(0, "Trial i depends on (seed, i) alone.", least=0)
        sampler: Literal["wrr", "gto"] = option("wrr", "How a core picks its next sub-group.")

`command_options(ReplayOptions)` decorates a command, `replace` checks keywords, and `to_json` is what
provenance records. The tables in the READMEs are tested to say the same.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import functools
import math
import operator
import types
import typing
from collections.abc import Callable, Collection
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from memsim.errors import MemsimError
from memsim.visible import shown

if TYPE_CHECKING:
    import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
MOST_JOBS = 4096
MOST_SEED = (1 << 63) - 1
"""Results store a seed as a 64-bit integer."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What an option's field carries besides its type and default.

    help : one or two sentences, for the command and the documentation
    least, most : inclusive bounds of a number
    above, below : exclusive bounds of a number
    unit : of a number, for the documentation
    metavar : the placeholder that the command's help shows
    flags : the command's names of the option, by default `--` and the field's name; () for a keyword of Python only
    default_text : what the documentation shows for a default that has no short text of its own
    is_flag : whether the command's option takes no value; a bool is always one
    parse : (context, parameter, text) -> value, a callback of click in place of the type's own conversion;
        of a flag, text is whether it was given
    recorded : whether provenance records it; options that cannot change a number need not be recorded
    """

    help: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    unit: str = ""
    metavar: str | None = None
    flags: tuple[str, ...] | None = None
    default_text: str = ""
    is_flag: bool = False
    parse: Callable[..., Any] | None = None
    recorded: bool = True


def option(
    default: Any = MISSING,
    help: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    **declared: Any,
) -> Any:
    """A field of an `Options` class; declared : see `Declared`;  factory : makes the default, in place of `default`"""
    metadata = {"option": Declared(help=help, **declared)}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of a family of options. Values are checked when an object is made."""

    error: ClassVar[type[MemsimError]] = MemsimError
    """What is raised where a value breaks its rule."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            broken = broken_rule(type(self), field.name, getattr(self, field.name))
            if broken:
                raise self.error(f"{field.name} {broken}")

    def replace(self, **changes: Any) -> Self:
        """A copy with some options changed. Raises the family's error for an unknown name."""
        known = {field.name for field in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean '{near[0]}'?" if near else f": {', '.join(sorted(known))}"
                raise self.error(f"there is no option '{name}'{hint}")
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """The options that decide a result, as provenance records them."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if declared(field).recorded
        }


def declared(field: dataclasses.Field[Any]) -> Declared:
    """What a field of an `Options` class carries."""
    return typing.cast(Declared, field.metadata["option"])


def broken_rule(family: type[Options], name: str, value: Any) -> str:
    """The rule that a value breaks, as `must be at least 1, got 0`; empty where it breaks none."""
    kind, optional, _ = _kind(family, name)
    if value is None:
        return "" if optional else "must be given"
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if value in choices:
            return ""
        return f"must be one of {', '.join(map(str, choices))}, got {shown(value)}"
    if kind in (int, float):
        return _broken_number(kind, _declared(family, name), value)
    return ""


def _broken_number(kind: type, rule: Declared, value: Any) -> str:
    number = "an integer" if kind is int else "a finite number"
    try:
        finite = kind is int or math.isfinite(value)
        is_number = finite and kind(value) == value
    except (TypeError, ValueError, OverflowError):
        is_number = False
    if isinstance(value, bool) or not is_number:
        return f"must be {number}, got {shown(value)}"
    unit = f" {rule.unit}" if rule.unit else ""
    rules: tuple[tuple[float | None, str, Callable[[Any, Any], bool]], ...] = (
        (rule.least, "at least", operator.ge),
        (rule.above, "above", operator.gt),
        (rule.most, "at most", operator.le),
        (rule.below, "below", operator.lt),
    )
    given = [one for one in rules if one[0] is not None]
    kept = all(holds(value, bound) for bound, _, holds in given)
    words = " and ".join(f"{word} {bound}{unit}" for bound, word, _ in given)
    return "" if kept else f"must be {words}, got {shown(value)}"


def command_options(
    family: type[Options], parameter: str = "options", only: Collection[str] = ()
) -> Decorator:
    """Adds a family's options to a click command, which gets them as one object named `parameter`.

    only : the names of those that the command has; all if empty
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        fields = [
            field
            for field in dataclasses.fields(family)
            if declared(field).flags != () and (not only or field.name in only)
        ]

        @functools.wraps(command)
        def with_options(**arguments: Any) -> Any:
            own = {field.name: arguments.pop(field.name) for field in fields}
            return command(**{parameter: family(**own)}, **arguments)

        decorated: Callable[..., Any] = with_options
        for field in reversed(fields):
            decorated = _click_option(family, field)(decorated)
        return decorated

    return decorate


def _click_option(family: type[Options], field: dataclasses.Field[Any]) -> Decorator:
    import click

    rule = declared(field)
    kind, _, many = _kind(family, field.name)
    metavar = rule.metavar or ("N" if kind is int else None)
    settings: dict[str, Any] = {"help": rule.help, "metavar": metavar}
    is_flag = kind is bool or rule.is_flag
    if is_flag:
        settings["is_flag"] = True
    elif typing.get_origin(kind) is Literal:
        settings["type"] = click.Choice(typing.get_args(kind))
    elif rule.parse is None:
        settings["type"] = kind
    default = field.default if field.default is not MISSING else field.default_factory
    if many:
        settings["multiple"] = True
    elif default is not MISSING and not rule.is_flag:
        settings["default"] = default
        if not is_flag:
            settings["show_default"] = rule.default_text or default is not None
    flags = rule.flags or ("--" + field.name.replace("_", "-"),)
    return click.option(*flags, field.name, callback=_checked(family, field.name), **settings)


def _checked(family: type[Options], name: str) -> Callable[..., Any]:
    """A callback of click that refuses what the dataclass would refuse, under the option's name."""

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        import click

        parse = _declared(family, name).parse
        if parse is not None:
            value = parse(context, parameter, value)
        broken = broken_rule(family, name, value)
        if broken:
            raise click.BadParameter(broken, context, parameter)
        return value

    return check


def _declared(family: type[Options], name: str) -> Declared:
    return declared(family.__dataclass_fields__[name])


_hints: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


def _kind(family: type[Options], name: str) -> tuple[Any, bool, bool]:
    """(type of one value, whether None is allowed, whether there are several values)."""
    hint = _hints(family)[name]
    optional = hint is Any
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        arms = [arm for arm in typing.get_args(hint) if arm is not type(None)]
        optional = len(arms) < len(typing.get_args(hint))
        hint = arms[0] if len(arms) == 1 else Any
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint)[0], optional, True
    if typing.get_origin(hint) is collections.abc.Mapping:
        return Any, optional, True
    if typing.get_origin(hint) is not Literal and not isinstance(hint, type):
        hint = Any
    return hint, optional, False
