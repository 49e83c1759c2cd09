"""The version of the package, which is that of Beamline (the project's CMakeLists.txt)."""

__version__ = "0.2.0"
