"""Settings from the environment and from the command line."""

from __future__ import annotations

import pytest

from webhook.errors import BadInput
from webhook.server.settings import ServeSettings
from webhook.tls.issue import service_names


def test_the_environment_gives_what_the_command_line_leaves_out() -> None:
    given = ServeSettings(port=0, policy=None)
    found = given.completed(
        {"GPU_ADMISSION_PORT": "1", "GPU_ADMISSION_POLICY": "x", "GPU_ADMISSION_DRAIN_SECONDS": "3"}
    )
    assert (found.port, found.policy, found.drain_seconds) == (0, "x", 3.0)


def test_a_wrong_value_in_the_environment_is_named() -> None:
    with pytest.raises(BadInput, match=r'^GPU_ADMISSION_MAX_AGE: saw "soon": Input should be a valid number'):
        ServeSettings().completed({"GPU_ADMISSION_MAX_AGE": "soon"})


def test_the_names_of_the_certificate_are_those_that_the_api_server_asks_for() -> None:
    settings = ServeSettings()
    assert service_names(settings.service, settings.namespace)[0] == "gpu-admission.gpu-admission.svc"
