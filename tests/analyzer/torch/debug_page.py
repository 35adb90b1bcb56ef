"""The page of torch's debug server on dumps of the flight recorder: debug_page.py DUMP..."""

import sys

from jinja2 import DictLoader, Environment
from torch.distributed.debug import _frontend as frontend

environment = Environment(loader=DictLoader({"base.html": frontend.BASE_TEMPLATE, "page": frontend.JSON_RESP_TEMPLATE}))
environment.globals.update(zip=zip, format_json=frontend.format_json, enumerate=enumerate, nav_links="")
responses = [frontend.Response(200, open(path).read()) for path in sys.argv[1:]]
responses.append(frontend.Response(503, "worker is gone"))
print(environment.get_template("page").render(
    title="FlightRecorder", addrs=[f"host:{i}" for i in range(len(responses))], resps=responses))
