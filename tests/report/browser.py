"""Headless Chromium over its DevTools protocol, through a pair of pipes: standard library only."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

from harness import Failed, Skipped, check

# A container has no room for more shared memory, and root no sandbox.
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
           "--disable-background-networking", "--hide-scrollbars", "--force-prefers-reduced-motion", "--force-color-profile=srgb"]
LOCAL = ("file:", "blob:", "data:")


class Browser:
    def __init__(self, scratch):
        program = shutil.which("chromium") or shutil.which("google-chrome")
        if not program:
            raise Skipped("no chromium here")
        to_read, self.to = os.pipe()
        self.back, from_write = os.pipe()
        # Numbers above those that the child gives them.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_read, from_write)]

        def number():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen([program, *OPTIONS, f"--user-data-dir={scratch}", "--remote-debugging-pipe", "about:blank"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        pass_fds=(3, 4), preexec_fn=number)
        for end in (to_read, from_write, *ends):
            os.close(end)
        self.pending, self.number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)

    def ask(self, method, seconds=60, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        deadline = time.monotonic() + seconds
        while True:
            answer = self.receive(deadline, method)
            if answer.get("id") != self.number:
                self.events.append(answer)
                continue
            check("error" not in answer, f"{method}: {answer.get('error')}")
            return answer["result"]

    def receive(self, deadline, what):
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.back], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.back, 1 << 20) if ready else b""
            if not more:
                raise Failed(f"chromium does not answer to {what}")
            self.pending += more
        line, self.pending = self.pending.split(b"\0", 1)
        return json.loads(line)

    def open(self, path, width=1280, height=900, scheme="light"):
        return Page(self, path, width, height, scheme)


class Page:
    def __init__(self, browser, path, width, height, scheme):
        self.browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.scheme(scheme)
        started = time.monotonic()
        self.ask("Page.navigate", url="file://" + os.path.abspath(path))
        # A page that is being read answers late, and may be another document first.
        while self.value("document.body !== null && document.body.hasAttribute('data-ready')") is not True:
            check(time.monotonic() < started + 60, f"the page does not become ready: {self.troubles()}")
            time.sleep(0.02)
        self.opened_s = time.monotonic() - started

    def ask(self, method, seconds=60, **parameters):
        return self.browser.ask(method, seconds, self.session, **parameters)

    def scheme(self, scheme):
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def value(self, expression):
        """Of JavaScript, waited for if it is a promise."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failed(f"{expression}: {json.dumps(answer['exceptionDetails'])[:2000]}")
        return answer["result"].get("value")

    def text(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)}).innerText")

    def settle(self):
        """Until what was asked for has been drawn."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=13 if key == "Enter" else 0, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)
        self.settle()

    def type(self, text):
        self.ask("Input.insertText", text=text)

    def mouse(self, what, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=what, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def drag(self, x, y, to_x, to_y):
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for part in (0.3, 0.6, 1):
            self.mouse("mouseMoved", x + part * (to_x - x), y + part * (to_y - y), button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y, button="left")
        self.settle()

    def wheel(self, x, y, by, modifiers=0):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=by, modifiers=modifiers)
        self.settle()

    def box(self, selector):
        """x, y, width and height of an element in the window, once it has been scrolled there."""
        return self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
                          "const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()")

    def screenshot(self, path, whole=False):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]))

    def troubles(self):
        """Errors on the console, and requests that leave the page's own file."""
        self.value("0")
        told = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, parameters = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                told.append(json.dumps(parameters["exceptionDetails"])[:1000])
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert", "warning"):
                told.append(json.dumps(parameters["args"])[:1000])
            elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                told.append(json.dumps(parameters["entry"])[:1000])
            elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(LOCAL):
                told.append("asks for " + parameters["request"]["url"][:200])
        return told
