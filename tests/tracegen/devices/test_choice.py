"""A device is chosen by a trial, whatever broken platforms do beside it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from memsim.errors import OpenCLError
from tracegen.devices import choice as opencl
from tracegen.devices import remembered
from tracegen.devices import trial as opencl_trial


@pytest.fixture(autouse=True)
def _forget_choices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(opencl.VARIABLE, raising=False)
    monkeypatch.setenv("MEMSIM_CACHE_DIR", "")  # no device is remembered
    opencl._choice.cache_clear()
    opencl._context.cache_clear()
    yield
    opencl._choice.cache_clear()
    opencl._context.cache_clear()


def device(platform: str, index: int, *types: str, name: str = "device 0") -> dict[str, Any]:
    return {
        "platform_index": index,
        "device_index": 0,
        "platform": platform,
        "platform_version": f"OpenCL 3.0 {platform}",
        "device": name,
        "driver_version": "1",
        "types": list(types),
    }


GPU = device("NVIDIA CUDA", 4, "gpu", name="H200")
POCL = device("Portable Computing Language", 3, "cpu", name="pthread")
INTEL = device("Intel(R) OpenCL", 2, "cpu", name="Xeon")
OTHER = device("Clover", 1, "cpu")
ODD = device("Odd", 5, "cpu")
OCLGRIND = device("Oclgrind", 0, "cpu", "gpu", name="Oclgrind Simulator")


@pytest.fixture
def machine_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Replaces the child by one that lists given devices, of which some misbehave when tried.

    The answer is a file that gets a line for every trial.
    """

    def pretend(devices: list[dict[str, Any]], **ends: str) -> Path:
        child, log = tmp_path / "child.py", tmp_path / "log"
        log.touch()
        child.write_text(
            f"""
import json, os, signal, sys, time
sys.path.insert(0, {str(Path(opencl_trial.__file__).parent)!r})
import trial as opencl_trial
ends = {ends!r}
opencl_trial.list_devices = lambda: {devices!r}
names = {{d["platform_index"]: d["platform"].split()[0].lower() for d in {devices!r}}}
def try_device(platform_index, device_index):
    name = names[platform_index]
    with open({str(log)!r}, "a") as file:
        file.write(name + "\\n")
    end = ends.get(name, "")
    if end == "abort":
        print("terminate called", file=sys.stderr, flush=True)
        os.abort()
    if end == "hang":
        time.sleep(60)
    if end == "exit":
        os._exit(3)
    if end == "raise":
        raise ValueError("odd")
    return end
opencl_trial.try_device = try_device
print("a driver's noise")
opencl_trial.main(json.loads(sys.argv[1]))
"""
        )
        monkeypatch.setattr(opencl, "_TRIAL_FILE", child)
        return log

    return pretend


def test_a_device_that_passed_is_not_tried_again_while_nothing_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trials: list[object] = []
    tried = opencl._tried

    def counted(candidate: opencl.Candidate) -> opencl.Candidate:
        trials.append(candidate)
        return tried(candidate)

    def chosen_anew() -> Any:
        opencl._choice.cache_clear()
        opencl._context.cache_clear()
        return opencl.choose().devices[0]

    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(opencl, "_tried", counted)
    first = chosen_anew()
    assert len(trials) == 1
    assert chosen_anew() == first
    assert len(trials) == 1
    monkeypatch.setenv("POCL_DEBUG", "")  # an environment that may decide otherwise
    assert chosen_anew() == first
    assert len(trials) == 2
    key, record = remembered.key(""), asdict(opencl.chosen())
    assert remembered.load(key) == first
    for changed in ({"driver_version": "another"}, {"platform_index": 99}):
        remembered.save(key, {**record, **changed})
        assert remembered.load(key) is None
    assert opencl.choose() is opencl.choose()
    assert opencl.chosen().ok
    assert opencl.chosen().device == first.name.strip()


@pytest.mark.parametrize(
    ("wanted", "matched"),
    [
        ("", True),
        ("portable", True),
        ("PORTABLE COMPUTING", True),
        ("3.0", True),  # a platform's version names it too: two PoCLs differ in nothing else
        ("nvidia", False),
        ("portable:pthread", True),
        ("portable:0", True),
        (":pthread", True),
        ("portable:1", False),
        ("portable:xeon", False),
    ],
)
def test_what_the_variable_names(wanted: str, matched: bool) -> None:
    assert opencl_trial.matches(POCL, wanted) is matched


