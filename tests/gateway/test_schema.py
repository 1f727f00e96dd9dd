"""The gateway keeps its own OpenAPI document, whatever is sent: schemathesis asks."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings, strategies
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.pictures import picture, png

schemathesis.openapi.format("binary", strategies.sampled_from([png(picture(64, 64)), b"no picture"]))
schema = schemathesis.pytest.from_fixture("document")


@pytest.fixture(scope="session")
def document(gateway):
    return schemathesis.openapi.from_url(f"{gateway.url}/openapi.json")


@schema.parametrize()
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_the_document_tells_of(case):
    # Ranges, sizes and prompts are Triton's to judge: what the document allows may still be a 422.
    case.call_and_validate(excluded_checks=[positive_data_acceptance], timeout=60)
