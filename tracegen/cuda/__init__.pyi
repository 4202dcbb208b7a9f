from .host_code import device_code as device_code
from .host_code import without_built_in as without_built_in
from .program import COMPILED as COMPILED
from .program import FIRST as FIRST
from .program import CudaProgram as CudaProgram
from .program import launch_shape as launch_shape
from .program import read_program as read_program
