"""Hardware descriptions: names, figures and the errors about both."""

import pytest

from tilewright.instruments.hardware import NAMED, HardwareError, parse_hardware


def test_figures():
    hardware = parse_hardware("fp32=20e12, bandwidth=1e12")
    assert (hardware.bandwidth, hardware.peaks) == (1e12, {"fp32": 20e12})
    assert hardware.source == "given"


def test_names():
    assert parse_hardware("t4") is NAMED["T4"]
    assert parse_hardware("h100_sxm") is NAMED["H100-SXM"]
    assert parse_hardware("H100") is NAMED["H100-SXM"]
    assert NAMED["H200"].bandwidth == 4.8e12
    assert all(h.source == "named" and "fp32" in h.peaks for h in NAMED.values())


def test_a_name_with_other_figures():
    hardware = parse_hardware("H200,bandwidth=4e12")
    assert hardware.bandwidth == 4e12
    assert hardware.peaks == NAMED["H200"].peaks
    assert hardware.source == "given"


def test_peaks_that_stand_in():
    h200 = NAMED["H200"]
    assert h200.peak("fp8e4nv") == ("fp8", 1979e12)
    assert h200.peak("int32") == ("fp32", 67e12)
    assert parse_hardware("bandwidth=1e12").peak("fp32") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A100", "no hardware named 'A100' (did you mean A100-40 or A100-80?); known names are"),
        ("H20O", "no hardware named 'H20O' (did you mean H200?); known names are T4, V100,"),
        ("", "no hardware given; known names are T4,"),
        ("fp23=1e12,bandwidth=1e12", "no hardware figure 'fp23' (did you mean fp32?); figures are"),
        ("bandwidht=1", "no hardware figure 'bandwidht' (did you mean bandwidth?); figures are "),
        ("fp32=1e12", "hardware 'fp32=1e12' has no bandwidth; add bandwidth=BYTES_PER_SECOND"),
        ("bandwidth=fast", "bandwidth needs a positive number a second such as 1e12, not 'fast'"),
        ("bandwidth=-1", "bandwidth needs a positive number a second such as 1e12, not '-1'"),
    ],
)
def test_errors_say_what_is_known(text, message):
    with pytest.raises(HardwareError) as caught:
        parse_hardware(text)
    assert str(caught.value).startswith(message)


def test_this_computer_is_measured():
    hardware = parse_hardware("measured")
    assert hardware.source == "measured" and "this computer" in hardware.name
    assert 1e8 < hardware.bandwidth < 1e13
    assert all(1e8 < peak < 1e15 for peak in hardware.peaks.values())
    assert hardware.peaks["fp32"] > hardware.peaks["fp64"] * 0.8
