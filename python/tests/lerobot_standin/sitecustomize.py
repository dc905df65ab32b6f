"""Stands in for what LeRobot imports and its loop of teleoperation does not use, PyTorch first of all: every name of these modules is an empty class."""

import abc
import importlib.machinery
import sys
import types

ABSENT = {"torch", "diffusers", "requests", "imageio", "torchvision", "accelerate", "rerun", "cv2", "datasets", "einops", "PIL", "av", "gymnasium", "pandas", "pyarrow"}


class _Names(abc.ABCMeta):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Names(name, (Empty,), {})

    def __or__(cls, other):
        return cls

    __ror__ = __or__


class Empty(metaclass=_Names):
    def __init__(self, *_, **__):
        pass

    def __call__(self, *given, **_):
        return given[0] if given and callable(given[0]) else self


def _name(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Names(name, (Empty,), {})


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, Finder, is_package=True) if name.split(".")[0] in ABSENT else None

    @staticmethod
    def create_module(spec):
        module = types.ModuleType(spec.name)
        module.__getattr__, module.__version__ = _name, "0.0"
        return module

    @staticmethod
    def exec_module(module):
        pass


sys.meta_path.append(Finder)
