"""Lists the packages: the folders backends/ and opsets/ install as autotape.backends and autotape.opsets.  setup.cfg has the rest."""

from setuptools import find_packages, setup

MAPPED = ["backends", "backends.*", "opsets", "opsets.*"]

setup(packages=find_packages(include=["autotape", "autotape.*"]) + [f"autotape.{name}" for name in find_packages(include=MAPPED)])