def test_the_first_that_works_is_taken_and_no_more_are_tried(
    machine_with: Callable[..., Path],
) -> None:
    log = machine_with([OCLGRIND, INTEL, POCL, GPU], nvidia="no such target")
    assert opencl.chosen().platform == POCL["platform"]
    assert opencl.chosen().platform == POCL["platform"]
    assert log.read_text().split() == ["nvidia", "portable"]


def test_the_survey_reports_how_each_trial_ended(
    machine_with: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencl, "TRIAL_SECONDS", 1)
    ends = {"nvidia": "abort", "portable": "build failed", "clover": "hang", "oclgrind": "exit"}
    machine_with([OCLGRIND, OTHER, ODD, INTEL, POCL, GPU], **ends, odd="raise")
    assert [(c.platform.split()[0], c.ok, c.reason) for c in opencl.survey()] == [
        ("NVIDIA", False, f"crashed ({signal.SIGABRT.name}): terminate called"),
        ("Portable", False, "build failed"),
        ("Intel(R)", True, ""),
        ("Clover", False, "did not finish within 1 s"),
        ("Odd", False, "ValueError: odd"),
        ("Oclgrind", False, "ended with exit code 3"),
    ]


def test_the_variable_overrides_the_order(
    machine_with: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = machine_with([OCLGRIND, POCL, GPU])
    monkeypatch.setenv(opencl.VARIABLE, "oclgrind")
    assert opencl.chosen().platform == "Oclgrind"
    monkeypatch.setenv(opencl.VARIABLE, "portable:pthread")
    assert opencl.chosen().platform == POCL["platform"]
    assert log.read_text().split() == ["oclgrind", "portable"]


@pytest.mark.parametrize(
    ("devices", "ends", "wanted", "match"),
    [
        ([POCL, GPU], {}, "rocm", r"MEMSIM_OPENCL=rocm names none.*H200.*pthread"),
        ([POCL, GPU], {"portable": "abort"}, "portable", r"portable names.*crashed \(SIGABRT\)"),
        ([POCL], {"portable": "no CPU"}, "", r"no CPU.*apt-get install pocl-opencl-icd"),
        ([], {}, "", f"no OpenCL platform is installed.*{opencl.INSTALL}"),
    ],
)
def test_where_no_device_can_be_taken_the_error_names_what_to_do(
    machine_with: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    devices: list[dict[str, Any]],
    ends: dict[str, str],
    wanted: str,
    match: str,
) -> None:
    """Another device does not replace the one that is named."""
    machine_with(devices, **ends)
    monkeypatch.setenv(opencl.VARIABLE, wanted)
    with pytest.raises(OpenCLError, match=match) as caught:
        opencl.choose()
    assert "\n" not in str(caught.value)


def test_a_crash_while_listing_is_an_error_and_not_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = tmp_path / "child.py"
    child.write_text("import os; os.abort()")
    monkeypatch.setattr(opencl, "_TRIAL_FILE", child)
    with pytest.raises(OpenCLError, match=r"listing the OpenCL devices crashed \(SIGABRT\)"):
        opencl.choose()


def test_a_failing_import_is_reported(
    monkeypatch: pytest.MonkeyPatch, machine_with: Callable[..., Path]
) -> None:
    machine_with([POCL])
    child = opencl._TRIAL_FILE
    broken = "def list_devices():\n    raise ImportError('no pyopencl')\n"
    text = child.read_text().replace(
        "names = ", f"{broken}opencl_trial.list_devices = list_devices\nnames = "
    )
    child.write_text(text)
    with pytest.raises(OpenCLError, match="cannot list its devices: ImportError: no pyopencl"):
        opencl.choose()


def test_long_messages_of_drivers_become_one_line() -> None:
    message = "build failed\n\nnoise\n  3:1: error: unknown type\n" + "error: again\n" * 100
    line = opencl_trial.first_lines(message)
    assert line.startswith("build failed; 3:1: error: unknown type; error: again")
    assert len(line) <= 240
