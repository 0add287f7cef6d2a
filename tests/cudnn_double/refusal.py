"""How the double says no: a status of cuDNN's, by its name without CUDNN_STATUS_, and a reason that names the argument."""


class Refused(Exception):
    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


def bad(reason):
    return Refused("BAD_PARAM", reason)


def unsupported(reason):
    return Refused("NOT_SUPPORTED", reason)


def require(holds, reason):
    """An argument is wrong unless this holds."""
    if not holds:
        raise bad(reason)
