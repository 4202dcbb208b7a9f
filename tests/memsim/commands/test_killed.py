"""A replay that is killed at any moment leaves whole files or none, and the next run tidies up."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memsim.montecarlo.result import Replay
from memsim.trace.file import read_trace, write_trace
from tests.support.traces import make_trace

COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job ignores
import memsim, memsim.files, memsim.report.html, memsim.report.netcdf
from memsim.commands.cli import main
memsim.files._YOUNG_SECONDS = 0.05
trace = sys.argv[1]
memsim.replay(memsim.read_trace(trace), "v100", trials=2).to_json()  # compiled, imported
print("ready", flush=True)
for k in range(1000):
    memsim.write_trace(memsim.read_trace(trace), "copy.trace")
    code = main(["replay", trace, "-m", "v100", "--trials", "4", "--jobs", sys.argv[2],
                 "--html", "k.html", "--json", "k.json", "--save", "k.nc"])
    if code:
        break
"""


KILLS = 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("jobs", [1, 2])
def test_kills_at_random_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    rng = random.Random(jobs)
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    source = tmp_path / "k.trace"
    write_trace(make_trace([[[(0, [g, g + 9])]] for g in range(2000)]), source)

    def start() -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", COMMAND, str(source), str(jobs)],
            cwd=work,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        return child

    for _ in range(KILLS):
        child = start()
        time.sleep(rng.uniform(0, 3 if jobs == 1 else 9))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        for path in work.iterdir():
            if path.name.startswith("."):
                continue
            if path.suffix == ".nc":
                assert Replay.load(path).n_trials == 4
            elif path.suffix == ".json":
                assert json.loads(path.read_text())["trials"] == 4
            elif path.suffix == ".html":
                assert path.read_text().rstrip().endswith("</html>")
            else:
                assert read_trace(path).n_access == 2000
    child = start()
    time.sleep(8)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    left = {path.name for path in work.iterdir()}
    assert left <= {"copy.trace", "k.html", "k.json", "k.nc"}
    assert [path.name for path in temporary.iterdir() if path.name.startswith("memsim-")] == []
