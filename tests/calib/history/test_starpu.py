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
from calib.history.power_laws import LogSums, power_law, solve_power_law
from calib.history.records import Sample
from calib.history.regression import law_words, power_law_with_offset
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
DISPLAY, PLOT = shutil.which("starpu_perfmodel_display"), shutil.which("starpu_perfmodel_plot")


def why_no_tools():
    """Why StarPU's tools cannot run here; empty where they can."""
    if DISPLAY is None or PLOT is None:
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

    def run(self, *command, cwd=None, check=True, **variables):
        return subprocess.run(
            command,
            env={**self.environment, **variables},
            cwd=cwd,
            check=check,
            capture_output=True,
            text=True,
            timeout=200,
        )

    def display(self, symbol, *options):
        return self.run(DISPLAY, "-s", symbol, *options).stdout


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


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


def gemm_store(path):
    rng = np.random.default_rng(0)
    with Store(path) as store:
        for device, speed in (("cpu", 1.0), ("gpu", 0.1)):
            for size in 4096 * 4 ** np.arange(6):
                key = Key(
                    kernel="gemm", device=device, driver="1", layout=int(size) * 2654435761 % 2**32
                )
                law = speed * (2e-10 * size**1.2 + 3e-5)
                store.add_many(
                    Sample(key=key, time_s=law * (1 + 0.05 * rng.random()), size_bytes=int(size))
                    for _ in range(12)
                )
        return store.records(), {r.key: store.samples(r.key) for r in store.records()}


@needs_tools
def test_starpu_displays_the_numbers_that_we_wrote(home):
    records, samples = gemm_store(home.folder / "h.db")
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


@needs_tools
def test_starpu_displays_one_footprint_by_its_hash(home):
    records, samples = gemm_store(home.folder / "h.db")
    write(to_starpu([r for r in records if r.key.device == "gpu"]), home.file("gemm"))
    record = records[-1]
    printed = home.display("gemm", "-p", "mean", "-f", f"{record.key.layout:08x}")
    assert float(printed.split()[-1]) == six(samples[record.key].mean() * 1e6)


@needs_tools
def test_starpu_plots_the_numbers_that_we_wrote(home):
    records, samples = gemm_store(home.folder / "h.db")
    here = [r for r in records if r.key.device == "cpu"]
    write(to_starpu(here, cpus=["cpu"]), home.file("gemm"))
    home.run(PLOT, "-s", "gemm", cwd=home.folder)
    rows = np.loadtxt(home.folder / "starpu_gemm_avg.data", ndmin=2)
    for size, mean_ms, deviation_ms in rows:
        ms = next(samples[r.key] for r in here if r.size_bytes == size) * 1e3
        assert (mean_ms, deviation_ms) == (six(ms.mean()), six(ms.std()))
    assert len(rows) == len(here)
    a, b, c = power_law_with_offset(here).coefficients
    drawn = (home.folder / "starpu_gemm.gp").read_text()
    found = re.search(r"0\.001 \* (\S+) \* x \*\* (\S+) \+ 0\.001 \* (\S+)", drawn)
    # gnuplot's file has six digits in all.
    assert [float(x) for x in found.groups()] == [
        pytest.approx(v, rel=1e-5) for v in (a * 1e6, b, c * 1e6)
    ]


def test_we_read_what_starpu_calibrated_as_its_display_prints_it(calibrated):
    for symbol in ("hist", "line", "curve"):
        text = calibrated.file(symbol).read_text()
        assert text.splitlines()[2] == "45", "the number that Debian's StarPU writes"
        model = read(calibrated.file(symbol))
        (combination,) = model.combinations
        (implementation,) = combination.implementations
        assert combination.name == "cpu0"
        printed = printed_entries(calibrated.display(symbol, "-x"))
        assert len(printed) == 7
        assert printed == {
            e.footprint: (e.size, e.mean, e.deviation, e.sum, e.sum2, e.n)
            for e in implementation.entries
        }
        assert sorted(e.size for e in implementation.entries) == [4096 * 2**k for k in range(7)]


