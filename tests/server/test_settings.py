"""Settings from the command line and from the environment."""

import pytest

from webhook.errors import BadInput
from webhook.server.settings import ServeSettings
from webhook.tls.issue import service_names


def test_settings_that_are_not_on_the_command_line_come_from_the_environment() -> None:
    given = ServeSettings(port=0, policy=None)
    settings = given.with_environment(
        {"GPU_ADMISSION_PORT": "1", "GPU_ADMISSION_POLICY": "x", "GPU_ADMISSION_DRAIN_SECONDS": "3"}
    )
    assert (settings.port, settings.policy, settings.drain_seconds) == (0, "x", 3.0)


def test_a_wrong_value_in_the_environment_is_refused_with_its_variable() -> None:
    with pytest.raises(BadInput, match=r'^GPU_ADMISSION_MAX_AGE: saw "soon": Input should be a valid number'):
        ServeSettings().with_environment({"GPU_ADMISSION_MAX_AGE": "soon"})


def test_the_certificate_is_for_the_name_that_the_api_server_calls() -> None:
    settings = ServeSettings()
    assert service_names(settings.service, settings.namespace)[0] == "gpu-admission.gpu-admission.svc"
