"""The messages and services of proto/beamline/v1, generated."""
