from .collection import Generator as Generator
from .collection import KernelCollection as KernelCollection
from .collection import MatchCondition as MatchCondition
from .collection import MeasurementKernel as MeasurementKernel
from .collection import TagError as TagError
from .generators import ALL_GENERATORS as ALL_GENERATORS
from .global_memory import gather as gather
