from .options import AdviseOptions as AdviseOptions
from .results import Advice as Advice
from .results import Tried as Tried
from .search import advise as advise
from .transformations import own_domain as own_domain
from .transformations import pad as pad
from .transformations import untag as untag
