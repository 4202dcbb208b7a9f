from .model import BasicBlock as BasicBlock
from .model import Instruction as Instruction
from .model import Location as Location
from .model import MachineCode as MachineCode
from .model import MemoryOperation as MemoryOperation
