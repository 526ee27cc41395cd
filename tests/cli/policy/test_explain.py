"""Every unit documents itself."""

import pytest

from tests.cli.objects import call
from webhook.cli.policy.explain import Documented, documented
from webhook.whatif.offline import load_policy

UNITS = list(documented(load_policy()))


@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_a_unit_says_what_it_means_and_its_settings(unit: Documented) -> None:
    printed = call("policy", "explain", unit.name)
    assert printed.exit_code == 0
    assert unit.text in printed.stdout
    assert len(unit.text) > 200, "one line is not enough for the person who has to run it"
    assert all(f"{key}:" in printed.stdout for key in unit.settings)


def test_the_list_has_every_unit_in_run_order() -> None:
    lines = call("policy", "explain").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [unit.name for unit in UNITS]


def test_a_misspelt_unit_is_answered_with_the_nearest() -> None:
    result = call("policy", "explain", "gpuFit")
    assert result.exit_code == 2
    assert result.stderr == 'error: saw "gpuFit", wanted an injector or a rule; did you mean gpuFits?\n'
