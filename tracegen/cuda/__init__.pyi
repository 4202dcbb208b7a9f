from .front_end import host_clang as host_clang
from .launch import CudaLaunch as CudaLaunch
from .program import COMPILED as COMPILED
from .program import CudaProgram as CudaProgram
from .run import CudaRun as CudaRun
from .run import PreparedCuda as PreparedCuda
from .run import parsed as parsed
from .run import prepare as prepare
