from .any_trace import launch_names as launch_names
from .any_trace import read_any as read_any
from .any_trace import read_counters as read_counters
from .any_trace import read_one as read_one
