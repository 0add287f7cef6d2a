"""Hypothesis profiles: "ci", the default, draws the same examples on every run; "nightly" draws ten times as many new ones.

HYPOTHESIS_PROFILE=nightly names the seed at the top; --hypothesis-seed=SEED beside it draws the same again.  Tests that ask
for a number of examples of their own do so as a part of the profile's: settings(max_examples=settings().max_examples // 2).
"""

import os
import random

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("nightly", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(PROFILE)


def pytest_configure(config):
    if PROFILE == "nightly" and config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = random.SystemRandom().getrandbits(32)


def pytest_report_header(config):
    if PROFILE == "nightly":
        seed = config.getoption("hypothesis_seed")
        return f"the same examples again: HYPOTHESIS_PROFILE=nightly python -m pytest --hypothesis-seed={seed}"
