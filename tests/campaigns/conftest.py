"""The cluster of the tests of jobs."""

from tests.jobs.conftest import client as client
