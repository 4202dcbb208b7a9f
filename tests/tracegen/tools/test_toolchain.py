"""Which compilers are chosen, and the message where one is missing."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path
from typing import NoReturn

import pytest

from tracegen.tools import toolchain
from tracegen.tools.toolchain import (
    CompilerMissing,
    amd_tools,
    find_clang,
    nvidia_tools,
    versions_for,
)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without compilers: a folder that is all of PATH."""

    def none(name: str) -> NoReturn:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", none)
    monkeypatch.setattr(toolchain, "_DEVICE_LIBRARIES", ())
    for name in ("CUDA_HOME", "CUDA_PATH", "MEMSIM_CLANG", "HIP_DEVICE_LIB_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(path: Path, version: str, targets: str) -> None:
    """A program that prints a version and targets, and logs each run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "#!/bin/sh\n"
        f"echo run >> '{path}.log'\n"
        f'case "$*" in *--version*) echo "tool version {version} V{version}";;\n'
        f'*) printf "{targets}";; esac\n'
    )
    path.chmod(0o755)


def clang(folder: Path, name: str, version: str, *targets: str) -> None:
    program(folder / name, version, "".join(f"\\t{target}\\n" for target in targets))


def cuda(root: Path) -> None:
    program(root / "bin" / "ptxas", "12.9.86", "'sm_70','sm_90a'")
    program(root / "bin" / "nvdisasm", "13.2.51", "'SM75','SM90a'")
    (root / "nvvm" / "libdevice").mkdir(parents=True)
    (root / "nvvm" / "libdevice" / "libdevice.10.bc").touch()


def test_missing_programs_are_named_in_one_line(empty: Path) -> None:
    with pytest.raises(CompilerMissing) as caught:
        nvidia_tools()
    assert str(caught.value) == (
        "kernels cannot be compiled for NVIDIA's GPUs without clang, ptxas, nvdisasm, libdevice"
        " (apt-get install clang-19 && pip install nvidia-cuda-nvcc-cu12==12.9.86"
        " nvidia-cuda-nvdisasm==13.2.51); registers and the order of loads are unknown"
    )
    clang(empty, "clang", "16.0.2", "gfx90a")
    with pytest.raises(CompilerMissing) as caught:
        amd_tools()
    assert str(caught.value) == (
        "kernels cannot be compiled for AMD's GPUs without device libraries (apt-get install"
        " rocm-device-libs); registers and the order of loads are unknown"
    )


def test_the_wheels_are_those_of_the_extra() -> None:
    project = Path(__file__).parents[3] / "pyproject.toml"
    extra = tomllib.loads(project.read_text())["project"]["optional-dependencies"]["nvidia"]
    named = [requirement.partition(";")[0] for requirement in extra]
    tools = {*toolchain.INSTALL_NVIDIA.split()[2:], *toolchain.INSTALL_NVRTC.split()[2:]}
    assert set(named) == tools


def test_the_newest_clang_that_has_the_target(empty: Path) -> None:
    clang(empty, "clang-14", "14.0.6", "sm_70")
    clang(empty, "clang", "16.0.2", "sm_70", "sm_80")
    clang(empty, "clang-19", "19.1.7")  # without NVIDIA's targets
    tool = find_clang("nvptx64")
    assert (tool.version, tool.targets) == ("16.0.2", ("sm_70", "sm_80"))
    assert str(tool) == "clang 16.0.2"


def test_a_clang_by_name(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang(empty, "clang-19", "19.1.7", "sm_70")
    clang(empty, "mine", "15.0.0", "sm_70")
    monkeypatch.setenv("MEMSIM_CLANG", "mine")
    tool = find_clang("nvptx64")
    assert tool.version == "15.0.0"
    for wrong in ("none", str(empty)):
        monkeypatch.setenv("MEMSIM_CLANG", wrong)
        with pytest.raises(CompilerMissing, match=f"MEMSIM_CLANG={wrong} is no clang, 14 or later"):
            find_clang("nvptx64")


def test_the_oldest_clang_is_14(empty: Path) -> None:
    for version in (13, 14):
        clang(empty, f"clang-{version}", f"{version}.0.1", "gfx90a")
        for architecture in ("amdgcn", "nvptx64"):
            assert (find_clang(architecture) is None) == (version == 13)


def test_programs_run_once_for_version_and_targets(empty: Path) -> None:
    clang(empty, "clang", "16.0.2", "sm_70")
    for _ in range(3):
        toolchain._answer.cache_clear()  # as in another process
        find_clang("nvptx64")
    assert (empty / "clang.log").read_text().count("run") == 2  # version and targets
    clang(empty, "clang", "17.0.4", "sm_70")  # another one at the same path
    tool = find_clang("nvptx64")
    assert tool.version == "17.0.4"


def test_nvidia_tools_of_cuda_home(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions_for("sm_80") == versions_for("gfx90a") == {}
    clang(empty, "clang", "16.0.2", "sm_70")
    cuda(empty / "cuda")
    monkeypatch.setenv("CUDA_HOME", str(empty / "cuda"))
    tools = nvidia_tools()
    assert tools.versions == {"clang": "16.0.2", "ptxas": "12.9.86", "nvdisasm": "13.2.51"}
    assert versions_for("sm_80") == tools.versions
    assert versions_for("gfx90a") == {}, "AMD's device libraries are missing"
    assert tools.ptxas.targets == ("sm_70", "sm_90a")
    assert tools.nvdisasm.targets == ("sm_75", "sm_90a")
    assert tools.libdevice == empty / "cuda" / "nvvm" / "libdevice" / "libdevice.10.bc"


def test_wheels_come_before_cuda_home(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = empty / "nvidia_cuda_nvcc.dist-info"
    described.mkdir()
    names = ("bin/ptxas", "bin/nvdisasm", "bin/ptxas.txt", "missing/bin/ptxas")
    (described / "RECORD").write_text("".join(f"wheel/{name},sha256=0,1\n" for name in names))
    cuda(empty / "wheel")
    program(empty / "cuda" / "bin" / "ptxas", "11.0.0", "'sm_70'")
    monkeypatch.setenv("CUDA_HOME", str(empty / "cuda"))
    wheel = importlib.metadata.PathDistribution(described)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: wheel)
    tool = toolchain.find_tool("ptxas")
    assert tool.version == "12.9.86"


def test_a_program_that_does_not_run_is_not_there(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = empty / "ptxas"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    assert toolchain.find_tool("ptxas") is None


def test_device_libraries(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang(empty, "clang", "16.0.2", "gfx90a", "generic")
    (empty / "opencl.bc").touch()
    monkeypatch.setenv("HIP_DEVICE_LIB_PATH", str(empty))
    tools = amd_tools()
    assert (tools.libraries, tools.clang.targets) == (empty, ("gfx90a",))
