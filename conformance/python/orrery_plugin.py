"""pytest plugin loaded into every run of the SDK's own tests; `cargo xtask conformance` reads what it writes.

Two jobs:

* Report. One JSON line per event goes to the file named by ORRERY_EVENTS the moment it happens, so
  that a file killed by its time limit still yields the results it had reached.
* Stand in. The suite imports two names from a package that is not published. Both only matter for
  a cloud account with a token login, which is never the case here.
"""

import json
import os
import sys
import types


def _stand_in_for_unpublished_package():
    def get_credential(**_options):
        return None

    def is_live():
        return False

    package = types.ModuleType("devtools_testutils")
    recorded = types.ModuleType("devtools_testutils.azure_recorded_testcase")
    recorded.get_credential = get_credential
    liveness = types.ModuleType("devtools_testutils.helpers")
    liveness.is_live = is_live
    for module in (package, recorded, liveness):
        sys.modules.setdefault(module.__name__, module)


_stand_in_for_unpublished_package()


class Reporter:
    """Appends events, one JSON object a line; a line is written whole or not at all."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="utf-8", buffering=1)

    def _event(self, **fields):
        self._file.write(json.dumps(fields) + "\n")

    def pytest_collection_finish(self, session):
        for item in session.items:
            self._event(event="selected", test=item.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self._event(event="unreadable", test=report.nodeid, message=_last_line(report))

    def pytest_runtest_logreport(self, report):
        outcome = _outcome(report)
        if outcome is not None:
            message = "" if outcome == "pass" else _last_line(report)
            self._event(
                event="result",
                test=report.nodeid,
                outcome=outcome,
                seconds=round(report.duration, 3),
                message=message,
            )


def _outcome(report):
    """What this phase says about its test; None when it says nothing new."""
    if report.when == "call":
        return {"passed": "pass", "failed": "fail", "skipped": "skip"}[report.outcome]
    if report.failed:
        return "error"
    if report.skipped:
        return "skip"
    return None


def _last_line(report):
    crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
    if crash is None and isinstance(report.longrepr, tuple):
        crash = report.longrepr[2]
    text = str(crash if crash is not None else report.longrepr or "")
    return text[:500]


def pytest_configure(config):
    # The suite marks tests for its own pipelines; unregistered marks would only be noise.
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnknownMarkWarning")
    path = os.environ.get("ORRERY_EVENTS")
    if path:
        config.pluginmanager.register(Reporter(path), "orrery-reporter")
