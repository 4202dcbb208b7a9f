"""Figures 5 to 8 of the history models' paper: tiled LU scheduled by times that it measures itself."""
