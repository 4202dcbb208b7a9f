"""The machine file of a survey; numbers that were not measured are the driver's, or marked as assumed."""

from __future__ import annotations

import re
from typing import Any

from calib.probes.capacity import MeasuredLevel
from calib.probes.outcome import Unclear
from calib.probes.survey import Survey
from memsim.machine import NO_SOURCE, SUBGROUP_SIZES, Dram, Level, Machine, Residency, keys

_DEFAULT_LINE = 64
_MOST_LINE = 256
_GRANULE_BYTES = 32
ASSUMED, NOT_MEASURED = "assumed: it could not be measured", "assumed: not measured"


Sourced = tuple[Any, str]
"""A value of a machine file, and where it comes from."""


class _Sources(dict[str, str]):
    """Key of a machine file -> the source of its value."""

    def part(self, prefix: str, **fields: Sourced) -> dict[str, Any]:
        """The values of fields, whose sources are kept."""
        self.update({prefix + name: source for name, (_, source) in fields.items()})
        return {name: value for name, (value, _) in fields.items()}


def machine_of(survey: Survey, name: str) -> Machine:
    """The machine. Raises Unclear where the pointer chase had no result."""
    if survey.hierarchy is None:
        raise Unclear("without a pointer chase there is no machine to write")
    sources, facts = _Sources(), survey.facts
    clock = survey.book.findings.get("clock_hz")
    clock_hz: tuple[float, str] = (
        (clock.value, clock.source())
        if clock is not None
        else ((facts["clock, MHz"] or 1000) * 1e6, "OpenCL: CL_DEVICE_MAX_CLOCK_FREQUENCY")
    )
    to_cycles = clock_hz[0] * 1e-9
    units, units_source = _cores(survey)
    lanes = 8 if survey.is_cpu else 32
    assert lanes in SUBGROUP_SIZES
    levels: list[Level] = []
    for number, measured_level in enumerate(survey.hierarchy.levels, 1):
        below = levels[-1].line_bytes if levels else _GRANULE_BYTES
        level = _level(survey, sources, number, measured_level, units, to_cycles, below)
        if level is not None:
            levels.append(level)
    machine = Machine(
        name=name,
        title=" ".join(survey.device.split()) + ", as measured",
        vendor=survey.device.partition(":")[0] or "unknown",
        levels=tuple(levels),
        dram=_dram(survey, sources, to_cycles),
        residency=_residency(survey, sources, lanes, units),
        **sources.part(
            "",
            n_cores=(units, units_source),
            clock_hz=clock_hz,
            subgroup_size=(
                lanes,
                "assumed: eight lanes of a 256-bit vector"
                if survey.is_cpu
                else "assumed: 32 lanes; OpenCL 1.2 does not report them",
            ),
            coalesce_lanes=(lanes, "assumed: a whole sub-group"),
            cycles_per_turn=(1.0 if survey.is_cpu else 4.0, NOT_MEASURED),
            n_schedulers=(1 if survey.is_cpu else 4, NOT_MEASURED),
            compiler_target=(facts.get("compiler target", ""), "the device's OpenCL driver"),
        ),
    )
    return machine.replace(sources={key: sources.get(key, NO_SOURCE) for key in keys(machine)})


def comments_of(survey: Survey) -> list[str]:
    """The comments at the top of the file: the device, findings without a field, and failed probes."""
    lines = [f"Measured by 'memsim machines measure' on {survey.device}, seed {survey.seed}."]
    lines += [survey.busy] if survey.busy else []
    known = ("clock_hz", "levels.")
    for key, finding in survey.book.findings.items():
        if not key.startswith(known) or key.endswith(".bandwidth"):
            lines.append(f"{key}: {finding.value:.6g} {finding.unit}; {finding.source()}")
    lines += [f"{key}: {value} ({how})" for key, (value, how) in survey.book.words.items()]
    lines += [f"{probe}: {why}" for probe, why in survey.book.silent.items()]
    return lines


