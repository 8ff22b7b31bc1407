"""Print the OpenAPI document of the control API: `python -m eosin.lab.http > docs/lab-openapi.json`."""

import json

from eosin.lab.http.application import BASE, ENDPOINTS
from eosin.lab.http.openapi import document

if __name__ == "__main__":
    print(json.dumps(document(ENDPOINTS, BASE), indent=1, ensure_ascii=False))
