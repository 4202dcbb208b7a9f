from .load import load_kernel as load_kernel
from .made_up import arguments as arguments
from .settings import WrongSetting as WrongSetting
from .workload import Workload as Workload
