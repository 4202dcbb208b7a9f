"""StarPU's files: its own tools print what we wrote, and we read what StarPU itself calibrated."""

import math
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calib.history.errors import HistoryError
from calib.history.exchange import from_starpu, symbol_and_host, to_starpu
from calib.history.key import Key
from calib.history.records import Sample
from calib.history.regression import (
    LogSums,
    law_words,
    power_law,
    power_law_with_offset,
    solve_power_law,
)
from calib.history.starpu_file import (
    Combination,
    Device,
    Entry,
    Implementation,
    StarpuModel,
    parse,
    read,
    render,
    write,
)
from calib.history.store import Store

HOST = "testhost"
DISPLAY = shutil.which("starpu_perfmodel_display")


def why_no_tools():
    """Why StarPU's tools cannot run here; empty where they can."""
    if DISPLAY is None:
        return "starpu-tools (Debian) is not installed"
    ended = subprocess.run([DISPLAY, "--version"], capture_output=True, text=True, check=False)
    output = (ended.stdout + ended.stderr).strip()
    if ") 1.3." not in output:
        return f"{output}: version 45 of the files is StarPU 1.3's"
    return ""


needs_tools = pytest.mark.skipif(bool(why_no_tools()), reason=why_no_tools() or "-")


class Home:
    """A separate StarPU home for a test, in which StarPU's programs run."""

    def __init__(self, folder):
        self.folder = folder
        self.codelets = folder / ".starpu" / "sampling" / "codelets" / "45"
        self.codelets.mkdir(parents=True)
        (folder / ".starpu" / "sampling" / "bus").mkdir()
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("STARPU")},
            "STARPU_HOME": str(folder),
            "STARPU_HOSTNAME": HOST,
            "STARPU_SILENT": "1",
        }

    def file(self, symbol):
        return self.codelets / f"{symbol}.{HOST}"

    def run(self, *command, **variables):
        environment = {**self.environment, **variables}
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=200
        )

    def display(self, symbol, *options):
        return self.run(DISPLAY, "-s", symbol, *options).stdout


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A home in which StarPU itself calibrated `hist`, `line` and `curve` on this machine."""
    for tool in ("gcc", "pkg-config"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "starpu-1.3"],
        capture_output=True,
        text=True,
        check=False,
    )
    if flags.returncode:
        pytest.skip("libstarpu-dev (Debian) is not installed")
    if why_no_tools():
        pytest.skip(why_no_tools())
    home = Home(tmp_path_factory.mktemp("starpu"))
    program, source = home.folder / "calibrate", Path(__file__).with_name("starpu_calibrate.c")
    subprocess.run(["gcc", "-O1", source, "-o", program, *flags.stdout.split()], check=True)
    # A first measurement far from the others makes StarPU begin anew: let it take them all.
    home.run(
        str(program),
        STARPU_CALIBRATE="1",
        STARPU_SCHED="dmda",
        STARPU_HISTORY_MAX_ERROR="1000000",
        STARPU_WORKERS_NOBIND="1",
    )
    return home


ENTRY = re.compile(
    r'<entry footprint="(\w+)" size="(\d+)" flops="(\S+)" mean="(\S+)" deviation="(\S+)"'
    r' sum="(\S+)" sum2="(\S+)" nsample="(\d+)"/>'
)


def printed_entries(xml):
    """The statistics of each footprint in the XML of starpu_perfmodel_display."""
    return {
        int(footprint, 16): (int(size), float(mean), float(deviation), float(s), float(s2), int(n))
        for footprint, size, _, mean, deviation, s, s2, n in ENTRY.findall(xml)
    }


def six(value):
    """StarPU prints six digits behind the point."""
    return pytest.approx(value, rel=1.01e-6)


@needs_tools
def test_starpu_displays_the_numbers_that_we_wrote(tmp_path):
    home, rng = Home(tmp_path), np.random.default_rng(0)
    with Store(tmp_path / "h.db") as store:
        for device, speed in (("cpu", 1.0), ("gpu", 0.1)):
            for size in 4096 * 4 ** np.arange(6):
                layout = int(size) * 2654435761 % 2**32
                key = Key(kernel="gemm", device=device, driver="1", layout=layout)
                law = speed * (2e-10 * size**1.2 + 3e-5)
                store.add_many(
                    Sample(key=key, time_s=law * (1 + 0.05 * rng.random()), size_bytes=int(size))
                    for _ in range(12)
                )
        records = store.records()
        samples = {r.key: store.samples(r.key) for r in records}
    write(to_starpu(records, cpus=["cpu"]), home.file("gemm"))
    assert f"file: <gemm.{HOST}>" in home.run(DISPLAY, "-l").stdout
    xml = home.display("gemm", "-x")
    assert 'type="CPU" id="0"' in xml
    assert 'type="OpenCL" id="0"' in xml
    parts = xml.split("<combination>")[1:]
    for device, part in zip(("cpu", "gpu"), parts, strict=True):
        mine = [r for r in records if r.key.device == device]
        printed = printed_entries(part)
        assert set(printed) == {r.key.layout for r in mine}
        for record in mine:
            us = samples[record.key] * 1e6  # numpy's numbers, not ours
            assert printed[record.key.layout] == (
                record.size_bytes,
                six(us.mean()),
                six(us.std()),
                six(us.sum()),
                six(np.sum(us**2)),
                12,
            )
        a, b, c = power_law_with_offset(mine).coefficients
        found = re.search(r'nl_regression a="(\S+)" b="(\S+)" c="(\S+)"', part)
        assert [float(x) for x in found.groups()] == [six(a * 1e6), six(b), six(c * 1e6)]
    plain = home.display("gemm")
    assert f"Regression : #sample = {12 * 6}" in plain
    alpha = re.findall(r"alpha = (\S+)\n\t\tbeta = (\S+)", plain)
    for device, (a, b) in zip(("cpu", "gpu"), alpha, strict=True):
        law = power_law([r for r in records if r.key.device == device])
        assert (float(a), float(b)) == (six(law.a * 1e6), six(law.b))


@pytest.mark.parametrize("symbol", ["hist", "line", "curve"])
def test_we_read_what_starpu_calibrated_and_it_reads_that_back_from_us(calibrated, symbol):
    """And our formula applied to StarPU's sums yields its alpha and beta."""
    text = calibrated.file(symbol).read_text()
    assert text.splitlines()[2] == "45", "the number that Debian's StarPU writes"
    model = read(calibrated.file(symbol))
    (combination,) = model.combinations
    (theirs,) = combination.implementations
    assert combination.name == "cpu0"
    assert sorted(e.size for e in theirs.entries) == [4096 * 2**k for k in range(7)]
    xml = calibrated.display(symbol, "-x")
    assert printed_entries(xml) == {
        e.footprint: (e.size, e.mean, e.deviation, e.sum, e.sum2, e.n) for e in theirs.entries
    }
    write(model, calibrated.file(f"again_{symbol}"))
    for options, expected in (((), calibrated.display(symbol)), (("-x",), xml)):
        ours = calibrated.display(f"again_{symbol}", *options)
        assert ours.replace(f"again_{symbol}", symbol) == expected
    if symbol != "hist":
        names = {"n": "n", "lnx": "sum_lnx", "lnx2": "sum_lnx2", "lny": "sum_lny"}
        names |= {"lnxlny": "sum_lnxlny", "min_x": "min_x", "max_x": "max_x"}
        sums = LogSums(lny2=0.0, **{ours: getattr(theirs, name) for ours, name in names.items()})
        assert theirs.n == 7 * 15
        alpha, beta, _ = solve_power_law(sums)
        # The sums have seven digits, and their differences lose three.
        assert alpha == pytest.approx(theirs.alpha, rel=2e-3)
        assert beta == pytest.approx(theirs.beta, rel=2e-4)


