"""Where a bot's token is looked for."""

import pytest

from gateway.platforms.transport import token_variable
from hermes_config.secrets import SECRETS
from hermes_config.types import Secret


@pytest.mark.parametrize("secret", [one for one in SECRETS if one.per_account], ids=lambda one: one.env)
def test_a_wrong_token_is_told_by_the_variable_that_settings_read(secret: Secret) -> None:
    (platform,) = secret.enables
    assert token_variable(platform, secret.env) == secret.env
    assert token_variable(f"{platform}@work", secret.env) == secret.env_of("work")
