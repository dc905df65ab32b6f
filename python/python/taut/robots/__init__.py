"""Robots that come with the package, and those of other packages by the entry point group ``taut.robots``."""
