from .errors import MemsimError as MemsimError
from .machine.file import load_machine as load_machine
from .machine.file import machine_names as machine_names
from .machine.model import Machine as Machine
from .montecarlo.launch_by_launch import replay_launches as replay_launches
from .montecarlo.one_launch import replay as replay
from .montecarlo.options import ReplayOptions as ReplayOptions
from .montecarlo.result import Replay as Replay
from .statistics import Estimate as Estimate
from .trace.file import read_launches as read_launches
from .trace.file import read_trace as read_trace
from .trace.file import write_trace as write_trace
from .trace.launches import Launches as Launches
from .trace.model import Trace as Trace

__version__: str
