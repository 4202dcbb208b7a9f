"""Marks for tests that need the compilers of one vendor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tracegen.tools.toolchain import CompilerMissing, amd_tools, nvidia_tools, nvvm_tools


def _marked(find: Callable[[], object]) -> pytest.MarkDecorator:
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MEMSIM_CACHE_DIR", "")  # the user's cache is not touched
            find()
    except CompilerMissing as error:
        return pytest.mark.skipif(True, reason=str(error))
    return pytest.mark.skipif(False, reason="")


needs_nvidia = _marked(nvidia_tools)
needs_nvvm = _marked(nvvm_tools)
needs_amd = _marked(amd_tools)
