from .host import known_arguments as known_arguments
from .host import prepare as prepare
from .sites import readable as readable
