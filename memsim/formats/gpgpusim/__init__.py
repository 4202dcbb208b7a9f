"""GPGPU-Sim's configuration files, read as machines."""
