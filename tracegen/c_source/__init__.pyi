from .expressions import Node as Node
from .expressions import Unreadable as Unreadable
from .expressions import parse as parse
