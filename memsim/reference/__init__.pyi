from .sets import Line as Line
from .sets import empty_set as empty_set
