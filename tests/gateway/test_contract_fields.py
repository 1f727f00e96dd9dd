"""The gateway's fields against the contract's table: an input added there is a field here, or said not to be one."""

from __future__ import annotations

import pytest

from qwen_image_client import InvalidRequest
from qwen_image_client.integration import DEFAULT_GUIDANCE
from qwen_image_contract import INPUTS
from qwen_image_gateway.errors import error_from_client
from qwen_image_gateway.requests.image_request import ImageRequest
from qwen_image_gateway.schemas import OTHERWISE, PASSED_ON, Fields

NO_FIELDS = {"sigmas"}  # of which the gateway never hears an error, either


def test_what_is_not_passed_on_is_an_input():
    assert OTHERWISE.keys() <= {each.name for each in INPUTS}


@pytest.mark.parametrize("name", PASSED_ON)
def test_a_field_of_an_inputs_name_reaches_the_client(name):
    (declared,) = (each for each in INPUTS if each.name == name)
    value = declared.minimum
    assert value is not None
    fields = Fields(prompt="a star", **{name: value})
    assert ImageRequest.from_generation_fields(fields, DEFAULT_GUIDANCE).options[name] == value


@pytest.mark.parametrize("name", [each.name for each in INPUTS if each.name not in NO_FIELDS])
def test_an_error_of_an_input_names_a_field(name):
    error = error_from_client(InvalidRequest(f"{name}=7 is not allowed"))
    assert error.param in {*Fields.model_fields, "image", "mask", "strength"}
