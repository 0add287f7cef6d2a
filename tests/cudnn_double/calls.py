"""How the files here list the calls they answer: each function is called by cuDNN's name with the double and the header's arguments."""

import functools

import numpy as np

from .memory import wait


class Calls(dict):
    def answers(self, function, name=None):
        self[name or function.__name__] = function
        return function

    def computes(self, function, name=None):
        """As answers, and what the handle's stream was given before is done first; other streams' work is not."""

        @functools.wraps(function)
        def call(double, handle, *args):
            wait(handle.stream)
            with np.errstate(all="ignore"):
                return function(double, handle, *args)

        return self.answers(call, name or function.__name__)
