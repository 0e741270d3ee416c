"""Ask with plain `requests`: one session for all calls, a deadline on both sides, and patience where it helps.

pip install requests
python examples/clients/with_requests.py [URL]
"""

import json
import sys
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

SAMPLE = Path(__file__).parents[1] / "model_repository" / "breast_cancer" / "sample.json"


def session_for(callers: int) -> requests.Session:
    """Connections for as many threads as will call at once; 429 and 503 are tried again when the server says so."""
    patience = Retry(total=3, status_forcelist=(429, 503), allowed_methods=None, respect_retry_after_header=True)
    session = requests.Session()
    session.mount("http://", HTTPAdapter(pool_maxsize=callers, max_retries=patience))
    return session


def main(url: str) -> None:
    question = json.loads(SAMPLE.read_text())
    with session_for(callers=8) as session:
        answer = session.post(
            f"{url}/v2/models/breast_cancer/infer",
            json=question,
            headers={"Guepard-Timeout-Ms": "2000"},  # what is late is not computed
            timeout=5,  # and what is lost is not waited for
        )
        if answer.status_code != 200:
            sys.exit(f"{answer.status_code}: {answer.json()['error']}")
        label, probabilities = answer.json()["outputs"]
        print("label", label["data"], "probabilities", [round(value, 4) for value in probabilities["data"]])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
