"""Each kernel here runs stepped and natively."""

import pytest

import tilewright


@pytest.fixture(params=["eager", pytest.param("cpu", marks=pytest.mark.cpu)])
def target(request):
    with tilewright.options(target=request.param):
        yield request.param