def _cores(survey: Survey) -> Sourced:
    """The cores that the driver reports; the source states whether the measurement agrees."""
    driver = int(survey.facts["compute units"])
    finding = survey.book.findings.get("cores")
    source = "OpenCL: CL_DEVICE_MAX_COMPUTE_UNITS"
    if finding is not None:
        agrees = round(finding.value) == driver
        source = (
            f"{finding.source()}; CL_DEVICE_MAX_COMPUTE_UNITS is equal"
            if agrees
            else f"{source}; not confirmed: {finding.value:.0f} is {finding.how}"
        )
    return driver, source


def _geometry(
    survey: Survey, prefix: str, measured_level: MeasuredLevel, above_line: int
) -> dict[str, Sourced] | None:
    """Line, fill, ways and size of a level; None where it is smaller than a line.

    above_line : line size of the level above
    """
    findings = survey.book.findings

    def measured(key: str, default: int, otherwise: str) -> tuple[int, str]:
        finding = findings.get(prefix + key)
        return (default, otherwise) if finding is None else (int(finding.value), finding.source())

    line, line_source = measured("line_bytes", max(_DEFAULT_LINE, above_line), ASSUMED)
    line = min(max(line, _GRANULE_BYTES), _MOST_LINE)
    fill, fill_source = measured("fill_bytes", line, "assumed: a line; it could not be measured")
    if fill > line:
        fill_source = f"assumed: a line; neighbouring lines are fetched too ({fill_source})"
    fill = min(max(fill, _GRANULE_BYTES), line)
    most, ways_source = measured("ways", 8, ASSUMED)
    if measured_level.size_bytes is not None:
        size, source = int(measured_level.size_bytes.value), measured_level.size_bytes.source()
    else:
        size = int(measured_level.edge_bytes)
        source = "assumed: where the latency begins to rise; the rise has no edge"
    if size < line:
        return None
    # A size is a whole number of sets: where the ways do not divide it, they are the uncertain number.
    ways = next(ways for ways in range(most, 0, -1) if size // line % ways == 0)
    if ways != most:
        ways_source = f"assumed: the most ways, at most {most}, that divide the size"
    return {
        "size_bytes": (size // (line * ways) * line * ways, source),
        "line_bytes": (line, line_source),
        "sector_bytes": (fill, "assumed: the bytes that a miss fetches"),
        "fill_bytes": (fill, fill_source),
        "ways": (ways, ways_source),
    }


def _level(
    survey: Survey,
    sources: _Sources,
    number: int,
    measured_level: MeasuredLevel,
    units: int,
    to_cycles: float,
    above_line: int,
) -> Level | None:
    """A level of the machine; None where it is smaller than a line."""
    name = f"L{number}"
    prefix = f"levels.{name}."
    geometry = _geometry(survey, prefix, measured_level, above_line)
    if geometry is None:
        return None
    latency = measured_level.latency_ns
    speed = survey.book.findings.get(prefix + "bandwidth")
    cycles = f"; {latency.value:.4g} ns at {to_cycles:.4g} GHz"
    chosen = survey.book.words.get(f"{name} replacement", ("lru", ""))
    return Level(
        name=name,
        **sources.part(
            prefix,
            **geometry,
            replacement=(chosen[0], f"measured: {chosen[1]}" if chosen[1] else ASSUMED),
            latency_cycles=(latency.value * to_cycles, latency.source() + cycles),
            bandwidth_bytes_per_cycle=(
                (speed.value / (to_cycles * 1e9), f"{speed.source()}, one core")
                if speed
                else (32.0, NOT_MEASURED)
            ),
            cores_per_instance=_sharers(survey, number, units, latency.value),
            write_policy=_write_policy(survey, name),
            write_allocate=_write_allocate(survey, name),
        ),
    )


def _sharers(survey: Survey, number: int, units: int, latency_ns: float) -> Sourced:
    """Cores that share one instance of a level."""
    assert survey.hierarchy is not None
    outermost = number == len(survey.hierarchy.levels)
    copies = survey.book.words.get("shared copies")
    met = survey.book.findings.get("shared_copies_ns")
    if number == 1:
        return 1, "assumed: each core has its own"
    if copies is not None and copies[0].startswith("none"):
        return 1, f"measured: no core hits lines that another core loaded; {copies[1]}"
    if copies is not None and met is not None and outermost and met.value < 2 * latency_ns:
        return units, f"measured: a core hits lines that another core loaded; {copies[1]}"
    if number > 2 or not survey.is_cpu:
        return units, "assumed: shared by all cores"
    return 1, "assumed: each core has its own"


def _write_policy(survey: Survey, name: str) -> Sourced:
    policy = survey.book.words.get(f"{name} write_policy")
    return (policy[0], f"measured: {policy[1]}") if policy else ("write_back", ASSUMED)


def _write_allocate(survey: Survey, name: str) -> Sourced:
    allocate = survey.book.words.get(f"{name} write_allocate")
    if allocate is None:
        return "fetch_on_write", ASSUMED
    if allocate[0] == "none":
        return "none", f"measured: {allocate[1]}"
    how = "whether the line is read first is assumed"
    return "fetch_on_write", f"measured: {allocate[1]}; {how}"


def _dram(survey: Survey, sources: _Sources, to_cycles: float) -> Dram:
    assert survey.hierarchy is not None
    latency = survey.hierarchy.memory_ns
    speed = survey.book.findings.get("memory_bandwidth")
    cycles = f"{latency.value:.4g} ns at {to_cycles:.4g} GHz, rows and address translation included"
    in_latency = "assumed: part of the measured latency"
    return Dram(
        **sources.part(
            "dram.",
            n_channels=(2 if survey.is_cpu else 8, ASSUMED),
            n_banks=(16, ASSUMED),
            row_bytes=(8192 if survey.is_cpu else 2048, ASSUMED),
            interleave_bytes=(256, ASSUMED),
            burst_bytes=(64, ASSUMED),
            latency_cycles=(latency.value * to_cycles, f"{latency.source()}; {cycles}"),
            row_miss_cycles=(0.0, in_latency),
            row_conflict_cycles=(0.0, in_latency),
            bandwidth_bytes_per_cycle=(
                (speed.value / (to_cycles * 1e9), speed.source()) if speed else (16.0, NOT_MEASURED)
            ),
        )
    )


def _residency(survey: Survey, sources: _Sources, lanes: int, units: int) -> Residency:
    facts, findings = survey.facts, survey.book.findings
    items = int(facts["largest group, work-items"])
    groups: Sourced = 1, "assumed: a core works on one group at a time"
    resident, source = items, "OpenCL: CL_DEVICE_MAX_WORK_GROUP_SIZE; assumed: one group"
    if not survey.is_cpu and (finding := findings.get("groups_at_once")):
        groups = max(round(finding.value / units), 1), f"{finding.source()}, over the cores"
    if not survey.is_cpu and (finding := findings.get("full_groups_at_once")):
        resident = max(round(finding.value / units), 1) * items
        source = f"{finding.source()}, over the cores"
    local_bytes = facts["local memory, bytes"] or 1
    return Residency(
        **sources.part(
            "residency.",
            max_items=(resident, source),
            max_subgroups=(max(resident // lanes, 1), f"{source}; over the lanes"),
            max_groups=groups,
            max_group_items=(items, "OpenCL: CL_DEVICE_MAX_WORK_GROUP_SIZE"),
            registers=(1 << 20 if survey.is_cpu else 65536, ASSUMED),
            max_registers_per_item=(255, ASSUMED),
            register_unit=(8, ASSUMED),
            local_memory_bytes=(local_bytes, "OpenCL: CL_DEVICE_LOCAL_MEM_SIZE"),
            local_memory_unit_bytes=(64, ASSUMED),
        )
    )


def default_name(device: str) -> str:
    """A machine name from a device's title, such as `cpu-amd-epyc`."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", device.partition(":")[2] or device).strip("-").lower()
    return plain[:48].strip("-") or "measured"
