from .choice import choose as choose
from .choice import chosen as chosen
from .choice import survey as survey
