"""The compilers and machines that tests of the language and its libraries are repeated for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cuda_kernels import needs_nvrtc

_TARGETS = [
    pytest.param("a100", "nvrtc", marks=needs_nvrtc),
    ("a100", "clang"),
    ("mi250x", "auto"),
]


def everywhere(test: Any) -> Any:
    """With each compiler, one of them each week."""
    each = pytest.mark.parametrize(("machine", "compiler"), _TARGETS)
    return pytest.mark.weekly(len(_TARGETS))(each(test))
