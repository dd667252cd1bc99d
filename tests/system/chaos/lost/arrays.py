"""Tasks and an actor that return arrays which are too large for a message."""

from __future__ import annotations

import os

import numpy

import phalanx

LENGTH = 50_000
"""The length of an array that is too large for a message."""


@phalanx.remote
def fill(value, *_):
    return numpy.full(LENGTH, float(value))


@phalanx.remote
def add(left, right):
    return left + right


@phalanx.remote
def first(array):
    return array[0]


@phalanx.remote
class Reader:
    def __init__(self, array=None):
        self.kept = None if array is None else array[0]

    def first(self, array):
        return array[0]

    def fill(self, value):
        return numpy.full(LENGTH, float(value))

    def get_kept(self):
        return self.kept

    def put(self):
        self.mine = phalanx.put(numpy.zeros(LENGTH))
        return [self.mine]

    def leave(self):
        os._exit(1)
