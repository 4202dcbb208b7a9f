"""What-if changes: their effect on a machine and a program, and errors."""

from __future__ import annotations

import pytest

from calib.prediction.basic_blocks import Block, Program, Repeat
from calib.prediction.what_if import WhatIfError, parse, without_barriers
from memsim.machine.file import load_machine

V100 = load_machine("v100")
KIB = 1024


def test_several_changes_at_once() -> None:
    changes = parse("blocks_per_core=4, l1=64KiB,no-barriers", V100)
    assert (changes.groups_per_core, changes.barriers, changes.latency) == (4, False, True)
    assert changes.machine.levels[0].size_bytes == 64 * KIB
    assert changes.machine.levels[1:] == V100.levels[1:]
    assert changes.needs_replay

    for text in ("no-barriers", "no-latency", "dram=2x", "fp64_fma=0.5x", "l2=3x"):
        assert not parse(text, V100).needs_replay
    changes = parse("registers=40,no-latency", V100)
    assert (changes.registers, changes.latency, changes.needs_replay) == (40, False, True)
    assert changes.machine is V100


def test_bandwidths_and_throughputs() -> None:
    result = parse("dram=2x,l2=1.5x,fp64_fma=0.5x", V100).machine
    h200 = load_machine("h200")
    for field, before in (
        ("bandwidth_bytes_per_cycle", V100),
        ("usable_bandwidth_bytes_per_cycle", V100),
        ("row_activations_per_cycle", h200),
    ):
        after = parse("dram=2x", before).machine
        assert getattr(after.dram, field) == 2 * getattr(before.dram, field) > 0
    assert result.dram == parse("dram=2x", V100).machine.dram
    before = V100.levels[1].bandwidth_bytes_per_cycle
    assert result.levels[1].bandwidth_bytes_per_cycle == pytest.approx(1.5 * before)
    assert result.throughputs["fp64_fma"] == 16
    assert result.throughputs["fp32_fma"] == V100.throughputs["fp32_fma"]


def test_sizes() -> None:
    sizes = {"l2=12MiB": 12 * KIB * KIB, "L2=768KiB": 768 * KIB, "l1=65536B": 65536}
    for text, size in sizes.items():
        assert size in [level.size_bytes for level in parse(text, V100).machine.levels]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("l3=64KiB", "no change 'l3=64KiB' is possible on v100; possible are blocks_per_core=4"),
        ("", "no change ''"),
        ("no-barrier", "no change 'no-barrier'"),
        ("l1=64", "no change 'l1=64'"),
        ("fp128_fma=2x", "no change 'fp128_fma=2x'"),
        ("dram=0x", "no change 'dram=0x'"),
        ("blocks_per_core=0", "'blocks_per_core=0': must be a whole number from 1 to 1000000"),
        ("blocks_per_core", "'blocks_per_core': must be a whole number from 1 to 1000000"),
        ("registers=-3", "'registers=-3': must be a whole number from 1 to 1000000"),
        ("l1=100B", "--what-if 'l1=100B': "),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(WhatIfError) as error:
        parse(text, V100)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_program_without_barriers_still_ends_as_a_group() -> None:
    barrier = {"barrier": 1.0}
    blocks = (
        Block(waits_for=("x",), accesses=("x",)),
        Block(operations={"local_store": 2.0, **barrier}, barrier=True),
        Block(operations={"fp32_fma": 8.0, **barrier}, barrier=True),
    )
    program = Program(blocks=blocks, steps=(Repeat((0, 1), 4), 2))
    result = without_barriers(program)
    assert result.steps == program.steps
    assert [block.barrier for block in result.blocks] == [False, False, True]
    assert result.blocks[0] == program.blocks[0]
    assert result.blocks[1].operations == {"local_store": 2.0}
