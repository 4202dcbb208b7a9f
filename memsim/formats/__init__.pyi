from .profilers.read import LARGEST as LARGEST
from .profilers.read import CounterFile as CounterFile
from .profilers.read import Launch as Launch
from .profilers.read import read_counters as read_counters
from .reading import launch_names as launch_names
from .reading import read_any as read_any
from .reading import read_one as read_one
