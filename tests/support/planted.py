"""The parameters that a survey reports of a simulated device, compared with the true ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calib.probes.bench import PAGE_BYTES
from calib.probes.capacity import MeasuredLevel as ReportedLevel
from calib.probes.outcome import Finding
from calib.probes.survey import Survey
from memsim.machine.model import Machine
from memsim.machine.parts import Level
from tests.support.random_machines import MB
from tests.support.simulated_device import Hidden, SimulatedDevice

RIGHT, WRONG, SILENT = "right", "wrong", "silent"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One parameter of a device: its true value and the reported one.

    parameter : its name ("size");  where : the part of the device ("L2")
    reported : the reported value; None where the survey reports none
    low, high : the reported 95 % interval; None for words and counts, which have none
    verdict : WRONG where the reported value or its interval excludes the true one
    """

    parameter: str
    where: str
    planted: object
    reported: object
    low: float | None
    high: float | None
    verdict: str

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval of non-zero width."""
        return self.low is not None and self.high is not None and self.low < self.high

    @property
    def name(self) -> str:
        return f"{self.where} {self.parameter}".strip()


def answers(survey: Survey, machine: Machine, hidden: Hidden) -> list[Answer]:
    """Every parameter of a device of this kind."""
    return [
        *_levels(survey, machine, hidden),
        *_words(survey, machine, hidden),
        *_rest(survey, machine, hidden),
    ]


def verdicts(survey: Survey, machine: Machine, hidden: Hidden) -> dict[str, str]:
    """Parameter -> right, wrong, or silent where the survey reports nothing."""
    return {answer.name: answer.verdict for answer in answers(survey, machine, hidden)}


def _number(
    parameter: str,
    where: str,
    planted: float,
    reported: Finding | None,
    *,
    exact: bool = False,
    up_to: float = 0.0,
) -> Answer:
    """exact : the reported value must equal the true one; otherwise its interval must contain it

    up_to : any value from `planted` to this counts as true
    """
    if reported is None:
        verdict = SILENT
    else:
        contained = reported.low <= max(planted, up_to) and planted <= reported.high
        verdict = RIGHT if contained and (reported.value == planted or not exact) else WRONG
    return Answer(
        parameter=parameter,
        where=where,
        planted=planted,
        reported=reported.value if reported else None,
        low=reported.low if reported else None,
        high=reported.high if reported else None,
        verdict=verdict,
    )


def _word(parameter: str, where: str, planted: object, reported: object) -> Answer:
    verdict = SILENT if reported is None else RIGHT if reported == planted else WRONG
    return Answer(
        parameter=parameter, where=where, planted=planted, reported=reported, low=None, high=None,
        verdict=verdict,
    )  # fmt: skip


def _levels(survey: Survey, machine: Machine, hidden: Hidden) -> Iterator[Answer]:
    reported = survey.hierarchy.levels if survey.hierarchy else ()
    # A survey that skips a plateau, or sees room for one, does not claim a number of levels.
    doubted = any(probe.startswith(("plateau", "between")) for probe in survey.book.silent)
    fewer = len(reported) < len(machine.levels)
    n_reported = None if doubted and fewer else len(reported)
    yield _word("number of levels", "", len(machine.levels), n_reported)
    for k, level in enumerate(machine.levels):
        result = _reported_level(level, machine, reported)
        yield from _level(survey, machine, hidden, k, result)


def _reported_level(
    level: Level, machine: Machine, reported: tuple[ReportedLevel, ...]
) -> tuple[str, ReportedLevel] | None:
    """The (name, reported level) whose latency is nearest to that of this level."""
    latencies = [each.latency_cycles * 1e9 / machine.clock_hz for each in machine.levels]
    for number, result in enumerate(reported, 1):
        off = [abs(np.log(result.latency_ns.value / ns)) for ns in latencies]
        if machine.levels[int(np.argmin(off))] is level:
            return f"L{number}", result
    return None


def _level(
    survey: Survey,
    machine: Machine,
    hidden: Hidden,
    k: int,
    named: tuple[str, ReportedLevel] | None,
) -> Iterator[Answer]:
    level, where = machine.levels[k], f"L{k + 1}"
    name, reported = named if named else ("nothing", None)
    findings, words = survey.book.findings, survey.book.words
    size = reported.size_bytes if reported else None
    yield _number("size", where, level.size_bytes, size, exact=True)
    ns = level.latency_cycles * 1e9 / machine.clock_hz
    # Where a level covers more pages than the TLB, some steps of a chase miss the TLB too.
    reached = level.size_bytes > hidden.translation_pages * PAGE_BYTES
    late = ns + hidden.translation_ns * reached
    yield _number("latency", where, ns, reported.latency_ns if reported else None, up_to=late)
    for key, plain in (("line_bytes", "line"), ("fill_bytes", "fill"), ("ways", "ways")):
        finding = findings.get(f"levels.{name}.{key}")
        yield _number(plain, where, getattr(level, key), finding, exact=True)
    # One core reads no faster than the slowest level on the way.
    widths = [each.bandwidth_bytes_per_cycle for each in machine.levels[: k + 1]]
    speed = min(widths) * machine.clock_hz
    yield _number("bandwidth", where, speed, findings.get(f"levels.{name}.bandwidth"))
    word = words.get(f"{name} replacement")
    yield _word("replacement", where, level.replacement, word[0] if word else None)


def _words(survey: Survey, machine: Machine, hidden: Hidden) -> Iterator[Answer]:
    def word(key: str) -> str | None:
        entry = survey.book.words.get(key)
        return entry[0] if entry else None

    first = machine.levels[0]
    allocates = "none" if first.write_allocate == "none" else "allocates"
    yield _word("stores allocate", "L1", allocates, word("L1 write_allocate"))
    yield _word("write policy", "L1", first.write_policy, word("L1 write_policy"))
    fetched = word("prefetching")
    yield _word(
        "prefetching", "", hidden.prefetch_lines > 0, None if fetched is None else fetched[:3] == "yes"
    )  # fmt: skip
    copies = word("shared copies")
    kept = None if copies is None else copies.startswith("kept")
    yield _word("shared level keeps copies", "", machine.levels[-1].cores_per_instance > 1, kept)


def _rest(survey: Survey, machine: Machine, hidden: Hidden) -> Iterator[Answer]:
    findings = survey.book.findings
    memory_ns = machine.dram.latency_cycles * 1e9 / machine.clock_hz
    late = memory_ns + hidden.translation_ns
    chased = survey.hierarchy.memory_ns if survey.hierarchy else None
    yield _number("latency", "memory", memory_ns, chased, up_to=late)
    yield _number("latency of batches", "memory", memory_ns, findings.get("memory_ns"))
    speed = machine.dram.bandwidth_bytes_per_cycle * machine.clock_hz
    yield _number("bandwidth", "memory", speed, findings.get("memory_bandwidth"))
    pages = findings.get("translation")
    if hidden.translation_ns:
        yield _number("translation", "", hidden.translation_pages, pages)
    else:
        verdict = RIGHT if pages is None else WRONG
        yield Answer(
            parameter="translation",
            where="",
            planted="none",
            reported=pages.value if pages else "none",
            low=None,
            high=None,
            verdict=verdict,
        )
    if hidden.is_cpu:
        yield _number("clock", "", machine.clock_hz, findings.get("clock_hz"))
    limits = machine.residency
    at_once = machine.n_cores * limits.max_groups
    full = machine.n_cores * min(limits.max_groups, limits.max_items // limits.max_group_items)
    yield _number("cores", "", machine.n_cores, findings.get("cores"), exact=True)
    yield _number("groups at once", "", at_once, findings.get("groups_at_once"), exact=True)
    if not hidden.is_cpu:
        result = findings.get("full_groups_at_once")
        yield _number("full groups at once", "", full, result, exact=True)
    launch_s = _median_launch_s(machine, hidden)
    yield _number("launch overhead", "", launch_s, findings.get("launch_overhead"))


def _median_launch_s(machine: Machine, hidden: Hidden) -> float:
    """Median of the simulated launch overhead, from 20,001 samples."""
    device = SimulatedDevice(machine, hidden, MB, 12345)
    return float(np.median([device.host_s("nothing", 1, 1) for _ in range(20_001)]))
