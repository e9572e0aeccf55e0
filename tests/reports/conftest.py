"""Each kernel here runs stepped, natively, and on a GPU where there is one."""

import pytest

import tilewright

TARGETS = ["eager", pytest.param("cpu", marks=pytest.mark.cpu)]
TARGETS += [pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.fixture(params=TARGETS)
def target(request):
    with tilewright.options(target=request.param):
        yield request.param


@pytest.fixture(params=TARGETS[:2])
def host_target(request):
    """For kernels that are given addresses of this computer's memory."""
    with tilewright.options(target=request.param):
        yield request.param


@pytest.fixture(params=TARGETS[1:])
def native_target(request):
    """For kernels whose programs wait for later ones, which stepping does not start."""
    with tilewright.options(target=request.param):
        yield request.param
