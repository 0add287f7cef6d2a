"""Settings for all tests: the same examples on every run, unless HYPOTHESIS_PROFILE=random asks for new ones."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
