"""Nothing that users write changes unnoticed; tests/client/public_api.py says how a wanted change is stored."""

from tests.client.public_api import STORED_API, STORED_HELP, command_line_help, public_api


def test_public_names_and_their_signatures_are_the_stored_ones():
    assert public_api() == STORED_API.read_text()


def test_commands_and_options_are_the_stored_ones():
    assert command_line_help() == STORED_HELP.read_text()
