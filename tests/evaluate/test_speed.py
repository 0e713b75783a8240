"""Speed: what is timed, how often, and on which machine."""

import os
import time

import numpy as np
import pytest

from st_static.evaluate.speed import machine_load, processor_name, sentences_per_second, speed_texts


def test_slow_and_fast_encoders_are_told_apart_and_slow_ones_get_fewer_texts():
    most = {"slow": 0, "fast": 0}

    def encoder(name, seconds_a_text):
        def encode(texts):
            most[name] = max(most[name], len(texts))
            time.sleep(seconds_a_text * len(texts))
            return np.zeros((len(texts), 2))

        return lambda: encode

    encoders = {"slow": encoder("slow", 1e-3), "fast": encoder("fast", 1e-5)}
    speeds = sentences_per_second(encoders, ["text"] * 1000, rounds=3, round_seconds=0.05)
    assert 300 < speeds["slow"] <= 1000
    assert speeds["slow"] < speeds["fast"] <= 100_000
    assert most["slow"] < most["fast"] == 1000


def test_making_an_encoder_takes_no_part():
    def make():
        time.sleep(0.05)
        return lambda texts: time.sleep(0.001)

    [speed] = sentences_per_second({"one": make}, ["a"] * 32, 1, 0.002).values()
    assert speed > 32 / 0.04


def test_the_texts_are_distinct_and_the_same_each_time():
    texts = speed_texts(40)
    assert texts == speed_texts(40)
    assert len(texts) == len(set(texts)) > 20


def test_the_processors_name(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: A  Chip @ 2GHz\n", "utf-8")
    assert processor_name(tmp_path / "cpuinfo") == "A Chip @ 2GHz"
    assert processor_name(tmp_path / "nothing")
    assert machine_load() == pytest.approx(os.getloadavg()[0], abs=1)
