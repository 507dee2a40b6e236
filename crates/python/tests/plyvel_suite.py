"""Runs plyvel's own tests against `cleavedb.plyvel`: `plyvel_suite.py TEST_PLYVEL.PY`.

Fails if a test fails that `.ci/doors-skips` does not name, or passes although it does.
"""

import pathlib
import sys
import tempfile

import pytest

SKIPS = pathlib.Path(__file__).parents[3] / ".ci" / "doors-skips"


class Outcomes:
    def __init__(self):
        self.passed, self.failed = set(), set()

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.rpartition("::")[2]
        if report.failed:
            self.failed.add(name)
        elif report.when == "call" and report.passed:
            self.passed.add(name)


def main(source):
    lines = [line.split() for line in SKIPS.read_text().splitlines()]
    skips = {test for suite, test, *_ in lines if suite == "plyvel"}
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as folder:
        test = pathlib.Path(folder) / "test_plyvel.py"
        text = pathlib.Path(source).read_text()
        test.write_text(text.replace("import plyvel\n", "import cleavedb.plyvel as plyvel\n"))
        pytest.main(["-q", "-p", "no:cacheprovider", str(test)], plugins=[outcomes])
    passed, failed = outcomes.passed - outcomes.failed, outcomes.failed
    print(f"plyvel: {len(passed)} passed, {len(failed & skips)} skipped, {len(failed - skips)} failed")
    for name in sorted(failed - skips):
        print(f"{name} failed")
    for name in sorted(skips - failed):
        print(f"{name} passes, or is gone: take it off {SKIPS.name}")
    return bool(failed ^ skips) or not passed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