def test_a_calibrated_model_becomes_a_history_and_goes_back(calibrated, tmp_path):
    path = calibrated.file("curve")
    model = read(path)
    symbol, host = symbol_and_host(path)
    assert (symbol, host) == ("curve", HOST)
    records = from_starpu(model, symbol, host, path.stat().st_mtime)
    with Store(tmp_path / "h.db") as store:
        store.put(records)
        stored = store.records(kernel="curve")
    assert {r.key.device for r in stored} == {f"{HOST}:cpu0_impl0"}
    back = to_starpu(stored, cpus=[f"{HOST}:cpu0_impl0"])
    ours = {e.footprint: e for e in back.combinations[0].implementations[0].entries}
    theirs = {e.footprint: e for e in model.combinations[0].implementations[0].entries}
    assert set(ours) == set(theirs)
    for footprint, entry in theirs.items():
        assert ours[footprint].n == entry.n
        assert ours[footprint].mean == pytest.approx(entry.mean, rel=1e-12)
        assert ours[footprint].deviation == pytest.approx(entry.deviation, rel=1e-9)
        # StarPU's sum2 has seven digits, and so its deviation is not the root of what it wrote.
        assert ours[footprint].sum2 == six(entry.sum2)


def example():
    entry = {"size": 4096, "flops": 0.0, "mean": 20.5, "deviation": 0.5, "n": 10}
    entries = [Entry(footprint=0xA3D3725E, sum=205.0, sum2=4205.0, **entry)]
    implementation = Implementation(
        entries=entries, coefficients=[1.0, 2.5e-7, 3.0], terms=["N", "N^2*M"], n=10, max_x=4096
    )
    device = Device(type=2, id=1, cores=1)
    return StarpuModel(
        combinations=[Combination(devices=[device], implementations=[implementation])]
    )


