"""The command that lists measurement kernels: kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memsim.commands import console

if TYPE_CHECKING:
    from calib.kernels.collection import Generator

MATCHES = ("superset", "subset", "identical", "intersect")


@click.command()
@click.argument("tags", nargs=-1, metavar="[TAG]...")
@click.option(
    "--tags",
    "show_tags",
    is_flag=True,
    help="List every generator with its tags and the possible values of its arguments.",
)
@click.option(
    "--match",
    type=click.Choice(MATCHES),
    default="superset",
    show_default=True,
    help="Which generators match the given tags: those that have all of them, no others, exactly these, or"
    " at least one.",
)
def kernels(tags: tuple[str, ...], show_tags: bool, match: str) -> int:
    """List the measurement kernels that match tags.

    A TAG is a tag of a generator, or ARGUMENT:VALUE,VALUE. Every combination of the remaining values is a
    kernel.

    \b
    Examples:
      memsim kernels --tags
      memsim kernels matmul_sq prefetch:True dtype:float32 n:256,512
    """
    from calib.kernels import ALL_GENERATORS, KernelCollection, MatchCondition

    collection = KernelCollection(ALL_GENERATORS, generator_match_cond=MatchCondition(match))
    if show_tags or not tags:
        chosen = collection.matching(tags)[0] if tags else list(ALL_GENERATORS)
        _show_generators(chosen)
        return 0
    for kernel in collection.generate_kernels(tags):
        click.echo(kernel.name)
    return 0


def _show_generators(generators: list[Generator]) -> None:
    from memsim.report import PlainTable

    rows = [
        (
            each.name,
            "\n".join(sorted(each.tags)),
            "\n".join(f"{k}:{','.join(map(str, a.default))}" for k, a in each.arguments.items()),
            each.description,
        )
        for each in generators
    ]
    console().print(PlainTable("", ("generator", "tags", "arguments", "kernels"), rows))
