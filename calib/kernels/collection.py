"""Generators of measurement kernels and their selection by tags (UIPiCK).

A generator has filter tags, one word each, and arguments with allowable values. Tags of the form
`word` select generators by a match condition, tags `argument:value,value` restrict the values, and
each generator makes a kernel for every remaining combination (Stevens and Klöckner 2020, section
7.1).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from calib.words import near, whole
from memsim.errors import MemsimError

Value = int | str | bool
Check = Callable[[Mapping[str, Any]], None]


class TagError(MemsimError):
    """A tag is unknown, or a value that no generator allows."""


class MatchCondition(enum.Enum):
    """Condition under which a generator's filter tags match the user's."""

    IDENTICAL = "identical"
    """Both sets are equal."""
    SUBSET = "subset"
    """The generator's tags are a subset of the user's."""
    SUPERSET = "superset"
    """The generator's tags are a superset of the user's; the default."""
    INTERSECT = "intersect"
    """Both sets have a common tag."""

    def holds(self, generator: frozenset[str], user: frozenset[str]) -> bool:
        if self is MatchCondition.IDENTICAL:
            return generator == user
        if self is MatchCondition.SUBSET:
            return generator <= user
        if self is MatchCondition.SUPERSET:
            return generator >= user
        return bool(generator & user)


@dataclass(frozen=True)
class Choice:
    """An argument with a few allowable values; all are used unless a tag restricts it."""

    values: tuple[Value, ...]

    @property
    def default(self) -> tuple[Value, ...]:
        return self.values

    def parse(self, text: str) -> Value:
        for value in self.values:
            if str(value).lower() == text.lower():
                return value
        raise ValueError(f"one of {', '.join(map(str, self.values))}")


@dataclass(frozen=True)
class Number:
    """An integer argument of at least `low`; `default` unless a tag specifies it."""

    default: tuple[int, ...]
    low: int = 1

    def parse(self, text: str) -> int:
        value = whole(text)
        if value is None or value < self.low:
            raise ValueError(f"an integer of at least {self.low}")
        return value


Argument = Choice | Number


@dataclass(frozen=True, kw_only=True)
class Built:
    """The result of a generator's builder for one set of arguments.

    kernel : loopy.TranslationUnit; kernels that differ only in size share one
    env : the integers that its counts depend on, name -> value
    arguments : function that returns all inputs, argument name -> numpy array or number
    check : function of the outputs, name -> array, that raises AssertionError if they are wrong;
        None for a kernel that computes nothing
    trip_counts : average trips of the loops with data-dependent bounds, iname -> value
    """

    kernel: Any
    env: Mapping[str, int]
    arguments: Callable[[], dict[str, Any]]
    check: Check | None = None
    trip_counts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MeasurementKernel(Built):
    """One kernel of a collection.

    name : generator and variant; tags : the generator's filter tags; variant : argument -> value
    """

    name: str
    tags: frozenset[str]
    variant: Mapping[str, Value]

    def workload(self) -> Any:
        """The kernel with its arguments, as the tracer takes it."""
        from tracegen.workloads import Workload

        return Workload(self.kernel, self.arguments(), check=self.check)


@dataclass(frozen=True, kw_only=True)
class Generator:
    """A function that creates kernels, with the tags that select it.

    tags : filter tags; the builder's docstring describes its kernels
    arguments : name -> allowable values; the builder takes all of them as keywords
    """

    name: str
    tags: frozenset[str]
    arguments: Mapping[str, Argument]
    build: Callable[..., Built]

    @property
    def description(self) -> str:
        return " ".join((self.build.__doc__ or "").split("\n\n")[0].split())

    def generate(self, given: Mapping[str, tuple[str, ...]]) -> list[MeasurementKernel]:
        """One kernel for every combination of values that `given` allows."""
        allowed = {name: self._narrowed(name, given.get(name)) for name in self.arguments}
        kernels = []
        for values in itertools.product(*allowed.values()):
            variant = dict(zip(allowed, values, strict=True))
            built = self.build(**variant)
            title = " ".join(f"{name}:{value}" for name, value in variant.items())
            kernels.append(
                MeasurementKernel(
                    **vars(built),
                    name=f"{self.name} {title}".strip(),
                    tags=self.tags,
                    variant=variant,
                )
            )
        return kernels

    def _narrowed(self, name: str, texts: Sequence[str] | None) -> tuple[Value, ...]:
        argument = self.arguments[name]
        if texts is None:
            return argument.default
        values: list[Value] = []
        for text in texts:
            try:
                values.append(argument.parse(text))
            except ValueError as rule:
                raise TagError(f"{name} of {self.name} must be {rule}, got {text!r}") from None
        return tuple(dict.fromkeys(values))


REGISTERED: list[Generator] = []
Build = TypeVar("Build", bound=Callable[..., Built])


def generator(*words: str, **arguments: Argument) -> Callable[[Build], Build]:
    """Makes a generator of the function below: its name and tags are the function's name, and further words.

    arguments : name -> allowable values
    """

    def register(build: Build) -> Build:
        name = build.__name__
        tags = frozenset((name, *words))
        REGISTERED.append(Generator(name=name, tags=tags, arguments=arguments, build=build))
        return build

    return register


class KernelCollection:
    """A set of generators, from which tags select.

    generator_match_cond : how filter tags match; see MatchCondition
    """

    def __init__(
        self,
        generators: Iterable[Generator],
        *,
        generator_match_cond: MatchCondition = MatchCondition.SUPERSET,
    ) -> None:
        self.generators = tuple(generators)
        self.condition = generator_match_cond

    def matching(self, tags: Iterable[str]) -> tuple[list[Generator], dict[str, tuple[str, ...]]]:
        """The generators that the tags select, and the values to which they restrict arguments.

        Raises TagError with similar names if a tag is unknown.
        """
        words, given = _split(tags)
        known = {tag for generator in self.generators for tag in generator.tags}
        for word in sorted(words - known):
            raise TagError(f"no generator has the tag {word!r}{near(word, sorted(known))}")
        chosen = [g for g in self.generators if self.condition.holds(g.tags, words)]
        if not chosen:
            raise TagError(
                f"no generator's tags are {self.condition.value} to {', '.join(sorted(words))}"
            )
        arguments = {name for generator in chosen for name in generator.arguments}
        for name in given:
            if name not in arguments:
                raise TagError(
                    f"no argument {name!r} of {', '.join(g.name for g in chosen[:4])}"
                    f"{near(name, sorted(arguments))}"
                )
        return chosen, given

    def generate_kernels(self, tags: Iterable[str]) -> list[MeasurementKernel]:
        """The kernels of every generator that the tags select, in all variants that they allow.

        tags : words, and `argument:value` or `argument:value,value`
        """
        chosen, given = self.matching(tags)
        return [kernel for generator in chosen for kernel in generator.generate(given)]


def _split(tags: Iterable[str]) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    if isinstance(tags, str):
        raise TagError(f"tags are a list of texts, got the text {tags!r}")
    words: set[str] = set()
    given: dict[str, tuple[str, ...]] = {}
    for tag in tags:
        name, colon, values = tag.strip().partition(":")
        if not colon:
            words.add(name)
            continue
        if name in given:
            raise TagError(f"{name!r} is given twice; write {name}:value,value")
        texts = tuple(text.strip() for text in values.split(","))
        if not name or not all(texts):
            raise TagError(f"a tag is WORD or ARGUMENT:VALUE,VALUE, got {tag!r}")
        given[name] = texts
    return frozenset(words), given
