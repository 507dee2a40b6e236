"""Looks at the page of a running server in a browser, at the widths of a phone and of a desk, light and
dark: figures have come, nothing was reported, nothing is wider than the window. Usage:
page.py BROWSER URL DIRECTORY, where the pictures go."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import time

# What the page has to say before it is looked at, and what is looked at.
READY = "document.getElementById('link').className === 'live'"
CHECKS = {
    "the rate is a number": "/^[0-9]/.test(document.getElementById('rate').textContent)",
    "there is a verdict": "/good|warning|alarm/.test(document.getElementById('verdict').className)",
    "commands have times": "document.querySelectorAll('#calls tbody tr').length >= 4",
    "amplification is told": "document.querySelector('#write .say') !== null",
    "keys are listed": "document.querySelectorAll('#keys li').length > 0",
    "a value is shown": "document.querySelector('#value pre, #value table') !== null",
    "nothing is wider than the window": "document.documentElement.scrollWidth <= innerWidth",
}
FIRST_KEY = "document.querySelector('#keys button')?.click()"


class Browser:
    """A browser that is told what to do by a pipe, a JSON object and a zero byte at a time."""

    def __init__(self, program):
        (theirs, self.to), (self.answers, answering) = os.pipe(), os.pipe()

        def ends():
            os.dup2(theirs, 13), os.dup2(answering, 14), os.dup2(13, 3), os.dup2(14, 4)

        command = [program, "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(command, close_fds=False, preexec_fn=ends, stderr=subprocess.DEVNULL)
        os.close(theirs), os.close(answering)
        self.number, self.rest, self.reported = 0, b"", []

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                self.rest += os.read(self.answers, 1 << 20)
            one, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(one)
            if answer.get("id") == self.number:
                return answer["result"]
            entry = answer.get("params", {}).get("entry", {})
            if answer.get("method") == "Runtime.exceptionThrown" or entry.get("level") == "error":
                self.reported.append(answer["params"])


def look(browser, url, width, height, scheme, picture):
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(method, **params):
        return browser.call(method, session, **params)

    def value(expression):
        return call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(expression):
        end = time.monotonic() + 20
        while not value(expression):
            assert time.monotonic() < end, f"the page never came to {expression}"
            time.sleep(0.1)

    for domain in ("Page", "Runtime", "Log"):
        call(f"{domain}.enable")
    call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    call("Emulation.setDeviceMetricsOverride", **screen)
    call("Emulation.setScrollbarsHidden", hidden=True)
    call("Page.navigate", url=url)
    wait(READY)
    wait("document.querySelectorAll('#keys li').length > 0")
    value(FIRST_KEY)
    wait(CHECKS["a value is shown"])
    failed = [name for name, check in CHECKS.items() if not value(check)]
    shot = call("Page.captureScreenshot", format="png")
    picture.write_bytes(base64.b64decode(shot["data"]))
    browser.call("Target.closeTarget", targetId=target)
    assert not failed, f"{picture.name}: not so: {failed}"
    assert not browser.reported, f"{picture.name}: {browser.reported}"


def main():
    program, url, directory = sys.argv[1:]
    browser = Browser(program)
    try:
        for name, width, height in (("phone", 390, 844), ("desk", 1280, 800)):
            for scheme in ("light", "dark"):
                look(browser, url, width, height, scheme, pathlib.Path(directory) / f"page-{name}-{scheme}.png")
    finally:
        browser.process.terminate()


main()