def test_what_is_written_is_read_back():
    model = parse(render(example()))
    assert render(model) == render(example())
    (implementation,) = model.combinations[0].implementations
    assert implementation.terms == ["N", "N^2*M"]
    assert implementation.coefficients == [1.0, 2.5e-7, 3.0]
    assert math.isnan(implementation.alpha)
    assert model.combinations[0].name == "opencl1"


def example_with(**changes):
    combination = example().combinations[0]
    implementation = replace(combination.implementations[0], **changes)
    return StarpuModel(combinations=[replace(combination, implementations=[implementation])])


def test_names_of_terms_are_one_word_each():
    """A line break in one would be a line of numbers."""
    model = example_with(terms=["N\n99\t\x1b[31m", "a b\u202e"])
    text = render(model)
    assert text.replace("\n", "").replace("\t", "").isprintable()
    (back,) = parse(text).combinations[0].implementations
    assert back.terms == [r"N\n99\t\x1b[31m", r"a_b\u202e"]
    assert back.coefficients == model.combinations[0].implementations[0].coefficients


def test_every_cut_every_foreign_line_and_impossible_counts_are_refused():
    lines = render(example()).splitlines()
    holding = [i for i, line in enumerate(lines) if line and not line.startswith("#")]
    damaged = [lines[:index] for index in holding]
    damaged += [[*lines[:index], "garbage", *lines[index + 1 :]] for index in holding]
    counted = lines.index("# number of entries") + 1
    for count in ("-1", "100001", "99999999999999999999"):
        damaged.append([*lines[:counted], count, *lines[counted + 1 :]])
    for each in damaged:
        with pytest.raises(HistoryError, match="is not a StarPU performance model, or is damaged"):
            parse("\n".join(each))
    with pytest.raises(HistoryError, match="more lines than announced"):
        parse("\n".join([*lines, "1 2 3"]))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (render(replace(example(), version=44)).encode(), "of version 44: .* version 45"),
        (render(replace(example(), version=46)).encode(), "of version 46: .* version 45"),
        (b"\xff\xfe\x00", "not text"),
        (None, "cannot be read"),
    ],
)
def test_other_files_are_refused_and_left(tmp_path, content, error):
    path = tmp_path / "x.host"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(HistoryError, match=error):
        read(path)
    assert content is None or path.read_bytes() == content


def test_entries_that_are_no_times_are_not_imported():
    (entry,) = example().combinations[0].implementations[0].entries
    with pytest.raises(HistoryError, match="no set of times has these"):
        from_starpu(example_with(entries=[replace(entry, mean=-1.0)]), "s", "h", 0.0)


def test_a_power_law_is_said_in_words() -> None:
    """2e-9 s * n^1.5: 2 ms for 10,000 bytes; where no number results, as a formula."""
    words = law_words(2e-9, 1.5, 10_000)
    assert words == "2.000 ms for 10,000 bytes, 2.83 times as long for twice the bytes"
    assert law_words(2.0, 500.0, 1e9) == "2 s * n^500"
