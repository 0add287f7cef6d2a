"""Opsets by name, and docs/opsets.md, which is generated from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotape import cli, opset_tables, opsets
from autotape.operator import OPERATORS

PAGE = Path(__file__).parent.parent / "docs" / "opsets.md"


def test_opsets_are_loaded_by_name():
    assert opsets.names() == ["array", "scipy", "v20"]
    from autotape.opsets import v20

    assert opsets.load("v20") is v20
    with pytest.raises(ValueError, match="opset 'v21' is unknown: known are 'array', 'scipy', 'v20'"):
        opsets.load("v21")


@pytest.mark.parametrize("opset", opsets.names())
def test_public_names_say_what_they_are(opset):
    module = opsets.load(opset)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert opset_tables.summary(getattr(module, name)).endswith((".", ":")), name


def test_operators_of_v20_are_public():
    v20 = opsets.load("v20")
    operators = {name.partition(".")[2]: op.front for name, op in OPERATORS.items() if name.startswith("v20.")}
    assert operators.items() <= {name: getattr(v20, name) for name in v20.__all__}.items()


def test_the_page_is_up_to_date(capsys):
    assert cli.main(["opsets"]) == 0
    assert PAGE.read_text(encoding="utf-8") == capsys.readouterr().out, "python -m autotape opsets > docs/opsets.md"


def test_rows_say_what_is_declared():
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in opset_tables.page().splitlines() if line.startswith("| `")}
    assert "`w`, `x`, `b?`, `z?` | `act='relu'`" in rows["`conv_bias_act`"]
    assert rows["`max_pool_x`"].endswith("| any order in `v` |") and "| `v`, `x`, `m` |" in rows["`max_pool_x`"]
    assert "`meaninit=zeros`" in rows["`bnmoments`"] and "| `y`, `mean`, `var` |" in rows["`normalise`"]
    for name in ("`accuracy`", "`isnan`", "`bitwise_and`", "`matrix_rank`", "`bnparams`"):
        assert rows[name].endswith("| none |")
    assert "`logp`, `logsoftmax`" in rows and "`**kwargs`" in rows["`apply_along_axis`"]
