"""Training: the data sets, models and loop of the command `autotape train`.  `import autotape` doesn't import it."""


class InputError(ValueError):
    """A file or an option that can't be used; the message says why and what would be right."""
