"""The simulated Redis of the unit tests (sim/redis) beside the real one: what it answers to the engine's
scripts and to plain commands must be the same, byte for byte, so that what is proven on it holds."""

import os
import subprocess

import pytest
from redis import REDIS_SERVER, Redis

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
COMPARE = os.path.join(ROOT, "build", "test", "sim", "redis_compare_test")


@pytest.mark.skipif(not REDIS_SERVER, reason="no redis-server")
@pytest.mark.skipif(not os.path.exists(COMPARE), reason="make unit was not run")
@pytest.mark.long
def test_the_simulated_redis_answers_as_a_real_one():
    with Redis() as redis:
        version = redis.call("INFO", "server").decode()
        if "redis_version:7.0." not in version or "valkey" in version:
            pytest.skip("it speaks as Redis 7.0 does, and this is another")
        done = subprocess.run([COMPARE], timeout=600, capture_output=True, text=True, check=False,
                              env={**os.environ, "LATERD_REDIS_PORT": str(redis.port),
                                   "SIM_SEEDS": os.environ.get("COMPARE_SEEDS", "200"), "SIM_SEED": ""})
        assert done.returncode == 0, done.stdout + done.stderr
