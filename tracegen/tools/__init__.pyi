from .toolchain import COST as COST
from .toolchain import INSTALL_CLANG as INSTALL_CLANG
from .toolchain import CompilerMissing as CompilerMissing
from .toolchain import amd_tools as amd_tools
from .toolchain import nvidia_tools as nvidia_tools
from .toolchain import nvrtc_tool as nvrtc_tool
from .toolchain import nvvm_tools as nvvm_tools
from .toolchain import versions_for as versions_for