def test_starpus_own_regressions_follow_from_what_we_read(calibrated):
    """Our formula applied to StarPU's sums yields its alpha and beta: the models are the same."""
    for symbol in ("line", "curve"):
        (combination,) = read(calibrated.file(symbol)).combinations
        (theirs,) = combination.implementations
        sums = LogSums(
            n=theirs.n,
            lnx=theirs.sum_lnx,
            lnx2=theirs.sum_lnx2,
            lny=theirs.sum_lny,
            lnxlny=theirs.sum_lnxlny,
            min_x=theirs.min_x,
            max_x=theirs.max_x,
        )
        assert theirs.n == 7 * 15
        alpha, beta, _ = solve_power_law(sums)
        # The sums have seven digits, and their differences lose three.
        assert (alpha, beta) == (
            pytest.approx(theirs.alpha, rel=2e-3),
            pytest.approx(theirs.beta, rel=2e-4),
        )


def test_starpu_reads_its_own_model_back_from_us(calibrated):
    for symbol in ("hist", "line", "curve"):
        model = read(calibrated.file(symbol))
        write(model, calibrated.file(f"again_{symbol}"))
        for options in ((), ("-x",)):
            theirs = calibrated.display(symbol, *options)
            ours = calibrated.display(f"again_{symbol}", *options)
            assert ours.replace(f"again_{symbol}", symbol) == theirs


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
    entries = [
        Entry(
            footprint=0xA3D3725E,
            size=4096,
            flops=0.0,
            mean=20.5,
            deviation=0.5,
            sum=205.0,
            sum2=4205.0,
            n=10,
        )
    ]
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
    assert (implementation.terms, implementation.coefficients) == (
        ["N", "N^2*M"],
        [1.0, 2.5e-7, 3.0],
    )
    assert math.isnan(implementation.alpha)
    assert model.combinations[0].name == "opencl1"


def test_names_of_terms_are_one_word_each():
    """A line break in one would be a line of numbers."""
    model = example()
    (implementation,) = model.combinations[0].implementations
    implementation = replace(implementation, terms=["N\n99\t\x1b[31m", "a b\u202e"])
    combination = replace(model.combinations[0], implementations=[implementation])
    text = render(replace(model, combinations=[combination]))
    assert text.replace("\n", "").replace("\t", "").isprintable()
    (back,) = parse(text).combinations[0].implementations
    assert back.terms == [r"N\n99\t\x1b[31m", r"a_b\u202e"]
    assert back.coefficients == implementation.coefficients


@pytest.mark.parametrize("version", [44, 46])
def test_another_version_is_refused(version, tmp_path):
    path = tmp_path / "old.host"
    path.write_text(render(replace(example(), version=version)))
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=f"of version {version}: .* version 45"):
        read(path)
    assert path.read_bytes() == before


def test_every_cut_and_every_foreign_line_is_refused():
    lines = render(example()).splitlines()
    holding = [i for i, line in enumerate(lines) if line and not line.startswith("#")]
    for index in holding:
        with pytest.raises(HistoryError, match="is not a StarPU performance model, or is damaged"):
            parse("\n".join(lines[:index]))
        spoilt = [*lines[:index], "garbage", *lines[index + 1 :]]
        with pytest.raises(HistoryError, match="is not a StarPU performance model, or is damaged"):
            parse("\n".join(spoilt))
    with pytest.raises(HistoryError, match="more lines than announced"):
        parse("\n".join([*lines, "1 2 3"]))


@pytest.mark.parametrize("count", ["-1", "100001", "99999999999999999999"])
def test_counts_that_cannot_be_are_refused(count):
    lines = render(example()).splitlines()
    lines[lines.index("# number of entries") + 1] = count
    with pytest.raises(HistoryError, match="damaged"):
        parse("\n".join(lines))


def test_entries_that_are_no_times_are_not_imported():
    model = example()
    (implementation,) = model.combinations[0].implementations
    bad = replace(implementation.entries[0], mean=-1.0)
    spoilt = StarpuModel(
        combinations=[
            replace(model.combinations[0], implementations=[replace(implementation, entries=[bad])])
        ]
    )
    with pytest.raises(HistoryError, match="no set of times has these"):
        from_starpu(spoilt, "s", "h", 0.0)


def test_no_text_and_no_file(tmp_path):
    path = tmp_path / "x.host"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HistoryError, match="not text"):
        read(path)
    with pytest.raises(HistoryError, match="cannot be read"):
        read(tmp_path / "none.host")


def test_a_power_law_is_said_in_words() -> None:
    """2e-9 s * n^1.5: 2 ms for 10,000 bytes; where no number results, as a formula."""
    words = law_words(2e-9, 1.5, 10_000)
    assert words == "2.000 ms for 10,000 bytes, 2.83 times as long for twice the bytes"
    assert law_words(2.0, 500.0, 1e9) == "2 s * n^500"
