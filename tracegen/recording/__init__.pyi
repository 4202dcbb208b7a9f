from .snapshot import WAVES as WAVES
