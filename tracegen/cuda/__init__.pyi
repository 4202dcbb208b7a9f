from . import host_code as host_code
from . import includes as includes
from .program import COMPILED as COMPILED
from .program import FIRST as FIRST
from .program import HEADERS as HEADERS
from .program import CudaProgram as CudaProgram
from .program import launch_shape as launch_shape
from .program import read_program as read_program
